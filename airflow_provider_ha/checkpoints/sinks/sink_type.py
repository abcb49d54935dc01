"""Interfaces of a type of sink and of a sink's own record of batches, with the defaults and findings of tables.

The defaults are for unknown sinks: they execute every batch they receive, and cannot report their batches. A type
overrides the defaults that it knows better.

A connector is bound to the output of a query. Facts are read by ``state``; ``judge`` decides from facts alone.

Such a table skips, without an error, each batch up to the highest one of the query's id, even if the batch has other
rows now.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import PlanFinding, Verdict
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, output_place
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import ConfigurationError, RestoreUnknownError


OWN_OUTPUT = "restore as another job, with its own output"
REPEATABLE = (
    "declare the query repeatable (--repeatable, repeatable of the operator), if a batch that comes again, with its "
    "number and its rows, leaves the output as it was"
)
RECORDED_CUT = "restore a cut after which every batch is recorded, from the list of candidates"


@dataclass(frozen=True, slots=True)
class SinkState:
    """State of an output, and the part kept by a cut.

    :param reached: Highest batch; -1 without one.
    :param digests: Sha256 of the sink's record by batch, above the cut.
    :param gone: Whether the record is missing although the cut has a batch.
    :param log_kept: Whether the record up to the cut is kept with the cut.
    :param damaged: Damages by batch, among the records that the query reads.
    """

    reached: int = -1
    digests: Mapping[int, str] = field(default_factory=dict)
    gone: bool = False
    log_kept: bool = True
    damaged: Mapping[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SinkCase:
    """A restore from the point of view of an output.

    :param top: Last batch that is executed again with its recorded boundaries; ``None`` for a job that continues with
        another output.
    :param drained: Batch that a drain gave to the output, and the digest of its record; ``None`` without one.
    :param writers_dead: Whether all drivers that could write to the output are proven dead.
    :param is_known: Whether the state of an output that remembers the query could be read.
    :param has_fresh_id: Whether the query gets a fresh id.
    :param planned_to: Highest batch known to have been planned.
    :param complete: Whether higher batches are impossible.
    :param noted_to: Highest batch that a fenced function received; ``None`` unless every epoch has notes.
    :param finished_to: Highest batch finished with the recorded boundaries; -1 without one. The function does not get
        these batches again.
    :param drain_wrote: Whether the drain may have written to the output.
    """

    batch: int
    state: SinkState
    top: int | None
    drained: tuple[int, str | None] | None = None
    writers_dead: bool = True
    is_known: bool = True
    has_fresh_id: bool = False
    planned_to: int = -1
    complete: bool = True
    noted_to: int | None = None
    finished_to: int = -1
    drain_wrote: bool = False


@dataclass(slots=True)
class RestoreFindings:
    """Findings that keep the restore of a query from being SAFE, and unknown facts."""

    query: str
    findings: list[PlanFinding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, reason: str, *ways_out: str) -> None:
        """Note a finding."""
        self.findings.append(
            PlanFinding(query=self.query, verdict=verdict, reason=f"{self.query}: {reason}", ways_out=ways_out)
        )

    def add_unknown(self, reason: str, *ways_out: str) -> None:
        """Add an unknown fact: at worst rows are lost, and a plan never assumes otherwise."""
        name = f"name the query (--accept-unverified {self.query}) and LOSS_POSSIBLE to continue without this fact"
        self.unknown.append(reason)
        self.add(Verdict.LOSS_POSSIBLE, f"not known: {reason}", *ways_out, name)  # guard: unknown-is-safe


class SinkConnector(Protocol):
    """The record of batches of an output. Stateless."""

    @property
    def needs_proof(self) -> bool:
        """Return whether a record that was set aside can come back from a writer that is not proven dead."""

    def reached(self) -> int:
        """Return the highest batch of the output; -1 for none.

        :raises StorageUnavailableError: It could not be read.
        """

    def digest(self, batch: int) -> str | None:
        """Return the sha256 of the output's record of *batch*; ``None`` without a record."""

    def state(self, batch: int, kept: Tree | None) -> SinkState:
        """Return the state of the output, for a cut at *batch*.

        :param kept: The cut's copy of the output's record; ``None`` without one.
        """

    def record(self) -> Tree:
        """Return the directory of the output's record of batches.

        :raises ConfigurationError: The output is not known yet.
        """

    def set_aside(self, batch: int, digest: str) -> bool:
        """Remove the record of the highest batch from the output, if its digest matches; repeatable.

        Where the storage cannot rename, the caller must know that the process that wrote it is dead.

        :returns: Whether it existed.
        :raises RestoreRefusedError: Another record has that number, or the output continues after it.
        """

    def seed(self, batch: int, mode: str, source: Tree) -> None:
        """Give a new output the record that its query expects when it continues after *batch*.

        :param mode: ``"continue"`` keeps the entries of the old record, ``"fresh"`` starts without them.
        :param source: The old record, as kept by a cut.
        :raises ObjectExistsError: The output has a record.
        """

    def judge(self, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Add the output's findings about a restore; return the digests of batches to set aside, by batch. Pure."""


def readable_place(path: str | None) -> str | None:
    """Return the directory of a table in its normal form; ``None`` when it is on a file system not read here."""
    try:
        return output_place(path) if path else None
    except ConfigurationError:
        return None


BY_KEY = "its sink has each row once: it is declared repeatable"
SKIPS = "its sink has each row once: it skips a batch that it has"
Conf = Callable[[str], "str | None"]
"""Returns a value of the session's conf."""


class QueryMemory:
    """Table that remembers the highest batch of each query, by the id of the query.

    :cvar kind: Name of its kind, in a sentence.
    :cvar folder: Directory of its log or metadata, in its own.
    :param table: Its directory: a path, or a URI.
    :param reach: Access to its file system; by default from the environment.
    """

    kind: ClassVar[str]
    folder: ClassVar[str]

    def __init__(self, table: Path | str, reach: StorageAccess | None = None) -> None:
        self.table = str(table)
        self._reach = reach or StorageAccess()

    def exists(self) -> bool:
        """Return whether the table exists.

        :raises StorageUnavailableError: It could not be read.
        """
        raise NotImplementedError

    def last_batch(self, query_id: str) -> int:
        """Return the query's highest batch in the table; -1 without a batch or a table.

        :param query_id: ``id`` of the checkpoint's ``metadata``.
        :raises RestoreUnknownError: The table's batches cannot be read.
        :raises StorageUnavailableError: It does not answer.
        """
        raise NotImplementedError

    def _record(self) -> Tree:
        return (self._reach.tree(output_place(self.table)) / self.folder).fresh()

    def _unknown(self, reason: str, next_step: str) -> RestoreUnknownError:
        return RestoreUnknownError(
            f"the batches of {self.kind} {self.table} are unknown: {reason}", next_step=next_step
        )


class SinkType:
    """Type of sink.

    :cvar table: Name for an output that remembers batches by the query's id; ``None`` without such outputs.
    :cvar has_notes: Whether a fenced function of the script may have noted its batches.
    """

    table: ClassVar[str | None] = None
    has_notes: ClassVar[bool] = False

    def takes(self, source: str) -> bool:
        """Return whether a writer of the format *source* writes to it."""
        raise NotImplementedError

    def owns(self, sink: QuerySink) -> bool:
        """Return whether a recorded sink is of this type."""
        return sink.kind is SinkKind.OTHER and sink.format is not None and self.takes(sink.format)

    def sink(self, source: str, path: str | None) -> QuerySink:  # noqa: ARG002  # used by overrides
        """Return the sink of a writer.

        :raises ConfigurationError: Its batches could not be read there.
        """
        return QuerySink(kind=SinkKind.OTHER, format=source)

    def named(self, said: str, reach: StorageAccess) -> QuerySink | None:  # noqa: ARG002  # used by overrides
        """Return the sink that a user names; ``None`` when it is of another type.

        :param said: The directory of an output, or a format.
        :raises ConfigurationError: It is of this type, and must be named differently.
        """
        return self.sink(said, None) if self.takes(said) else None

    def name(self, source: str, path: str | None) -> str | None:  # noqa: ARG002  # used by overrides
        """Return the user's name for a writer's sink (:meth:`named`); ``None`` if unknown."""
        return source

    def identity(self, options: Mapping[str, str]) -> str | None:  # noqa: ARG002  # used by overrides
        """Return the identity of a writer's output among all outputs, the same at every start.

        :param options: Of the writer, with names in lower case.
        """
        return None

    def refusal(self, path: str, conf: Conf) -> tuple[str, str] | None:  # noqa: ARG002  # used by overrides
        """Return the reason why two drivers could not be kept apart there, and the next step; ``None`` if they can.

        :param path: The writer's option ``path``; empty without one.
        :returns: Text after the name of the query, and the user's next step.
        """
        return None

    def connector(self, sink: QuerySink, reach: StorageAccess) -> SinkConnector | None:  # noqa: ARG002  # used by overrides
        """Return an output's record of batches; ``None`` for a type without."""
        return None

    def memory(self, sink: QuerySink, reach: StorageAccess) -> QueryMemory | None:  # noqa: ARG002  # used by overrides
        """Return the output that remembers the query; ``None`` without one, or if it cannot be read from here."""
        return None

    def again(self, sink: QuerySink) -> str:
        """Return the effect of a repeated batch, as the end of a sentence about the query."""
        return BY_KEY if sink.repeatable else "its sink may have the rows of a batch that comes again twice"

    def remembers_unseen(self, sink: QuerySink) -> bool:  # noqa: ARG002  # used by overrides
        """Return whether it may remember batches, or keep rows, where no start of a query checks it."""
        return True

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Add the sink's findings about a restore; return the digests of batches to set aside, by batch. Pure."""
        raise NotImplementedError


class TableSink(SinkType):
    """Table that remembers the highest batch of each query, and skips every batch up to that one."""

    def again(self, sink: QuerySink) -> str:  # noqa: ARG002  # the same for all tables
        """Return that the table skips batches it has."""
        return SKIPS

    def judge(self, sink: QuerySink, case: SinkCase, findings: RestoreFindings) -> dict[int, str]:
        """Judge by the highest batch of the table."""
        if case.top is not None and case.is_known:  # an unknown batch is a separate finding
            _judge_table(sink, case, case.top, findings)
        return {}


def _judge_table(sink: QuerySink, case: SinkCase, top: int, findings: RestoreFindings) -> None:
    cut, reached = case.batch, case.state.reached
    if case.state.gone:
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the table {sink.table} is lost, and with it the rows up to batch {cut}",
            "put the table back, its log included",
            "accept LOSS_POSSIBLE by name: the next batch creates a new table, which holds only the rows after the cut",
            OWN_OUTPUT,
        )
    elif reached > top and case.has_fresh_id:
        findings.add(
            Verdict.DUPLICATES_POSSIBLE,
            f"with a fresh query id batches {top + 1} to {reached}, which the table has, are written again",
            f"remove their rows from the table first: it was last right at batch {top}",
        )
    elif reached > top:
        findings.add(
            Verdict.IMPOSSIBLE,  # guard: tables-skip-what-comes-next
            f"the table has batches of this query up to {reached}, but boundaries are recorded up to {top} only; it "
            f"would skip batches {top + 1} to {reached}, also with new content",
            RECORDED_CUT,
            "give the query a fresh id (--reset-query-ids): then the sink skips no batch, and these batches are "
            "written again (DUPLICATES_POSSIBLE)",
            OWN_OUTPUT,
        )
    elif reached < cut and not (case.has_fresh_id and reached < 0):
        findings.add(
            Verdict.LOSS_POSSIBLE,
            f"the table has batches of this query up to {reached} only, but the cut is at {cut}",
            "restore the table to a version that has them",
            f"restore a cut at batch {reached} or before" if reached >= 0 else OWN_OUTPUT,
        )
