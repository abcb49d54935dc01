"""Notes of the script's calls on a ``DataStreamWriter``, and rules for real-time and continuous triggers.

Notes are needed twice: to refuse calls that rule out high availability, and to put the script's own sink and trigger
back after recorded batches were executed into another sink.

Spark writes the boundaries of such a batch (of an epoch, in continuous mode) when it ends, just before its commit.
After a loss, input read since the last commit is read again, with other boundaries: rows come twice, none is lost. A
sink that remembers the numbers of batches would drop other rows of the same number, so these sinks are refused.

Invariant: such a query starts only after its user has accepted DUPLICATES_POSSIBLE for the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_registry import type_of_format
from airflow_provider_ha.checkpoints.sinks.sink_type import Conf
from airflow_provider_ha.checkpoints.sinks.unread_sinks import DEBUG_FORMATS
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


REAL_TIME = "realTime"
CONTINUOUS = "continuous"
CONTINUOUS_EXECUTION = "ContinuousExecution"  # Spark's class of a continuous query
WORDS = {REAL_TIME: "real-time", CONTINUOUS: "continuous"}
_INSTEAD = "use the trigger processingTime or availableNow"


@dataclass(frozen=True, slots=True)
class UnplannedRules:
    """The conditions under which such a query may run.

    :param mounted: Whether working directories are on a mounted file system.
    :param accepted: Whether the run accepts that rows come twice.
    """

    mounted: bool = True
    accepted: bool = False

    def check(self, query: str, trigger: Mapping[str, Any], sink: SinkSpec) -> None:
        """Refuse a real-time or continuous query that may not run; every other one passes.

        :raises ApplicationRefusedError: It would lose rows or not be fenced, or its user has not accepted the
            duplicates.
        """
        mode = mode_of(trigger)
        if mode is None:
            return
        what = f"query {query!r} runs in {WORDS[mode]} mode, which writes the boundaries of a batch after its rows"
        if not self.mounted:
            raise ApplicationRefusedError(
                f"{what}; on S3 and HDFS the next entry of its log is the fence against a driver that was considered "
                "dead, and such a driver would write rows for a whole batch before it meets the fence",
                next_step=f"Keep the work root on a mounted path, or {_INSTEAD}",
            )
        if sink.kind is not SinkKind.OTHER or type_of_format(sink.source).table:
            raise ApplicationRefusedError(
                f"{what}; after a loss a {sink.source} sink receives other rows under a known number, and would drop "
                "them or replace the first rows",
                next_step=f"Write to Kafka, or with foreach, or {_INSTEAD}",
            )
        if not self.accepted:
            verdict = Verdict.DUPLICATES_POSSIBLE.value
            raise ApplicationRefusedError(
                f"{what}; each recovery and each restore sends rows to the sink again ({verdict})",
                next_step=f"Submit with accept_verdicts={verdict} if that is acceptable, or {_INSTEAD}",
            )


def mode_of(trigger: Mapping[str, Any]) -> str | None:
    """Return the mode that a trigger names; ``None`` for a trigger with planned batches."""
    return next((mode for mode in WORDS if trigger.get(mode)), None)
