"""``spark-ha checkpoint verify``: any Spark checkpoint directory, and the report about it for people."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.verification import VerificationView, proven_view
from airflow_provider_ha.checkpoints.spark import files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import COMMITS, METADATA, OFFSETS
from airflow_provider_ha.checkpoints.spark.places import directory_at
from airflow_provider_ha.checkpoints.spark.releases import installed_version, release
from airflow_provider_ha.checkpoints.spark.state_content import cores
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST
from airflow_provider_ha.checkpoints.verify.codes import MEANINGS, Code
from airflow_provider_ha.checkpoints.verify.proof_protocol import Application
from airflow_provider_ha.checkpoints.verify.proof_result import LoadedState, Proof, sentences
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Reason, VerificationReport
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.cli.session import AsJson, reported
from airflow_provider_ha.errors import ConfigurationError, StorageUnavailableError
from airflow_provider_ha.jobs.verification.spark_proof import DEFAULT_DEADLINE, DEFAULT_HEAP, ProofProgress, prove


class VerificationDepth(str, Enum):
    """Depth of the read."""

    QUICK = "quick"
    FULL = "full"


class ProofDepth(str, Enum):
    """Depth of the read, or a check with Spark itself."""

    QUICK = "quick"
    FULL = "full"
    PROVE = "prove"


CORES = cores()
Processes = Annotated[
    int,
    typer.Option(
        "--processes", help="full: how many processes decode large state here.", min=1, show_default="one a core"
    ),
]
_ANSWER = {True: Exit.YES, False: Exit.NO, None: Exit.UNKNOWN}
_SIGNS = {METADATA, OFFSETS, COMMITS}
_NOTHING_TO_JUDGE = frozenset({Code.UNREADABLE, Code.NOT_A_CHECKPOINT})
_SHOWN = 10  # children that are named


def verify_directory(
    path: Annotated[
        str,
        typer.Argument(
            help="A Spark checkpoint directory (one query), managed or not: a path, s3://bucket/prefix or "
            "hdfs://namenode:8020/path.",
            metavar="PATH",
        ),
    ],
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments of the application, after --.", metavar="[-- ARGUMENTS]")
    ] = None,
    depth: Annotated[
        ProofDepth,
        typer.Option(
            help="quick: names, sizes, logs and chains; full: every byte is decoded; prove: Spark itself loads one "
            "batch from a copy, and starts the query on it with no sink."
        ),
    ] = ProofDepth.QUICK,
    spark_version: Annotated[
        str | None, typer.Option(help="Judge for this release, X.Y.Z; default: the installed one.", metavar="X.Y.Z")
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            help="Output directory of the query's file sink, a path or s3://bucket/prefix: its log is judged together "
            "with the checkpoint.",
            metavar="PATH",
        ),
    ] = None,
    processes: Processes = CORES,
    batch: Annotated[
        int | None, typer.Option(help="prove: which batch; default: the newest restorable one.", metavar="N")
    ] = None,
    application: Annotated[
        Path | None,
        typer.Option(help="prove: the script that starts the query; its arguments follow after --.", metavar="FILE"),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="prove: which query of the script; default: the one with this checkpoint location, or this name."
        ),
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(help="prove: Spark's conf of the application; repeatable.", metavar="KEY=VALUE")
    ] = None,
    heap: Annotated[
        str | None, typer.Option(help=f"prove: memory of Spark's JVM; default: {DEFAULT_HEAP}.", metavar="SIZE")
    ] = None,
    deadline: Annotated[
        float | None,
        typer.Option(help=f"prove: seconds that Spark may take; default: {DEFAULT_DEADLINE:g}.", metavar="SECONDS"),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            help="prove: directory in which the copy is created and removed; default: the parent of PATH, or the "
            "directory of temporary files when PATH is not on this host."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Report whether Spark can start from a checkpoint directory, and to which batches it could be restored.

    Exit 0: it can start and continues with the right state; 1: it cannot; 2: it is missing or could not be read.
    With --depth prove for one batch: 0: Spark did it; 1: it refused; 2: it gave no answer.
    """
    with reported(as_json=as_json):
        directory, output = directory_at(path), None if sink is None else directory_at(sink)
        if depth is ProofDepth.PROVE:
            _check_release(spark_version)
            with _progress() as show:
                proof = prove(
                    directory,
                    batch=batch,
                    application=_application(application, arguments or [], conf or []),
                    query=query,
                    sink=output,
                    scratch_directory=scratch,
                    heap=heap or DEFAULT_HEAP,
                    deadline=DEFAULT_DEADLINE if deadline is None else deadline,
                    env=os.environ,
                    progress_to=show,
                )
            refuse_misnamed(path, directory, proof.verification)
            answer = _proof_answer(path, proof, as_json=as_json)
        else:
            if any(word is not None for word in (arguments, batch, application, query, conf, heap, deadline, scratch)):
                raise ConfigurationError(
                    "batch, application, query, conf, heap, deadline and scratch require a proof",
                    next_step="Add --depth prove",
                )
            with console.progress("reading the state") as tell:
                report = verify(
                    directory,
                    depth=depth.value,
                    spark_version=spark_version,
                    sink=output,
                    tell=tell,
                    processes=processes,
                )
            refuse_misnamed(path, directory, report)
            answer = _report_answer(path, report, as_json=as_json)
    raise typer.Exit(_ANSWER[answer])


def _report_answer(path: str, report: VerificationReport, *, as_json: bool) -> bool | None:
    console.show(VerificationView.of(report), lambda: print_report(path, report), as_json=as_json)
    return report.startable


def _proof_answer(path: str, proof: Proof, *, as_json: bool) -> bool | None:
    if as_json:
        console.print_json(proven_view(proof))
    else:
        print_report(path, proof.verification)
        print_proof(proof)
    return proof.proven


def _application(script: Path | None, arguments: list[str], conf: list[str]) -> Application | None:
    if script is None:
        if arguments or conf:
            raise ConfigurationError(
                "arguments and conf belong to an application, and none is named", next_step="Add --application FILE"
            )
        return None
    return Application(
        script=script.absolute(), arguments=tuple(arguments), conf=assigned(conf, "conf"), directory=Path.cwd()
    )


def _check_release(wanted: str | None) -> None:
    """Check the release: only the installed Spark can prove."""
    if release(wanted) != release(None):
        raise ConfigurationError(
            f"Spark {installed_version()} is installed, and a proof for {wanted} needs that release",
            next_step="Leave --spark-version out, or install that release in another environment and run it there",
        )


@contextmanager
def _progress() -> Iterator[Callable[[ProofProgress], None]]:
    """Show the current step on a terminal; nothing elsewhere."""
    with console.err.status("verifying") as status:
        yield lambda now: status.update(f"{now.doing} {now.done}/{now.of}" if now.of else now.doing)


def refuse_misnamed(named: str, directory: Tree, report: VerificationReport) -> None:
    """Refuse a place whose verification found no checkpoint, if its content can be identified.

    :param named: The place as the user wrote it.
    :raises ConfigurationError: It is missing, not a directory, a savepoint, or contains checkpoints; the message names
        them.
    :raises StorageUnavailableError: The storage did not answer.
    """
    if not any(finding.path == "." and finding.code in _NOTHING_TO_JUDGE for finding in report.findings):
        return
    found = directory.fresh()
    if not found.is_directory():
        raise _missing(named, directory)
    _offer_what_it_holds(named, found)


def _missing(named: str, directory: Tree) -> ConfigurationError:
    what, next_step = directory.absence()
    return ConfigurationError(f"{named} {what}", next_step=f"{next_step}, then verify again")


def _offer_what_it_holds(named: str, directory: Tree) -> None:
    names = files.names(directory)
    base = named.rstrip("/")
    if MANIFEST in names:
        raise ConfigurationError(
            f"{named} is a savepoint, not a query's checkpoint",
            next_step=f"Verify it with `spark-ha savepoint verify {shlex.quote(named)}`",
        )
    children = [name for name in names if not name.startswith(".") and _is_checkpoint(directory, name)]
    if not children:
        return
    more = f" and {len(children) - _SHOWN} more" if len(children) > _SHOWN else ""
    raise ConfigurationError(
        f"{named} is no checkpoint: it holds {'one' if len(children) == 1 else len(children)}, "
        f"{', '.join(children[:_SHOWN])}{more}",
        next_step=f"Verify one query: `spark-ha checkpoint verify {shlex.quote(f'{base}/{children[0]}')}`",
    )


def _is_checkpoint(directory: Tree, name: str) -> bool:
    with suppress(StorageUnavailableError):  # an unreadable child does not hide the others
        return bool(_SIGNS & set(files.names(directory, name)))
    return False


_SHOWN_PARTITIONS = 12


_SHOWN_REASONS = 3


def print_report(path: str, report: VerificationReport) -> None:
    """Print the report about the checkpoint at *path*."""
    sentence = {
        True: f"Spark can start from {path}",
        False: f"Spark cannot start from {path}",
        None: f"{path} could not be judged",
    }[report.startable]
    console.out.print(sentence, style="bold", markup=False)
    if report.restorable:
        console.out.print(
            f"it could be restored to {len(report.restorable)} batch(es), the latest is {report.latest_restorable}"
        )
    if report.sink is not None:
        has = "no batch" if report.sink.max_batch < 0 else f"every batch up to {report.sink.max_batch}"
        console.out.print(f"the log of the sink {report.sink.path} has {has}", markup=False)
    if report.batches:
        console.print_table(("BATCHES", "RESTORABLE", "LACKS"), batch_rows(report.batches), empty="")
    console.print_table(
        ("FINDING", "BLOCKS", "BATCH", "FILE", "EXPECTED", "FOUND"),
        (
            [item.code.value, _word(item.blocks), item.batch, item.path, item.expected or None, item.found]
            for item in report.findings
        ),
        empty="no problem was found",
    )
    for code in dict.fromkeys(item.code for item in report.findings):
        console.out.print(f"\n{code.value}: {MEANINGS[code].what}", markup=False)
        console.out.print(f"Next: {MEANINGS[code].next_step}", markup=False)


def batch_rows(batches: Iterable[BatchVerdict]) -> Iterator[tuple[str, str, str | None]]:
    """Yield (batches, restorable, missing requirements): neighbours with the same ones share a row."""
    for lacks, group in groupby(batches, key=lambda verdict: _lacks_text(verdict.reasons)):
        yield _range([verdict.batch for verdict in group]), _word(not lacks), lacks or None


def _range(batches: list[int]) -> str:
    first, last = batches[0], batches[-1]
    sparse = f" ({len(batches)} of them)" if last - first >= len(batches) else ""
    return str(first) if first == last else f"{first}-{last}{sparse}"


def _lacks_text(reasons: tuple[Reason, ...]) -> str:
    shown = ", ".join(f"{reason.code.value} {reason.path}" for reason in reasons[:_SHOWN_REASONS])
    more = len(reasons) - _SHOWN_REASONS
    return f"{shown} and {more} more" if more > 0 else shown


def _word(value: bool | None) -> str:  # a value to print
    return {True: "yes", False: "no", None: "unknown"}[value]


def print_proof(proof: Proof) -> None:
    """Print Spark's own results, below the verification."""
    answer, *steps = sentences(proof)
    console.out.print(f"\n{answer}", style="bold", markup=False)
    for step in steps:
        console.out.print(step, markup=False)
    if proof.state:
        console.print_table(("OPERATOR", "STATE", "ROWS", "BY PARTITION"), _rows(proof.state), empty="")
    if proof.started is not None:
        rows = ", ".join(map(str, proof.started.state_rows)) or "none"
        console.out.print(
            f"query {proof.started.name} committed batch {proof.started.batch}; rows of state: {rows}", markup=False
        )
    for finding in proof.findings:
        console.out.print(f"\n{finding.code.value} {finding.path}: {finding.message}", markup=False)
        console.out.print(MEANINGS[finding.code].what, markup=False)
        console.out.print(f"Next: {finding.next_step}", markup=False)


def _rows(state: tuple[LoadedState, ...]) -> Iterator[tuple[object, ...]]:
    for part in state:
        shown = " ".join(map(str, part.rows[:_SHOWN_PARTITIONS]))
        more = len(part.rows) - _SHOWN_PARTITIONS
        operator = f"{part.reading.operator} {part.reading.operator_name}".strip()
        yield operator, part.reading.title, sum(part.rows), f"{shown} and {more} more" if more > 0 else shown
