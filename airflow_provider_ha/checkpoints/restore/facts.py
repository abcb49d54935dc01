"""The facts that the plan of a restore needs: records, sinks and inputs as they are now.

Invariant: only reads. Records come from every payload in storage, whether its pointer is still there or not, and from
the last working directory, which alone knows the batches after the last payload; it is looked for under its fenced name
as well. What cannot be read because of damage is left out and makes a gap; what could not be read at all is raised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink_log import FileSinkLog, local_path
from airflow_provider_ha.checkpoints.connectors.foreach_batch import ForeachBatchRecord
from airflow_provider_ha.checkpoints.format.layout import OFFSETS, batches
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, SinkKind
from airflow_provider_ha.checkpoints.restore.external_state import AskInputs, AskKafka, Surroundings, look_around
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.restore.timeline import merge
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.trees.tree import WritableTree
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.fence import resolve
from airflow_provider_ha.checkpoints.working.pins import sink_directory
from airflow_provider_ha.checkpoints.working.unfinished_drain import UnfinishedDrain, newest_drain, unfinished_batch
from airflow_provider_ha.checkpoints.working.unpublished_batches import read_carried
from airflow_provider_ha.errors import CheckpointCorruptError


# Epoch -> batch -> number of the payload that records it, and what it records.
_Recorded = dict[int, dict[int, tuple[int, BatchEntry]]]


@dataclass(frozen=True, slots=True)
class LastDirectory:
    """The working directory of the job's last epoch.

    :param path: Under its first name; it may have been fenced since.
    :param epoch: Epoch that made it.
    """

    path: Path
    epoch: int


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """What is known about one query.

    :param cut: Its part of the chosen cut.
    :param history: Recorded batch -> its entry: what the sinks were given last.
    :param planned_to: Highest batch that is known to have been planned, readable or not.
    :param complete: Whether no higher batch can have been planned.
    :param sink_max: Highest batch in the file sink's log; -1 for none and for other sinks.
    :param sink_digests: Batch -> sha256 of the file sink's entries above the cut.
    :param sink_log_kept: Whether the chosen directory holds the file sink's log up to the cut.
    :param unfinished_drain: What an unfinished drain may have written.
    :param epochs: Epochs that may have given a batch after the cut to the sink.
    :param around: What was found around it; ``None`` when it was not collected.
    """

    cut: QueryCut
    history: Mapping[int, BatchEntry]
    planned_to: int
    complete: bool
    sink_max: int = -1
    sink_digests: Mapping[int, str] = field(default_factory=dict)
    sink_log_kept: bool = True
    unfinished_drain: UnfinishedDrain | None = None
    epochs: frozenset[int] = frozenset()
    around: Surroundings | None = None

    @property
    def own_entry(self) -> BatchEntry | None:
        """What the cut itself records of its batch."""
        return next((entry for entry in self.cut.entries if entry.batch == self.cut.batch), None)

    @property
    def missing_inputs(self) -> Mapping[int, tuple[str, ...]]:
        """Batch -> input files of its record that are gone."""
        return self.around.missing if self.around is not None else {}

    @property
    def sink_gone(self) -> bool:
        """Whether the sink is not there any more although the cut has a batch."""
        return self.around is not None and self.around.sink_gone

    @property
    def notes(self) -> Mapping[int, ForeachBatchRecord]:
        """What a fenced function was given, by the epochs that may have given it something after the cut."""
        notes = self.around.given if self.around is not None else {}
        return {epoch: note for epoch, note in notes.items() if epoch in self.epochs}

    @property
    def given_to(self) -> int | None:
        """Highest batch that a fenced function was given; ``None`` when not every such epoch has noted it."""
        if not self.notes or self.epochs - self.notes.keys():
            return None
        return max(note.begun for note in self.notes.values())


def gather_facts(
    chosen: Chosen, root: Path, payloads: Iterable[Checkpoint], last: LastDirectory | None
) -> dict[str, QueryFacts]:
    """Return query -> what is known about it.

    :param chosen: The cut to be restored.
    :param root: Directory of the cut.
    :param payloads: Every payload of the source job (``CheckpointStore.payloads``).
    :param last: Last working directory of the source job; ``None`` when it never had one.
    :raises StorageUnavailableError: Something could not be read.
    """
    recorded, newest = _recorded(payloads, chosen.queries)
    directory = resolve(last.path) if last is not None else None
    carried = read_carried(directory) if directory is not None else {}
    complete = _complete(directory, newest)
    drain = newest_drain(last.path) if last is not None else None
    facts = {}
    for query, cut in chosen.queries.items():
        recordings: dict[int, dict[int, BatchEntry]] = {chosen.epoch: {entry.batch: entry for entry in cut.entries}}
        for epoch, entries in recorded.pop(query).items():
            recordings.setdefault(epoch, {}).update({batch: entry for batch, (_, entry) in entries.items()})
        planned = [batch for entries in recordings.values() for batch in entries]
        if last is not None and directory is not None and directory.is_dir():
            found = {entry.batch: entry for entry in readable(LocalTree(directory / query))}
            found |= {entry.batch: entry for entry in carried.get(query, ()) if entry.commits is not None}
            recordings.setdefault(last.epoch, {}).update(found)
            planned += batches(LocalTree(directory / query), OFFSETS)
        epochs = {epoch for epoch, entries in recordings.items() if any(batch > cut.batch for batch in entries)}
        history = merge({epoch: entries.values() for epoch, entries in recordings.items()})
        found_out = _with_sink(root, query, cut, history, max(planned, default=-1), complete=complete)
        if directory is not None and drain is not None:
            batch = unfinished_batch(directory / query, drain / query, history)
            found_out = replace(found_out, unfinished_drain=_drained(cut, batch)) if batch is not None else found_out
        after = epochs | ({last.epoch} if last is not None else set())
        facts[query] = replace(found_out, epochs=frozenset(after))
    return facts


def with_surroundings(
    facts: Mapping[str, QueryFacts],
    place: Callable[[str], Path],
    *,
    ask_kafka: AskKafka,
    ask_inputs: AskInputs | None,
    given: Callable[[str], WritableTree | None],
) -> dict[str, QueryFacts]:
    """Return *facts* with what lies around each query: brokers, input files, tables, notes of fenced functions.

    :param place: Query -> its directory in what is to be restored.
    :param ask_kafka: Asks the brokers of a query.
    :param ask_inputs: Asks for input files; ``None`` where nothing will be replayed.
    :param given: Query -> where notes about its fenced function lie.
    :raises StorageUnavailableError: The checkpoint itself could not be read.
    """
    return {
        query: _with(
            known,
            look_around(
                query,
                LocalTree(place(query)),
                batch=known.cut.batch,
                sink=known.cut.sink,
                entries=[*known.cut.entries, *known.history.values()],
                ask_kafka=ask_kafka,
                ask_inputs=ask_inputs,
                given=given(query) if known.cut.sink.kind is SinkKind.FOREACH_BATCH else None,
            ),
        )
        for query, known in facts.items()
    }


def _with(known: QueryFacts, around: Surroundings) -> QueryFacts:
    reached = known.sink_max if around.table_batch is None else around.table_batch
    return replace(known, around=around, sink_max=reached)


def _with_sink(
    root: Path, query: str, cut: QueryCut, history: Mapping[int, BatchEntry], planned_to: int, *, complete: bool
) -> QueryFacts:
    if cut.sink.kind is not SinkKind.FILE or cut.sink.path is None:
        return QueryFacts(cut, history, planned_to, complete)
    sink = FileSinkLog(local_path(cut.sink.path))
    top = sink.max_batch()
    digests = {batch: digest for batch in range(cut.batch + 1, top + 1) if (digest := sink.digest(batch)) is not None}
    kept = _holds_log(sink_directory(root, query), cut.batch)
    return QueryFacts(cut, history, planned_to, complete, top, digests, kept)


def _drained(cut: QueryCut, batch: int) -> UnfinishedDrain:
    if cut.sink.kind is not SinkKind.FILE or cut.sink.path is None:
        return UnfinishedDrain(batch)
    return UnfinishedDrain(batch, cut.sink.path, FileSinkLog(local_path(cut.sink.path)).digest(batch))


def _recorded(
    payloads: Iterable[Checkpoint], queries: Iterable[str]
) -> tuple[dict[str, _Recorded], tuple[int, int, CheckpointKind] | None]:
    """Return what *payloads* record of *queries*, and number, epoch and kind of the newest one; keeps nothing else.

    A later checkpoint of an epoch records more of a batch than an earlier one.
    """
    recorded: dict[str, _Recorded] = {query: {} for query in queries}
    newest: tuple[int, int, CheckpointKind] | None = None
    for payload in payloads:
        if newest is None or (payload.number, payload.epoch) >= newest[:2]:
            newest = payload.number, payload.epoch, payload.reason
        for query in recorded.keys() & payload.queries.keys():
            entries = recorded[query].setdefault(payload.epoch, {})
            for entry in payload.queries[query].entries:
                if entry.batch not in entries or entries[entry.batch][0] <= payload.number:
                    entries[entry.batch] = payload.number, entry
    return recorded, newest


def _complete(directory: Path | None, newest: tuple[int, int, CheckpointKind] | None) -> bool:
    if directory is not None and directory.is_dir():
        return True
    # A sharp checkpoint has nothing in flight, and the job has ended with it.
    return newest is not None and newest[2] is CheckpointKind.STOP


def _holds_log(directory: Path, batch: int) -> bool:
    try:
        FileSinkLog(directory).closure_names(batch)
    except CheckpointCorruptError:
        return False
    return True
