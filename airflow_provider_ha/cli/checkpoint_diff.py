"""``spark-ha checkpoint diff``: which two checkpoints are meant, and what differs between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.comparison.compare import compare
from airflow_provider_ha.checkpoints.comparison.side import read_side
from airflow_provider_ha.checkpoints.connectors.places import is_hdfs, is_s3
from airflow_provider_ha.checkpoints.retention.pointers import lease_name
from airflow_provider_ha.checkpoints.savepoints.named import named_savepoint
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.comparison_report import print_comparison
from airflow_provider_ha.cli.diff_sides import Sides, of_path, of_savepoint, on_hdfs, on_s3
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.requests import who
from airflow_provider_ha.cli.savepoint_target import path_of
from airflow_provider_ha.cli.session import AsJson, Target
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.coordination.leases import hold
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.views.comparison import comparison_view


# A comparison reads names and logs, and at most the state once. Only a command that was killed leaves its leases.
_LEASE_SECONDS = 3600.0


def diff(
    context: typer.Context,
    targets: Annotated[
        list[str],
        typer.Argument(
            help="Two checkpoint directories or savepoints (A B), one directory with --batch twice, or a managed job "
            "and two of its checkpoints or savepoints (JOB 12 15). A word with a slash is a path: write ./NAME. Either "
            "side may be s3://bucket/prefix or hdfs://namenode:8020/path.",
            metavar="A B | PATH | JOB A B",
        ),
    ],
    batch: Annotated[
        list[int] | None,
        typer.Option(
            min=0, help="Batch of a directory, the newest committed one by default. Twice: that of A, that of B."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what changed between two checkpoints of a query: offsets, watermark, conf, operators, schemas, state files.

    Nothing is changed. Exit 0: they are the same; 1: they differ; 2: one of them could not be read.
    """
    with _unknown_unless_read(as_json=as_json), ExitStack() as held:
        a, b = _both(held, context, targets, batch or [])
        comparison = compare(a, b)
    if as_json:
        console.print_json(comparison_view(comparison))
    else:
        print_comparison(comparison)
    raise typer.Exit(Exit.YES if comparison.same else Exit.NO)


@contextmanager
def _unknown_unless_read(*, as_json: bool) -> Iterator[None]:
    """A damaged or missing checkpoint gives no answer: whether it differed is unknown."""
    try:
        yield
    except HaError as error:
        console.print_error(error, as_json=as_json)
        raise typer.Exit(Exit.UNKNOWN) from error  # guard: unread-is-different


def _both(held: ExitStack, context: typer.Context, targets: list[str], batches: list[int]) -> tuple[Sides, Sides]:
    read = [_reader(target) for target in targets]
    if len(targets) == 3 and read[0] is None and not batches:  # noqa: PLR2004  # a job and two of its checkpoints
        return _of_job(held, context, *targets)
    found = [each for each in read if each is not None]
    if len(found) == 1 == len(targets) and len(batches) == 2:  # noqa: PLR2004  # one directory, two batches
        return found[0](batches[0]), found[0](batches[1])
    if len(found) == 2 == len(targets) and len(batches) <= 2:  # noqa: PLR2004  # two directories
        first, last = (batches[0], batches[-1]) if batches else (None, None)
        return found[0](first), found[1](last)
    raise ConfigurationError(
        f"{' '.join(targets)} with {len(batches)} times --batch does not name two checkpoints",
        next_step="Give two directories (./A ./B) or URIs (s3://bucket/A), one with --batch twice, or "
        "JOB NUMBER NUMBER",
    )


def _reader(target: str) -> Callable[[int | None], Sides] | None:
    """Return what reads a batch of a side; ``None`` for a word that is no place."""
    if is_s3(target):
        return on_s3(target)
    if is_hdfs(target):
        return on_hdfs(target)
    path = path_of(target)
    return None if path is None else partial(of_path, path)


def _of_job(held: ExitStack, context: typer.Context, job_id: str, first: str, last: str) -> tuple[Sides, Sides]:
    target: Target = context.obj
    client = held.enter_context(HaClient.open(target.config()))
    return _of_number(held, client, job_id, first), _of_number(held, client, job_id, last)


def _of_number(held: ExitStack, client: HaClient, job_id: str, word: str) -> Sides:
    """Return one checkpoint, or a savepoint where *word* is no number; a lease protects it until *held* ends."""
    job, found = client.context(job_id), client.job(job_id)
    number = int(word) if word.isascii() and word.isdigit() else None
    # A lease would make the nodes of what does not exist; what does is read again below, under the lease.
    if number is None:  # guard: leases-on-what-is-not-there
        word = named_savepoint(found.savepoints, word).savepoint_id
    else:
        found.checkpoints.pointer(number)
    name = f"savepoint-{word}" if number is None else lease_name(number)  # guard: savepoints-compared-without-a-lease
    lease = hold(job.coordinator, job.paths, name, holder=who(), seconds=_LEASE_SECONDS, clock=job.clock)
    held.callback(lease.release)  # guard: compared-without-a-lease
    if number is None:
        return of_savepoint(found.savepoints.tree(word), found.savepoints.load(word))
    checkpoint = found.checkpoints.load(found.checkpoints.pointer(number))
    root = job.area.tree(found.checkpoints.directory(checkpoint))
    return {
        query: read_side(root / query, part.batch, spark_version=checkpoint.spark_version)
        for query, part in checkpoint.queries.items()
    }
