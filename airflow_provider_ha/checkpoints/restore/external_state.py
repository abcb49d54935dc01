"""External state that decides the effects of a restore: brokers, tables, notes of fenced functions.

Invariant: a fact is used, and a missing fact is reported. An unknown fact becomes part of the facts, with its reason,
and is never guessed: the plan can be shown with it, and is refused until it is known or accepted as unverified
(``judgement``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink
from airflow_provider_ha.checkpoints.sinks.sink_registry import query_memory, type_of
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog, ForeachBatchRecord
from airflow_provider_ha.checkpoints.sources.input_files import MissingInputFiles
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.sources.source_registry import kafka_topics, read_tables
from airflow_provider_ha.checkpoints.sources.source_type import TableHistory
from airflow_provider_ha.checkpoints.sources.table_source import TableSource, UnknownHistory
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import SOURCES
from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
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
    :param next_step: How it can be determined.
    :param retryable: Whether a retry may determine it.
    """

    reason: str
    next_step: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class ExternalState:
    """External facts about a query.

    :param initial: Initial offset by source, for sources that keep it (Kafka, rate).
    :param kafka: The brokers' offsets of the recorded topics, by partition; ``None`` if unknown.
    :param sink_gone: Whether the table is missing, although the cut has a batch.
    :param table_batch: Highest batch of this query in the table; ``None`` when the sink is not a table, or if unknown.
    :param given: Notes about the batches given to its fenced ``foreachBatch`` function, by epoch.
    :param unknown: Unknown facts.
    :param missing: Missing or replaced input files of its record, by batch.
    :param asked: Schemes of the checked input files; ``None`` without a check.
    :param replaced: The files in *missing* that were replaced.
    :param tables: History of the table by source, for recorded locations.
    """

    initial: Mapping[str, str] = field(default_factory=dict)
    kafka: Mapping[Partition, PartitionOffsets] | None = None
    sink_gone: bool = False
    table_batch: int | None = None
    given: Mapping[int, ForeachBatchRecord] = field(default_factory=dict)
    unknown: tuple[UnknownFact, ...] = ()
    missing: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    asked: frozenset[str] | None = None
    replaced: frozenset[str] = frozenset()
    tables: Mapping[str, TableHistory] = field(default_factory=dict)


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
    :param cut: Its part of the cut.
    :param entries: All records of the cut and the later batches.
    :param reach: Access to the file systems of outputs; by default from the environment.
    :raises StorageUnavailableError: The checkpoint itself could not be read.
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
