"""What is recorded of each query's batches, in the payloads of its job and in its last working directory.

Invariant: only reads. Records come from every payload in storage, whether its pointer is still there or not, and from
the last working directory, which alone knows the batches after the last payload; it is looked for under its fenced name
as well. What cannot be read because of damage is left out and makes a gap; what could not be read at all is raised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ha.checkpoints.format.layout import OFFSETS, batches
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.restore.timeline import merge
from airflow_provider_ha.checkpoints.trees.files import names
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.unfinished_drain import newest_drain, unfinished_batch
from airflow_provider_ha.checkpoints.working.unpublished_batches import read_carried
from airflow_provider_ha.checkpoints.working.work_area import WorkArea


_FORGOTTEN = 0
"""Stands for epochs of a job that was deleted: no note about a fenced function is left of them. Epochs begin with 1."""
# Epoch -> batch -> number of the payload that records it, and what it records.
_Recorded = dict[int, dict[int, tuple[int, BatchEntry]]]


@dataclass(frozen=True, slots=True)
class LastDirectory:
    """The working directory of the job's last epoch.

    :param area: Holds it.
    :param key: Under its first name; it may have been fenced since.
    :param epoch: Epoch that made it.
    :param replayed: Query -> recorded batches of the restore plan of its run: the sinks have them, whether the
        directory shows them again or not.
    """

    area: WorkArea
    key: str
    epoch: int
    replayed: Mapping[str, Sequence[BatchEntry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryRecords:
    """What is recorded of one query.

    :param history: Recorded batch -> its entry: what the sinks were given last.
    :param planned_to: Highest batch that is known to have been planned, readable or not; -1 for none.
    :param complete: Whether no higher batch can have been planned.
    :param epochs: Epochs that may have given a batch after the cut to the sink.
    :param drained: Batch that an unfinished drain may have given to the sink; ``None`` when there is none.
    """

    history: Mapping[int, BatchEntry]
    planned_to: int
    complete: bool
    epochs: frozenset[int]
    drained: int | None = None


@dataclass(frozen=True, slots=True)
class LastTraces:
    """What the last working directory alone shows, and has to outlive it when its job is deleted.

    :param drained: Query -> batch that an unfinished drain may have given to its sink.
    :param unrecorded: Whether batches after the newest payload were planned, or may have been.
    """

    drained: Mapping[str, int]
    unrecorded: bool


def read_records(
    chosen: Chosen,
    payloads: Iterable[Checkpoint],
    last: LastDirectory | None,
    last_run: int | None = None,
    *,
    unrecorded: bool = False,
) -> dict[str, QueryRecords]:
    """Return query -> what is recorded of it.

    :param payloads: Every payload of the source job (``CheckpointStore.payloads``).
    :param last: Last working directory of the source job; ``None`` when it never had one.
    :param last_run: Newest run of a source job that was deleted with its directories, while that counts; ``None`` of
        every other. Then *last* is what a run after the deletion has made.
    :param unrecorded: Whether those directories had batches that no payload records (:class:`LastTraces`).
    :raises StorageUnavailableError: Something could not be read.
    """
    recorded, newest = _in_payloads(payloads, chosen.queries)
    shown = _LastEpoch.read(last) if last is not None else None
    # guard: directories-of-the-next-life-hide-the-one-before
    past_is_known = last_run is None or (not unrecorded and _complete(None, newest, last_run))
    complete = past_is_known and _complete(shown, newest, last_run)
    found = {}
    for query, cut in chosen.queries.items():
        recordings = {chosen.epoch: {entry.batch: entry for entry in cut.entries}}
        _add_recordings(recordings, query, recorded.pop(query), last)
        known = _query_records(query, cut.batch, recordings, shown, complete=complete)
        # guard: notes-of-the-next-life-hide-the-one-before
        found[query] = known if past_is_known else replace(known, epochs=known.epochs | {_FORGOTTEN})
    return found


def read_last_traces(payloads: Iterable[Checkpoint], last: LastDirectory) -> LastTraces:
    """Return what a restore would find in the last working directory of a job, and nowhere else.

    The checkpoint of a stop has a cut of every query that its run has started: of one without a cut, the directory is
    what the run was made with, and nothing has worked in it.

    :param payloads: Every payload of the job (``CheckpointStore.payloads``).
    :raises StorageUnavailableError: Something could not be read.
    """
    shown = _LastEpoch.read(last)
    roots = [root for root in (shown.directory, shown.drain) if root is not None]
    queries = sorted({name for root in roots for name in names(root)})
    recorded, newest = _in_payloads(payloads, queries)
    stopped = newest is not None and newest.reason is CheckpointKind.STOP and newest.epoch >= shown.epoch
    drained, unrecorded = dict[str, int](), not stopped  # guard: epochs-of-deleted-jobs-are-forgotten
    for query in queries:
        recordings: dict[int, dict[int, BatchEntry]] = {}
        _add_recordings(recordings, query, recorded[query], last)
        batch = _query_records(query, -1, recordings, shown, complete=True).drained
        if batch is not None:
            drained[query] = batch
        if stopped and newest is not None and query in newest.cuts:
            # The payloads of this epoch record what was planned and not committed when they were taken.
            known = max((newest.cuts[query], *recorded[query].get(newest.epoch, ())))
            # A job whose stop has failed goes on after the sharp checkpoint.
            # guard: work-after-a-stop-is-forgotten
            unrecorded = unrecorded or max(batches(shown.directory / query, OFFSETS), default=-1) > known
    return LastTraces(drained, unrecorded)


def _add_recordings(
    recordings: dict[int, dict[int, BatchEntry]],
    query: str,
    recorded: _Recorded,
    last: LastDirectory | None,
) -> None:
    for epoch, entries in recorded.items():
        recordings.setdefault(epoch, {}).update({batch: entry for batch, (_, entry) in entries.items()})
    if last is not None:
        for entry in last.replayed.get(query, ()):  # guard: planned-replays-are-forgotten
            recordings.setdefault(last.epoch, {}).setdefault(entry.batch, entry)


@dataclass(frozen=True, slots=True)
class _Newest:
    """The newest payload, in brief.

    :param cuts: Query -> batch of its cut.
    """

    number: int
    run: int
    epoch: int
    reason: CheckpointKind
    cuts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _LastEpoch:
    """What the last working directory shows.

    :param directory: Under the name that it has now; it may be gone.
    :param carried: Query -> batches of earlier epochs that no payload holds.
    :param drain: Newest fork of a drain.
    """

    epoch: int
    directory: Tree
    carried: Mapping[str, tuple[BatchEntry, ...]]
    drain: Tree | None

    @classmethod
    def read(cls, last: LastDirectory) -> _LastEpoch:
        directory, drain = last.area.tree(last.area.current(last.key)), newest_drain(last.area, last.key)
        return cls(last.epoch, directory, read_carried(directory), last.area.tree(drain) if drain else None)

    @property
    def exists(self) -> bool:
        return self.directory.is_directory()

    def entries(self, query: str) -> dict[int, BatchEntry]:
        found = {entry.batch: entry for entry in readable(self.directory / query)}
        return found | {entry.batch: entry for entry in self.carried.get(query, ()) if entry.commits is not None}

    def drained(self, query: str, history: Mapping[int, BatchEntry]) -> int | None:
        if self.drain is None:
            return None
        return unfinished_batch(self.directory / query, self.drain / query, history)


def _query_records(
    query: str,
    cut: int,
    recordings: dict[int, dict[int, BatchEntry]],
    shown: _LastEpoch | None,
    *,
    complete: bool,
) -> QueryRecords:
    planned = [batch for entries in recordings.values() for batch in entries]
    if shown is not None and shown.exists:
        recordings.setdefault(shown.epoch, {}).update(shown.entries(query))
        planned += batches(shown.directory / query, OFFSETS)
    epochs = {epoch for epoch, entries in recordings.items() if any(batch > cut for batch in entries)}
    history = merge({epoch: entries.values() for epoch, entries in recordings.items()})
    return QueryRecords(
        history=history,
        planned_to=max(planned, default=-1),
        complete=complete,
        epochs=frozenset(epochs | ({shown.epoch} if shown is not None else set())),
        drained=shown.drained(query, history) if shown is not None else None,
    )


def _in_payloads(payloads: Iterable[Checkpoint], queries: Iterable[str]) -> tuple[dict[str, _Recorded], _Newest | None]:
    """Return what *payloads* record of *queries*, and the newest one in brief; keeps nothing else.

    A later checkpoint of an epoch records more of a batch than an earlier one.
    """
    recorded: dict[str, _Recorded] = {query: {} for query in queries}
    newest: _Newest | None = None
    for payload in payloads:
        if newest is None or (payload.number, payload.epoch) >= (newest.number, newest.epoch):
            newest = _Newest(payload.number, payload.run, payload.epoch, payload.reason, _cuts(payload))
        for query in recorded.keys() & payload.queries.keys():
            entries = recorded[query].setdefault(payload.epoch, {})
            for entry in payload.queries[query].entries:
                # guard: older-records-replace-newer-ones
                if entry.batch not in entries or entries[entry.batch][0] <= payload.number:
                    entries[entry.batch] = payload.number, entry
    return recorded, newest


def _cuts(payload: Checkpoint) -> dict[str, int]:
    return {query: cut.batch for query, cut in payload.queries.items()}


def _complete(shown: _LastEpoch | None, newest: _Newest | None, last_run: int | None) -> bool:
    if shown is not None and shown.exists:
        return True
    # A sharp checkpoint has nothing in flight, and the job has ended with it, unless it was started again.
    # guard: a-stop-hides-the-batches-of-a-later-run
    later = newest is None or (shown is not None and newest.epoch < shown.epoch) or last_run not in {None, newest.run}
    return newest is not None and newest.reason is CheckpointKind.STOP and not later
