"""Facts behind the plan of a restore, and their collection from records, sinks and inputs.

Invariant: facts are complete before they become a plan, and neither is changed afterwards. If a plan needs a further
fact, ``gather_facts`` must read it.

Invariant: only reads. An unknown fact becomes part of the facts, with its reason, and is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider_ha.checkpoints.areas.drain import DrainOutput, UnfinishedDrain
from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.model import BatchEntry, Candidate, Checkpoint, GivenBatches, QueryCut
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.restore.external_state import (
    ExternalQueries,
    ExternalState,
    UnknownFact,
    look_around,
)
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, QueryRecords, read_records
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.restore.timeline import RunStarts
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_connector
from airflow_provider_ha.checkpoints.sinks.sink_type import SinkState
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchRecord, summary
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS
from airflow_provider_ha.checkpoints.spark.files import read_text
from airflow_provider_ha.checkpoints.spark.metadata_log import parse_offsets
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """Facts about a query.

    :param cut: Its part of the chosen cut.
    :param history: Entry by recorded batch: the last version given to the sinks.
    :param planned_to: Highest batch known to have been planned, readable or not.
    :param complete: Whether higher batches are impossible.
    :param sink: State of its sink, and the part kept by the cut.
    :param drain: Output of a drain beyond the cut, or its possible output when it did not finish.
    :param epochs: Epochs that may have given a batch after the cut to the sink.
    :param around: External facts; ``None`` when they were not collected.
    :param left_by: First later run that may have given the sink other batches up to the cut; ``None`` without one.
    :param turns: First batch that a run has planned anew, by epoch.
    :param writers_dead: Whether all drivers that could write to its sink are proven dead.
    :param entry: The cut's entry of its batch in the directory; ``None`` when it was not read.
    """

    cut: QueryCut
    history: Mapping[int, BatchEntry]
    planned_to: int
    complete: bool
    sink: SinkState = field(default_factory=SinkState)
    drain: DrainOutput | None = None
    epochs: frozenset[int] = frozenset()
    around: ExternalState | None = None
    left_by: int | None = None
    turns: Mapping[int, int] = field(default_factory=dict)
    writers_dead: bool = True
    entry: BatchEntry | None = None

    @property
    def own_entry(self) -> BatchEntry | None:
        """The cut's entry of its batch: its record, or its directory where an older record has the batch."""
        # guard: cuts-without-a-batch-have-read-nothing
        return next((entry for entry in self.cut.entries if entry.batch == self.cut.batch), self.entry)

    @property
    def notes(self) -> Mapping[int, ForeachBatchRecord]:
        """Notes of a fenced function, for epochs that may have given it a batch after the cut."""
        notes = self.around.given if self.around is not None else {}
        return {epoch: note for epoch, note in notes.items() if epoch in self.epochs}

    @property
    def planned_at_least(self) -> int:
        """Highest batch known to have been planned: a batch given to a fenced function was planned before."""
        # guard: notes-count-only-together
        return max((self.planned_to, *(note.begun for note in self.notes.values())))

    @property
    def given(self) -> GivenBatches | None:
        """Batches given to a fenced function; ``None`` without a note."""
        return summary(self.notes, self.turns)

    @property
    def given_to(self) -> int | None:
        """Highest batch that a fenced function was given; ``None`` when not every such epoch has noted it."""
        if not self.notes or self.epochs - self.notes.keys():
            return None
        return max(note.begun for note in self.notes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCase:
    """A chosen cut, and the locations of its facts.

    :param chosen: The cut.
    :param at: The current time.
    :param root: Directory of the cut: one directory per query, and the logs of its file sinks. ``None`` for adopted
        checkpoints, which have no such logs and use *directories*.
    :param directories: Directory by query, if not below *root*.
    :param payloads: All payloads of the source job (``CheckpointStore.payloads``).
    :param last: Last working directory of the source job; ``None`` when it never had one.
    :param last_run: Newest run of a source job that was deleted with its directories; otherwise ``None``.
    :param unrecorded: Whether those directories had batches without a record in a payload (:class:`LastTraces`).
    :param starts: Starts of the runs of the source job.
    :param drained: Output of the drain that ended the source job's last run, by query.
    :param candidates: Cuts examined before the choice, newest first.
    :param adopted: Checkpoint of another owner by query, as examined.
    :param claimed: Whether an earlier restore has claimed the chosen savepoint.
    :param has_state: Whether the job has checkpoints in addition to the adopted ones.
    :param begun_later: Highest batch given to the sink, by query of the last run that is missing in the cut.
    :param external: Queries to brokers and input files; ``None`` skips all external facts.
    :param reach: Access to the file systems of outputs.
    :param writers_dead: Whether all drivers of the source job's last run are proven dead.
    """

    chosen: RestoreSource
    at: datetime
    root: Tree | None = None
    directories: Mapping[str, Tree] = field(default_factory=dict)
    payloads: Iterable[Checkpoint] = ()
    last: LastDirectory | None = None
    last_run: int | None = None
    unrecorded: bool = False
    starts: RunStarts = field(default_factory=dict)
    drained: Mapping[str, DrainOutput] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    adopted: Mapping[str, AdoptedCheckpoint] = field(default_factory=dict)
    claimed: bool = False
    has_state: bool = False
    begun_later: Mapping[str, int] = field(default_factory=dict)
    external: ExternalQueries | None = None
    reach: StorageAccess = field(default_factory=StorageAccess)
    writers_dead: bool = True

    def directory(self, query: str) -> Tree:
        """Return the directory of a query in the cut."""
        return self.root / query if self.root is not None else self.directories[query]


@dataclass(frozen=True, slots=True)
class RestoreFacts:
    """All facts behind the plan of a restore, except the choices of the request.

    :param case: The chosen cut, and what was known before.
    :param queries: Facts by query.
    """

    case: RestoreCase
    queries: Mapping[str, QueryFacts]


def gather_facts(case: RestoreCase) -> RestoreFacts:
    """Return all facts behind the plan of a restore. Changes nothing.

    :raises StorageUnavailableError: A read failed.
    """
    records = read_records(
        case.chosen, case.payloads, case.last, case.last_run, unrecorded=case.unrecorded, starts=case.starts
    )
    queries = {query: _query_facts(case, query, cut, records[query]) for query, cut in case.chosen.queries.items()}
    return RestoreFacts(case, queries)


def _query_facts(case: RestoreCase, query: str, cut: QueryCut, records: QueryRecords) -> QueryFacts:
    adopted = case.adopted.get(query)
    around, own = None, None
    if case.external is not None:
        own = _own_entry(case.directory(query), cut.batch)
        entries = [*cut.entries, *([own] if own is not None else []), *records.history.values()]
        around = look_around(
            query, case.directory(query), cut=cut, entries=entries, external=case.external, reach=case.reach
        )
        if own is None and cut.batch >= 0:  # guard: cuts-that-cannot-be-read-have-read-nothing
            reason = f"the query's offsets at batch {cut.batch} cannot be read in the directory of the cut"
            around = replace(around, unknown=(*around.unknown, UnknownFact(reason)))
    sink = _sink_state(case, query, cut, around)
    return QueryFacts(
        cut=cut,
        history=records.history,
        # The offset log of an adopted checkpoint exists and contains every planned batch.
        planned_to=records.planned_to if adopted is None else adopted.planned,
        complete=records.complete or adopted is not None,
        sink=sink,
        # The result of a drain is more precise than the fork of an earlier, unfinished one.
        drain=case.drained.get(query) or _unfinished_drain(cut, sink, records.drained),
        epochs=records.epochs,
        around=around,
        left_by=records.left_by,
        turns=records.turns,
        writers_dead=case.writers_dead,
        entry=own,
    )


def _own_entry(directory: Tree, batch: int) -> BatchEntry | None:
    """Return a cut's entry of its batch from its directory: a record has only changes since the previous one."""
    if batch < 0:
        return None
    try:
        offsets = read_text(directory, f"{OFFSETS}/{batch}")
        parse_offsets(batch, offsets)
    except CheckpointCorruptError:
        return None
    return BatchEntry(batch=batch, offsets=offsets)


def _sink_state(case: RestoreCase, query: str, cut: QueryCut, around: ExternalState | None) -> SinkState:
    connector = sink_connector(cut.sink, case.reach)
    if connector is not None:
        return connector.state(cut.batch, sink_directory(case.root, query) if case.root is not None else None)
    if around is not None and around.table_batch is not None:
        return SinkState(reached=around.table_batch, gone=around.sink_gone)
    return SinkState()


def _unfinished_drain(cut: QueryCut, sink: SinkState, batch: int | None) -> DrainOutput | None:
    return UnfinishedDrain(batch, cut.sink.path, sink.digests.get(batch)) if batch is not None else None
