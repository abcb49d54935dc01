"""The options that name checkpoint directories from elsewhere, and the sinks of their queries."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.connectors.places import is_hdfs, is_s3, output_place
from airflow_provider_ha.cli.savepoint_target import path_of
from airflow_provider_ha.control.job.requests import LATEST
from airflow_provider_ha.errors import ConfigurationError


From = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        help="Adopt a checkpoint directory that Spark wrote elsewhere, a path, s3://bucket/prefix or "
        "hdfs://namenode:8020/path; once for each query of the script. The name of the directory is the query's when "
        "none is given.",
        metavar="[QUERY=]PATH",
    ),
]
Sink = Annotated[
    list[str] | None,
    typer.Option(
        "--sink",
        help="With --from: output directory of the query's file sink, or 'foreachBatch', or another sink's format.",
        metavar="[QUERY=]PATH|FORMAT",
    ),
]


@dataclass(frozen=True, slots=True)
class Adopted:
    """Query -> checkpoint directory, and query -> sink; nothing when no path was named."""

    directories: dict[str, str]
    sinks: dict[str, str]


def adopted(adopt: list[str], sinks: list[str], start_from: str, source_job: str | None) -> Adopted:
    """Return what the options name.

    :raises ConfigurationError: They cannot be read, or say something else as well.
    """
    if adopt and (start_from != LATEST or source_job is not None):
        raise ConfigurationError(
            "--from names directories; --start-from and --from-job name a checkpoint of a job",
            next_step="Use one of them",
        )
    found: dict[str, str] = {}
    for value in adopt:
        name, text = _named(value)
        place = _place(text)
        if found.setdefault(name or place.rpartition("/")[2], place) != place:
            raise ConfigurationError(f"query {name!r} is named twice", next_step="Name each query once, as QUERY=PATH")
    return Adopted(found, dict(_sink(value, list(found)) for value in sinks))


def _place(text: str) -> str:
    """Return a place that does not depend on where the command is called."""
    if is_s3(text) or is_hdfs(text):
        return output_place(text)
    return str((path_of(text) or Path(text)).resolve())


def _sink(value: str, queries: list[str]) -> tuple[str, str]:
    name, text = _named(value)
    if name is None and len(queries) != 1:
        raise ConfigurationError(f"sink {value!r} names no query", next_step="Write it as QUERY=PATH, and name --from")
    return name or queries[0], text


def _named(value: str) -> tuple[str | None, str]:
    """Return name and rest of ``NAME=REST``; a path may hold an equals sign itself."""
    name, equals, rest = value.partition("=")
    return (name, rest) if equals and name and "/" not in name else (None, value)
