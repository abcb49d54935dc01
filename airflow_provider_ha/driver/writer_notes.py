"""Notes of the script's calls on a ``DataStreamWriter``: the JVM's writer cannot be queried.

Notes are needed twice: to refuse calls that rule out high availability, and to put the script's own sink and trigger
back after recorded batches were executed into another sink.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ha.checkpoints.connectors.other_sink import DEBUG_FORMATS
from airflow_provider_ha.checkpoints.connectors.sink_type import Conf
from airflow_provider_ha.checkpoints.connectors.sinks import type_of_format
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError


DEFAULT_TRIGGER = {"processingTime": "0 seconds"}
_NOTES = "_spark_ha_notes"


@dataclass(slots=True)
class WriterNotes:
    """The notes of a writer.

    :param options: Names in lower case, as Spark compares them.
    :param sink: Format that Spark uses: the script's, ``foreachBatch``, ``foreach`` or the session's default.
    :param function: The script's argument of ``foreachBatch`` or ``foreach``.
    :param is_named_by_sink: Whether the name is not the script's.
    :param partitions: Columns of ``partitionBy``.
    :param table: Name of a table that Spark itself has to find: the table keeps no record of batches.
    :param mode: Output mode; empty if the script sets none.
    """

    name: str | None = None
    sink: str | None = None
    function: Any = None
    options: dict[str, str] = field(default_factory=dict)
    trigger: dict[str, Any] = field(default_factory=lambda: dict(DEFAULT_TRIGGER))
    is_named_by_sink: bool = False
    partitions: tuple[str, ...] = ()
    table: str | None = None
    mode: str = ""


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """The output of a query, with the facts that a restart needs.

    :param source: Format name to give back to the writer.
    :param path: Output of a file sink, in its normal form: a path of this host, or a URI.
    :param table: Directory of a Delta or Iceberg table, in its normal form.
    :param unplanned: Whether rows reach it before their boundaries are written (:mod:`~.unplanned`).
    :param repeatable: Whether the script declares that a repeated batch leaves the output unchanged.
    """

    kind: SinkKind
    source: str
    path: str | None = None
    table: str | None = None
    unplanned: bool = False
    repeatable: bool = False


def notes(writer: Any) -> WriterNotes:
    """Return the notes on *writer*, made with the first call."""
    found = getattr(writer, _NOTES, None)
    if found is None:
        found = WriterNotes()
        setattr(writer, _NOTES, found)
    return found


def begins_anew(noted: WriterNotes, default_format: str) -> bool:
    """Return whether a query only displays rows, and has no past at any start: it is part of no checkpoint.

    Spark itself starts a query with a memory sink on its checkpoint in complete mode only. A query without a name whose
    rows go to a console, or nowhere, could not be found again.

    :param default_format: The session's ``spark.sql.sources.default``.
    """
    source = (noted.sink or default_format).lower()
    if not noted.name:
        return source in {*DEBUG_FORMATS, "noop"}
    return source == "memory" and noted.mode.lower() != "complete"


def check_options(name: str, noted: WriterNotes) -> None:
    """Refuse options that would take the query out of our control.

    :raises ApplicationRefusedError: Asynchronous progress.
    """
    if noted.options.get("asyncprogresstrackingenabled", "").lower() == "true":
        raise ApplicationRefusedError(
            f"query {name!r} tracks its progress asynchronously, so its checkpoints have gaps",
            next_step="Remove the option asyncProgressTrackingEnabled",
        )


def sink_word(noted: WriterNotes, default_format: str) -> str | None:
    """Return the sink's name in a request to adopt the query's checkpoint; ``None`` when it cannot be named."""
    source = noted.sink or default_format
    return type_of_format(source).name(source, noted.options.get("path"))


def sink_spec(name: str, noted: WriterNotes, default_format: str) -> SinkSpec:
    """Return the output of the query.

    :param default_format: The session's ``spark.sql.sources.default``.
    :raises ApplicationRefusedError: A file sink whose log cannot be read here.
    """
    source = noted.sink or default_format
    try:
        sink = type_of_format(source).sink(source, noted.options.get("path"))
    except ConfigurationError as error:
        # Continuing without its log would be silent loss: Spark skips every batch that the log already names.
        raise ApplicationRefusedError(
            f"query {name!r} writes files: {error.message}", next_step=error.next_step
        ) from error
    return SinkSpec(sink.kind, source, sink.path, sink.table)


def refuse_unfenced(name: str, noted: WriterNotes, default_format: str, conf: Conf) -> None:
    """Refuse an output where a driver taken for dead could overwrite the output of its successor.

    :param default_format: The session's ``spark.sql.sources.default``.
    :param conf: Returns a value of the session's conf.
    :raises ApplicationRefusedError: It is such an output.
    """
    refusal = type_of_format(noted.sink or default_format).refusal(noted.options.get("path", ""), conf)
    if refusal is not None:
        reason, next_step = refusal
        raise ApplicationRefusedError(f"query {name!r} {reason}", next_step=next_step)
