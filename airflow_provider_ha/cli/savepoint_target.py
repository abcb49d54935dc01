"""Savepoint of a command line: a local directory, a prefix of a bucket, or a savepoint of a managed job.

A word with a slash is a path or a URI, and one without is a job id, which cannot have a slash: the content of the
current directory never matters.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.spark.places import is_s3
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_directory import read_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_layout import StoredSavepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import named_savepoint, stored_savepoint
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_prefix import SavepointPrefix, open_savepoint
from airflow_provider_ha.cli.job_requests import who
from airflow_provider_ha.cli.session import cluster, reported
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.uris import split


SavepointTarget = Annotated[
    str,
    typer.Argument(
        help="Directory of a savepoint, s3://bucket/prefix/NAME, or the id of a managed job. A word with a slash is a "
        "path: write ./NAME for a directory below the current one.",
        metavar="PATH|URI|JOB",
    ),
]
SAVEPOINT_HELP = "Id of the job's savepoint, a prefix of the id, or its label."
SavepointOf = Annotated[str | None, typer.Argument(help=SAVEPOINT_HELP, metavar="[SAVEPOINT]")]

# Long enough for an archive of a terabyte. The lease ends with the command, unless it is killed.
_LEASE_SECONDS = 6 * 3600.0


def path_of(text: str) -> Path | None:
    """Return *text* as a path of this host; ``None`` when it is a job id.

    :raises ConfigurationError: It is a URI of another file system.
    """
    if text.startswith("file:"):
        return Path(split(text).path)
    if "://" in text:
        raise ConfigurationError(
            f"{text} is not on a file system of this host", next_step="Mount it, or copy it to this host first"
        )
    return Path(text) if "/" in text or text in {".", ".."} else None


def assigned(values: Sequence[str], what: str) -> dict[str, str]:
    """Return the NAME=VALUE words, in order.

    :raises ConfigurationError: A value has no name, or a name is repeated.
    """
    return _assigned(map(_at_the_first, values), what)


def places_of(values: Sequence[str], what: str) -> dict[str, str]:
    """Return the QUERY=PLACE words: a name is any text, and ends before the first path or URI.

    :raises ConfigurationError: As :func:`assigned`.
    """
    return _assigned([before_a_place(value) or _at_the_first(value) for value in values], what)


def before_a_place(value: str) -> tuple[str, str] | None:
    """Return name and place of ``QUERY=PLACE``, split before the first path or URI; ``None`` without one."""
    found = re.fullmatch(r"(.+?)=((?:\.{0,2}/|\w[\w+.-]*:/).*)", value, re.DOTALL)
    return (found[1], found[2]) if found is not None else None


def of_query(value: str, queries: Collection[str]) -> tuple[str, str] | None:
    """Return name and rest of ``QUERY=REST`` for a known query, the longest name first; ``None`` for others."""
    named = (each for each in sorted(queries, key=len, reverse=True) if value.startswith(f"{each}="))
    return next(((each, value.removeprefix(f"{each}=")) for each in named), None)


def _at_the_first(value: str) -> tuple[str, str]:
    name, _, rest = value.partition("=")
    return name, rest


def _assigned(parts: Iterable[tuple[str, str]], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, rest in parts:
        if not rest or name in found:
            raise ConfigurationError(f"{what} {name!r} cannot be read", next_step="Write each once, as NAME=VALUE")
        found[name] = rest
    return found


def by_query(values: list[str], what: str, places: Collection[str]) -> dict[str, str]:
    """Return query -> value; with a single query the name may be omitted.

    :param places: The named queries.
    :raises ConfigurationError: A value is empty or of no query, or its query is repeated.
    """
    only = next(iter(places)) if len(places) == 1 else None

    def named(value: str) -> tuple[str, str]:
        if (found := of_query(value, places)) is not None:
            return found
        if only is not None:
            return only, value
        raise ConfigurationError(
            f"{what} {value.partition('=')[0]!r} names no query",
            next_step=f"Write it as NAME=VALUE; queries are {', '.join(places)}",
        )

    return _assigned(map(named, values), what)


def number(text: str) -> int:
    """Return a batch.

    :raises ConfigurationError: It is not a number.
    """
    if not (text.isascii() and text.isdigit()):
        raise ConfigurationError(f"--batch {text!r} is not the number of a batch", next_step="Write it as 12")
    return int(text)


@contextmanager
def located(
    context: typer.Context, target: str, savepoint_id: str | None, *, as_json: bool
) -> Iterator[StoredSavepoint]:
    """Yield a savepoint; a job does not remove it before the block ends."""
    with reported(as_json=as_json):
        path = None if is_s3(target) else path_of(target)
        if (path is None and not is_s3(target)) == (savepoint_id is None):
            raise ConfigurationError(
                f"{target!r} names no savepoint",
                next_step="Give a job id and a savepoint id, a directory with a slash in it (./NAME), or a URI of S3",
            )
        if savepoint_id is None:
            yield open_savepoint(SavepointPrefix(target)) if path is None else read_savepoint(path)
    if savepoint_id is not None:
        with cluster(context, as_json=as_json) as client:
            job, store = client.context(target), client.job(target).savepoints
            # A lease would create nodes for a missing savepoint.
            savepoint_id = named_savepoint(store, savepoint_id).savepoint_id
            lease = hold(
                job.coordinator,
                job.paths,
                f"savepoint-{savepoint_id}",
                holder=who(),
                seconds=_LEASE_SECONDS,
                clock=job.clock,
            )
            try:
                yield stored_savepoint(store, savepoint_id)
            finally:
                lease.release()
