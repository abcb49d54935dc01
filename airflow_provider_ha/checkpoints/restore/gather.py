"""Gathers the facts of a restore: the one function that reads for its plan.

Invariant: only reads. What could not be found out becomes part of the facts, with its reason, and is never guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink_log import FileSinkLog
from airflow_provider_ha.checkpoints.connectors.places import sink_log
from airflow_provider_ha.checkpoints.format.compactible_log import entry_names
from airflow_provider_ha.checkpoints.model import Candidate, Checkpoint, QueryCut, SinkKind
from airflow_provider_ha.checkpoints.restore.external_state import ExternalQueries, look_around
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts, RestoreFacts
from airflow_provider_ha.checkpoints.restore.recorded import LastDirectory, QueryRecords, read_records
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.trees.files import names, read
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.pins import sink_directory
from airflow_provider_ha.checkpoints.working.unfinished_drain import Drained, UnfinishedDrain
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreCase:
    """A chosen cut, and where the facts about it are read.

    :param chosen: The cut.
    :param at: The current time.
    :param root: Directory of the cut: one directory per query, and the logs of its file sinks. ``None`` for adopted
        checkpoints, which keep no such logs and lie in *directories*.
    :param directories: Query -> its directory, where it is not below *root*.
    :param payloads: Every payload of the source job (``CheckpointStore.payloads``).
    :param last: Last working directory of the source job; ``None`` when it never had one.
    :param drained: Query -> what the drain wrote that ended the source job's last run.
    :param candidates: What was looked at before the choice, newest first.
    :param adopted: Query -> checkpoint of another owner, as it was looked at.
    :param claimed: Whether an earlier restore has claimed the chosen savepoint.
    :param has_state: Whether the job has checkpoints of its own, beside the adopted ones.
    :param external: Asks brokers and input files; ``None`` leaves out everything around the queries.
    """

    chosen: Chosen
    at: datetime
    root: Path | None = None
    directories: Mapping[str, Tree] = field(default_factory=dict)
    payloads: Iterable[Checkpoint] = ()
    last: LastDirectory | None = None
    drained: Mapping[str, Drained] = field(default_factory=dict)
    candidates: tuple[Candidate, ...] = ()
    adopted: Mapping[str, AdoptedCheckpoint] = field(default_factory=dict)
    claimed: bool = False
    has_state: bool = False
    external: ExternalQueries | None = None

    def directory(self, query: str) -> Tree:
        """Return the directory of a query in the cut."""
        return LocalTree(self.root / query) if self.root is not None else self.directories[query]


def gather_facts(case: RestoreCase) -> RestoreFacts:
    """Return everything that the plan of a restore follows from. Changes nothing.

    :raises StorageUnavailableError: Something could not be read.
    """
    records = read_records(case.chosen, case.payloads, case.last)
    return RestoreFacts(
        chosen=case.chosen,
        at=case.at,
        queries={query: _query_facts(case, query, cut, records[query]) for query, cut in case.chosen.queries.items()},
        candidates=case.candidates,
        adopted=case.adopted,
        claimed=case.claimed,
        has_state=case.has_state,
    )


def _query_facts(case: RestoreCase, query: str, cut: QueryCut, records: QueryRecords) -> QueryFacts:
    adopted = case.adopted.get(query)
    sink_max, digests = _in_file_sink(cut)
    around = None
    if case.external is not None:
        entries = [*cut.entries, *records.history.values()]
        around = look_around(query, case.directory(query), cut=cut, entries=entries, external=case.external)
    return QueryFacts(
        cut=cut,
        history=records.history,
        # The offset log of an adopted checkpoint is there: nothing was planned that it does not have.
        planned_to=records.planned_to if adopted is None else adopted.planned,
        complete=records.complete or adopted is not None,
        sink_max=sink_max if around is None or around.table_batch is None else around.table_batch,
        sink_digests=digests,
        sink_log_kept=_keeps_log(case, query, cut),
        # The result of a drain says more than the fork of an earlier, unfinished one.
        drain=case.drained.get(query) or _unfinished_drain(cut, digests, records.drained),
        epochs=records.epochs,
        around=around,
    )


def _in_file_sink(cut: QueryCut) -> tuple[int, dict[int, str]]:
    """Return the highest batch in the log of a file sink, and batch -> sha256 of its entries above the cut."""
    if cut.sink.kind is not SinkKind.FILE or cut.sink.path is None:
        return -1, {}
    log = sink_log(cut.sink.path)
    entries = entry_names(names(log))
    above = {batch: name for batch, name in entries.items() if batch > cut.batch}
    return max(entries, default=-1), {
        batch: hashlib.sha256(read(log, name)).hexdigest() for batch, name in above.items()
    }


def _unfinished_drain(cut: QueryCut, digests: Mapping[int, str], batch: int | None) -> Drained | None:
    if batch is None:
        return None
    if cut.sink.kind is not SinkKind.FILE or cut.sink.path is None:
        return UnfinishedDrain(batch)
    return UnfinishedDrain(batch, cut.sink.path, digests.get(batch))


def _keeps_log(case: RestoreCase, query: str, cut: QueryCut) -> bool:
    """Whether the cut keeps the log of its file sink; for a query with another sink that is so."""
    if cut.sink.kind is not SinkKind.FILE or cut.sink.path is None:
        return True
    if case.root is None:
        return False
    try:
        FileSinkLog(sink_directory(case.root, query)).closure_names(cut.batch)
    except CheckpointCorruptError:
        return False
    return True
