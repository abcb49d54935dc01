"""What the script said to a ``DataStreamWriter``, noted beside it: the JVM's writer cannot be asked.

Notes are needed twice: to refuse what cannot be made highly available, and to put the script's own sink and trigger
back after recorded batches were executed into another sink.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.connectors.delta import DELTA
from airflow_provider_ha.checkpoints.connectors.file_sink_log import FORMATS
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.working.pins import refuse_reserved
from airflow_provider_ha.driver.way_forward import from_own_location
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.names import check_name


DEFAULT_TRIGGER = {"processingTime": "0 seconds"}
_NOTES = "_spark_ha_notes"
_REFUSED_TRIGGERS = {
    "continuous": "a continuous query has no batches to stop at",
    "realTime": "a real-time query writes its plan only when a batch ends",
}


@dataclass(slots=True)
class WriterNotes:
    """Notes on one writer.

    :param options: Names in lower case, as Spark compares them.
    :param sink: Format that Spark uses: the script's, ``foreachBatch``, ``foreach`` or the session's default.
    :param function: What the script gave to ``foreachBatch`` or ``foreach``.
    """

    name: str | None = None
    sink: str | None = None
    function: Any = None
    options: dict[str, str] = field(default_factory=dict)
    trigger: dict[str, Any] = field(default_factory=lambda: dict(DEFAULT_TRIGGER))


@dataclass(frozen=True, slots=True)
class SinkSpec:
    """Where a query writes, as far as a restart has to know it.

    :param source: Format name to give back to the writer.
    :param path: Directory of a file sink.
    :param table: Directory of a Delta table.
    """

    kind: SinkKind
    source: str
    path: Path | None = None
    table: Path | None = None


def notes(writer: Any) -> WriterNotes:
    """Return the notes on *writer*, made with the first call."""
    found = getattr(writer, _NOTES, None)
    if found is None:
        found = WriterNotes()
        setattr(writer, _NOTES, found)
    return found


def checked_name(noted: WriterNotes, taken: frozenset[str]) -> str:
    """Return the query's name.

    :param taken: Names of the queries that run, or must not be started again.
    :raises ApplicationRefusedError: It has none, one that is in use, or one that cannot be a directory.
    """
    if not noted.name:
        raise ApplicationRefusedError(
            "a streaming query has no name, so its checkpoint could not be found again",
            next_step='Add .queryName("...") to every writeStream of the script',
        )
    if noted.name in taken:
        raise ApplicationRefusedError(
            f"two streaming queries of one run are named {noted.name!r}; they would share a checkpoint",
            next_step="Give every query its own name; stop a query before it is started again under its name",
        )
    try:
        refuse_reserved(noted.name)
        return check_name(noted.name, "query name")
    except ValueError as error:
        raise ApplicationRefusedError(str(error)) from error


def check_options(name: str, noted: WriterNotes, default_format: str = "parquet") -> None:
    """Refuse what would take the query out of our hands.

    :param default_format: The session's ``spark.sql.sources.default``.
    :raises ApplicationRefusedError: Own checkpoint location, asynchronous progress, or a trigger without batches.
    """
    if (own := noted.options.get("checkpointlocation")) is not None:
        raise ApplicationRefusedError(
            f"query {name!r} sets its own checkpointLocation {own!r}",
            next_step=from_own_location(name, own, _sink_word(noted, default_format)),
        )
    if noted.options.get("asyncprogresstrackingenabled", "").lower() == "true":
        raise ApplicationRefusedError(
            f"query {name!r} tracks its progress asynchronously, so its checkpoints have gaps",
            next_step="Remove the option asyncProgressTrackingEnabled",
        )
    for trigger, reason in _REFUSED_TRIGGERS.items():
        if noted.trigger.get(trigger):
            raise ApplicationRefusedError(
                f"query {name!r} has the trigger {trigger}: {reason}", next_step="Use processingTime or availableNow"
            )


def _sink_word(noted: WriterNotes, default_format: str) -> str | None:
    """Return how a request to adopt the query's checkpoint names the sink; ``None`` when it cannot name it."""
    source = noted.sink or default_format
    if source.lower() not in FORMATS:
        return source
    parts = urlsplit(noted.options.get("path", ""))
    path = unquote(parts.path) if parts.scheme == "file" else noted.options.get("path", "")
    return path if path.startswith("/") else None


def sink_spec(name: str, noted: WriterNotes, default_format: str) -> SinkSpec:
    """Return where the query writes.

    :param default_format: The session's ``spark.sql.sources.default``.
    :raises ApplicationRefusedError: A file sink whose log cannot be read here.
    """
    source = noted.sink or default_format
    if source == "foreachBatch":
        return SinkSpec(SinkKind.FOREACH_BATCH, source)
    path = noted.options.get("path")
    if source.lower() == DELTA:
        return SinkSpec(SinkKind.OTHER, source, table=_mounted(path))
    if source.lower() not in FORMATS:
        return SinkSpec(SinkKind.OTHER, source)
    return SinkSpec(SinkKind.FILE, source, local_path(name, path) if path else None)


def _mounted(path: str | None) -> Path | None:
    """Return the directory of a table; ``None`` when it is on no mounted file system, so that it cannot be read."""
    try:
        return local_path("", path) if path else None
    except ApplicationRefusedError:
        return None


def local_path(name: str, path: str) -> Path:
    """Return the directory that Spark means by *path*.

    :raises ApplicationRefusedError: It lies on a file system whose sink log cannot be read from here. To go on without
        it would be silent loss: Spark skips every batch that the log already names.
    """
    parts = urlsplit(path)
    if parts.scheme in ("", "file"):
        return Path(os.path.abspath(unquote(parts.path) if parts.scheme else path))  # noqa: PTH100  # links stay as they are
    raise ApplicationRefusedError(
        f"query {name!r} writes files to {path!r}; the log of a file sink can only be read on a mounted file system",
        next_step="Write to a mounted directory, or use foreachBatch",
    )
