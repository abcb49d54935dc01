"""Facts behind the plan of a restore: records, sinks, inputs, brokers, tables, and notes of fenced functions.

Invariant: only reads. Facts are complete before they become a plan, and neither is changed afterwards: if a plan needs
a further fact, ``gather_facts`` must read it.

Invariant: an unknown fact becomes part of the facts, with its reason, and is never guessed: the plan can be shown with
it, and is refused until it is known or accepted as unverified (``plan``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider_ha.checkpoints.areas.drain import DrainOutput, UnfinishedDrain
from airflow_provider_ha.checkpoints.areas.pins import sink_directory
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, GivenBatches, QueryCut, QuerySink
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint
from airflow_provider_ha.checkpoints.plan_model import Candidate
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, QueryRecords, RunStarts, read_records
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.sink_registry import query_memory, sink_connector, type_of
from airflow_provider_ha.checkpoints.sinks.sink_type import SinkState
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog, ForeachBatchRecord, summary
from airflow_provider_ha.checkpoints.sources.input_files import MissingInputFiles
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.sources.source_registry import kafka_topics, read_tables
from airflow_provider_ha.checkpoints.sources.source_type import SourceFacts
from airflow_provider_ha.checkpoints.sources.table_source import TableSource, UnknownHistory
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS, SOURCES
from airflow_provider_ha.checkpoints.spark.files import names, read, read_text
from airflow_provider_ha.checkpoints.spark.metadata_log import parse_offsets, read_query_id
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError, HaError, RestoreUnknownError


AskInputs = Callable[[Sequence[BatchEntry]], MissingInputFiles]
"""Batches to replay -> the state of their input files."""
AskKafka = Callable[[str, frozenset[str]], Mapping[Partition, PartitionOffsets]]
"""Query, topics -> the brokers' offsets; raises :class:`HaError` when they cannot be queried, or do not answer."""


@dataclass(frozen=True, slots=True)
class ExternalQueries:
    """Queries for facts outside of the checkpoint.

    :param ask_kafka: Reads the offsets of a query's topics from the brokers.
    :param ask_inputs: Checks input files; ``None`` where nothing will be replayed.
    :param given: Returns the notes about a query's fenced function; ``None`` when there can be none.
    """

    ask_kafka: AskKafka
    ask_inputs: AskInputs | None = None
    given: Callable[[str], WritableTree | None] = lambda _: None


@dataclass(frozen=True, slots=True)
class UnknownFact:
    """An unknown fact.

    :param reason: The fact, and why it is unknown.
    """

    reason: str
    next_step: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class ExternalState(SourceFacts):
    """External facts about a query.

    :param sink_gone: Whether the table is missing, although the cut has a batch.
    :param table_batch: Highest batch of this query in the table; ``None`` when the sink is not a table, or if unknown.
    :param given: Notes about the batches given to its fenced ``foreachBatch`` function, by epoch.
    :param replaced: The files in *missing* that were replaced.
    """

    initial: Mapping[str, str] = field(default_factory=dict)
    sink_gone: bool = False
    table_batch: int | None = None
    given: Mapping[int, ForeachBatchRecord] = field(default_factory=dict)
    unknown: tuple[UnknownFact, ...] = ()
    replaced: frozenset[str] = frozenset()


def look_around(
    query: str,
    directory: Tree,
    *,
    cut: QueryCut,
    entries: Sequence[BatchEntry],
    external: ExternalQueries,
    reach: StorageAccess | None = None,
) -> ExternalState:
    """Return the external facts about a query. Changes nothing.

    :param directory: The query in the chosen pin or savepoint.
    :param entries: All records of the cut and the later batches.
    :param reach: Access to the file systems of outputs; by default from the environment.
    """
    sink = cut.sink
    around = look_at_sources(query, directory, cut=cut, entries=entries, external=external, reach=reach)
    if type_of(sink).table is not None:
        around = _with_table(around, directory, sink, cut.batch, reach or StorageAccess())
    given = external.given(query) if type_of(sink).has_notes else None
    return around if given is None else _with_notes(around, given)


def look_at_sources(
    query: str,
    directory: Tree,
    *,
    cut: QueryCut,
    entries: Sequence[BatchEntry],
    external: ExternalQueries,
    reach: StorageAccess | None = None,
) -> ExternalState:
    """Return the facts about the sources of a query; parameters and errors as :func:`look_around`."""
    around = ExternalState(initial=_initial_offsets(directory))
    topics = kafka_topics(entries, around.initial)
    if topics:
        around = _with_kafka(around, lambda: external.ask_kafka(query, topics))
    if external.ask_inputs is not None:
        around = _with_inputs(around, external.ask_inputs([entry for entry in entries if entry.batch > cut.batch]))
    for source, kind in read_tables(entries).items():
        if source in cut.sources.tables:
            around = _with_history(around, source, kind, cut.sources.tables[source], reach or StorageAccess())
    return around


def _with_kafka(around: ExternalState, ask: Callable[[], Mapping[Partition, PartitionOffsets]]) -> ExternalState:
    try:
        return replace(around, kafka=ask())
    except (ConfigurationError, RestoreUnknownError) as error:
        return _unknown(around, error)


def _with_inputs(around: ExternalState, found: MissingInputFiles) -> ExternalState:
    around = replace(around, missing=found.missing, asked=found.asked, replaced=found.replaced)
    # guard: inputs-that-cannot-be-asked-for-are-there
    return around if found.error is None else _unknown(around, found.error)


def _with_history(
    around: ExternalState, source: str, kind: TableSource, place: str, reach: StorageAccess
) -> ExternalState:
    try:
        return replace(around, tables={**around.tables, source: kind.history(place, reach)})
    except HaError as error:
        return _unknown(replace(around, tables={**around.tables, source: UnknownHistory()}), error)


def _with_table(
    around: ExternalState, directory: Tree, sink: QuerySink, batch: int, reach: StorageAccess
) -> ExternalState:
    try:
        memory = query_memory(sink, reach)
        if memory is None:
            reason = f"the place of its {type_of(sink).table} is not in the checkpoint, or cannot be read here"
            return replace(around, unknown=(*around.unknown, UnknownFact(reason)))
        if not memory.exists():
            return replace(around, sink_gone=batch >= 0, table_batch=-1)
        return replace(around, table_batch=memory.last_batch(read_query_id(directory)))
    except HaError as error:
        return _unknown(around, error)


def _with_notes(around: ExternalState, given: WritableTree) -> ExternalState:
    try:
        return replace(around, given=ForeachBatchLog(given).epochs())
    except HaError as error:
        return _unknown(around, error)


def _unknown(around: ExternalState, error: HaError) -> ExternalState:
    found = UnknownFact(error.message, error.next_step, retryable=error.retryable)
    return replace(around, unknown=(*around.unknown, found))


def _initial_offsets(directory: Tree) -> dict[str, str]:
    """Return source -> its initial offset: the only content of ``sources/<source>/0`` for Kafka and rate."""
    found = {}
    for source in names(directory / SOURCES):
        try:
            data = read(directory, f"{SOURCES}/{source}/0")
        except CheckpointCorruptError:
            continue
        # Kafka's begins with a zero byte, for Spark 2.1 (SPARK-19517).
        version, *lines = data.lstrip(b"\0").decode(errors="replace").splitlines()
        if version == "v1" and len(lines) == 1:
            found[source] = lines[0]
    return found


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """Facts about a query.

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
    """

    case: RestoreCase
    queries: Mapping[str, QueryFacts]


def gather_facts(case: RestoreCase) -> RestoreFacts:
    """Return all facts behind the plan of a restore. Changes nothing."""
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
    sink, drained = _sink_state(case, query, cut, around), records.drained
    unfinished = UnfinishedDrain(drained, sink.digests.get(drained)) if drained is not None else None
    return QueryFacts(
        cut=cut,
        history=records.history,
        # The offset log of an adopted checkpoint exists and contains every planned batch.
        planned_to=records.planned_to if adopted is None else adopted.planned,
        complete=records.complete or adopted is not None,
        sink=sink,
        # The result of a drain is more precise than the fork of an earlier, unfinished one.
        drain=case.drained.get(query) or unfinished,
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
