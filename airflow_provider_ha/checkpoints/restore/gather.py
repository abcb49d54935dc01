"""Collection of the facts of a restore: the only function that reads for its plan.

Invariant: only reads. An unknown fact becomes part of the facts, with its reason, and is never guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.connectors.sink_connector import SinkState
from airflow_provider_ha.checkpoints.connectors.sinks import sink_connector
from airflow_provider_ha.checkpoints.format.layout import OFFSETS
from airflow_provider_ha.checkpoints.format.metadata_log import parse_offsets
from airflow_provider_ha.checkpoints.model import BatchEntry, Candidate, Checkpoint, QueryCut
from airflow_provider_ha.checkpoints.restore.external_state import (
    ExternalQueries,
    Surroundings,
    Unknown,
    look_around,
)
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts, RestoreFacts
from airflow_provider_ha.checkpoints.restore.recorded import LastDirectory, QueryRecords, read_records
from airflow_provider_ha.checkpoints.restore.run_starts import RunStarts
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.trees.files import read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.pins import sink_directory
from airflow_provider_ha.checkpoints.working.unfinished_drain import Drained, UnfinishedDrain
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint


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

    chosen: Chosen
    at: datetime
    root: Tree | None = None
    directories: Mapping[str, Tree] = field(default_factory=dict)
    payloads: Iterable[Checkpoint] = ()
    last: LastDirectory | None = None
    last_run: int | None = None
    unrecorded: bool = False
    starts: RunStarts = field(default_factory=dict)
    drained: Mapping[str, Drained] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    adopted: Mapping[str, AdoptedCheckpoint] = field(default_factory=dict)
    claimed: bool = False
    has_state: bool = False
    begun_later: Mapping[str, int] = field(default_factory=dict)
    external: ExternalQueries | None = None
    reach: Reach = field(default_factory=Reach)
    writers_dead: bool = True

    def directory(self, query: str) -> Tree:
        """Return the directory of a query in the cut."""
        return self.root / query if self.root is not None else self.directories[query]


def gather_facts(case: RestoreCase) -> RestoreFacts:
    """Return all facts behind the plan of a restore. Changes nothing.

    :raises StorageUnavailableError: A read failed.
    """
    records = read_records(
        case.chosen, case.payloads, case.last, case.last_run, unrecorded=case.unrecorded, starts=case.starts
    )
    return RestoreFacts(
        chosen=case.chosen,
        at=case.at,
        queries={query: _query_facts(case, query, cut, records[query]) for query, cut in case.chosen.queries.items()},
        candidates=case.candidates,
        adopted=case.adopted,
        claimed=case.claimed,
        has_state=case.has_state,
        begun_later=case.begun_later,
    )


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
            around = replace(around, unknown=(*around.unknown, Unknown(reason)))
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


def _sink_state(case: RestoreCase, query: str, cut: QueryCut, around: Surroundings | None) -> SinkState:
    connector = sink_connector(cut.sink, case.reach)
    if connector is not None:
        return connector.state(cut.batch, sink_directory(case.root, query) if case.root is not None else None)
    if around is not None and around.table_batch is not None:
        return SinkState(reached=around.table_batch, gone=around.sink_gone)
    return SinkState()


def _unfinished_drain(cut: QueryCut, sink: SinkState, batch: int | None) -> Drained | None:
    return UnfinishedDrain(batch, cut.sink.path, sink.digests.get(batch)) if batch is not None else None
