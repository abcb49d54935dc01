"""Records of the queries' batches, from payloads and the last working directory, and the timeline of the runs.

Invariant: only reads. Records come from all payloads in storage, with or without a pointer, and from the last working
directory, the only source for batches after the last payload; it is also searched under its fenced name. Damaged
records are left out and leave a gap; failed reads are raised.

A run continues from a cut and executes the recorded batches after it again: up to there it shares its batches with the
runs before it. Afterwards it plans new batches, under numbers that earlier runs may have used. So a cut of an earlier
run beyond that point is no longer a state of the outputs, and its records are never executed again.

Invariant: a run with unknown batches counts as having planned some, if a driver has led it.

Invariant: a batch of the history is the last version given to the sinks. A later epoch that was recovered or replayed
has the same entry for the same batch; after a rewind and new planning the entry differs, and then all later records of
older epochs belong to an abandoned timeline. The entries do not always show that: a run that started anew may have
reached fewer batches than are recorded for the runs before it (:class:`KnownRuns`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ha.checkpoints.areas.drain import newest_drain, unfinished_batch
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.areas.working_records import read_carried, readable
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS, batches
from airflow_provider_ha.checkpoints.spark.files import names
from airflow_provider_ha.checkpoints.spark.tree import Tree


def merge(
    recordings: Mapping[int, Iterable[BatchEntry]], turns: Mapping[int, int] | None = None
) -> dict[int, BatchEntry]:
    """Return the merged history as entries by batch, ascending; it may have gaps.

    :param turns: First batch that a run has planned anew, by epoch, if known.
    """
    history: dict[int, BatchEntry] = {}
    for epoch in sorted(recordings):
        newer = {entry.batch: entry for entry in recordings[epoch]}
        found = [turn for turn in (_first_difference(history, newer), (turns or {}).get(epoch)) if turn is not None]
        if found:
            history = {batch: entry for batch, entry in history.items() if batch < min(found)}
        # The newer entry of an equal batch may record its commit, which a planned one does not.
        history.update({batch: entry.measured_as(history.get(batch)) for batch, entry in newer.items()})
    return dict(sorted(history.items()))


def following(history: Mapping[int, BatchEntry], batch: int) -> tuple[BatchEntry, ...]:
    """Return the entries after *batch* up to the first gap."""
    entries = []
    while batch + 1 in history:
        batch += 1
        entries.append(history[batch])
    return tuple(entries)


def _first_difference(older: Mapping[int, BatchEntry], newer: Mapping[int, BatchEntry]) -> int | None:
    shared = sorted(older.keys() & newer.keys())
    different = [batch for batch in shared if older[batch].offsets != newer[batch].offsets]
    if not different:
        return None
    agreed = [batch for batch in shared if batch < different[0]]
    # Between the last batch that both share and the first difference, the turn of the newer one is unknown.
    return agreed[-1] + 1 if agreed else min(newer)


_NONE = -1  # the common batch of a query that began anew


@dataclass(frozen=True, slots=True)
class RunStart:
    """Start of a run.

    :param common: Highest batch in common with the runs before it, by query; a missing query started from nothing.
    :param led: Whether a driver is known to have led it.
    """

    common: Mapping[str, int] = field(default_factory=dict)
    led: bool = True

    def of(self, query: str) -> int:
        """Return the highest batch of a query in common with the runs before it; -1 for none."""
        return self.common.get(query, _NONE)


RunStarts = Mapping[int, RunStart]
"""Run -> its start. A run that is not listed continued the run before it."""


@dataclass(frozen=True, slots=True)
class KnownRuns:
    """Known runs of recorded batches.

    :param whole: Run with completely known batches; ``None`` without one.
    """

    of_epoch: Mapping[int, int] = field(default_factory=dict)
    starts: RunStarts = field(default_factory=dict)
    whole: int | None = None

    def turns(self, query: str, planned: Mapping[int, int]) -> Mapping[int, int]:
        """Return epoch -> first batch that its run has planned anew, for the first epoch of a run that shows one.

        :param planned: Epoch -> highest batch known to be planned; -1 for none.
        """
        found: dict[int, int] = {}
        seen = set()
        for epoch in sorted(planned):
            run = self.of_epoch.get(epoch)
            if run is None or run in seen or run not in self.starts:
                continue
            if planned[epoch] > (common := self.starts[run].of(query)):
                found[epoch] = common + 1
                seen.add(run)
        return found

    def kept(self, planned: Mapping[int, int], turns: Mapping[int, int], *, run: int) -> Mapping[int, int]:
        """Return *planned* without the batches that a run up to *run* abandoned with its start.

        The submitter of that run has accepted the sinks' copies of these batches.
        """
        found: dict[int, int] = {}
        for epoch in sorted(planned):
            if epoch in turns and self.of_epoch[epoch] <= run:
                found = {each: min(batch, turns[epoch] - 1) for each, batch in found.items()}
            found[epoch] = planned[epoch]
        return found

    def left_by(self, query: str, planned: Mapping[int, int], *, cut: int, run: int) -> int | None:
        """Return the first later run that may have planned batches up to a cut anew; ``None`` for none.

        :param planned: Epoch -> highest batch known to be planned; -1 for none.
        """
        for number, start in sorted(self.starts.items()):
            common = start.of(query)
            if number <= run or common >= cut:
                continue
            shown = max((planned[each] for each in planned if self.of_epoch.get(each) == number), default=_NONE)
            # guard: runs-without-a-trace-have-planned-nothing
            if shown > common or (start.led and number != self.whole):
                return number
        return None


@dataclass(slots=True)
class PayloadRecords:
    """Records of some queries in the payloads, and the newest payload.

    :param entries: Entries by query, epoch and batch.
    :param cuts: Batch of the highest cut by query and epoch.
    """

    entries: dict[str, dict[int, dict[int, BatchEntry]]]
    cuts: dict[str, dict[int, int]]
    runs: dict[int, int] = field(default_factory=dict)
    newest: Checkpoint | None = None


def read_payloads(payloads: Iterable[Checkpoint], queries: Iterable[str]) -> PayloadRecords:
    """Return the records of *queries* in *payloads*, in any order.

    A later checkpoint of an epoch records more about a batch than an earlier one.
    """
    wanted = frozenset(queries)
    found = PayloadRecords({query: {} for query in wanted}, {query: {} for query in wanted})
    recorded_by: dict[tuple[str, int, int], int] = {}
    for payload in payloads:
        epoch, newest = payload.epoch, found.newest
        found.runs[epoch] = payload.run
        if newest is None or (payload.number, epoch) >= (newest.number, newest.epoch):
            found.newest = payload
        for query in wanted & payload.queries.keys():
            cut, cuts = payload.queries[query], found.cuts[query]
            cuts[epoch] = max(cut.batch, cuts.get(epoch, cut.batch))
            entries = found.entries[query].setdefault(epoch, {})
            for entry in cut.entries:
                if recorded_by.get((query, epoch, entry.batch), payload.number) <= payload.number:
                    entries[entry.batch] = entry
                    recorded_by[query, epoch, entry.batch] = payload.number
    return found


_FORGOTTEN = 0
"""Represents the epochs of a deleted job, whose notes about fenced functions are gone. Epochs begin with 1."""


@dataclass(frozen=True, slots=True)
class LastDirectory:
    """The working directory of the job's last epoch.

    :param key: Under its first name; it may have been fenced since.
    :param replayed: Query -> recorded batches of the restore plan of its run: the sinks have them, even if the
        directory
        does not show them.
    """

    area: WorkArea
    key: str
    epoch: int
    run: int
    replayed: Mapping[str, Sequence[BatchEntry]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryRecords:
    """Records of a query.

    :param history: Entry by recorded batch: the last version given to the sinks.
    :param planned_to: Highest batch known to have been planned, readable or not; -1 without one.
    :param complete: Whether higher batches are impossible.
    :param epochs: Epochs that may have given a batch after the cut to the sink.
    :param drained: Batch that an unfinished drain may have given to the sink; ``None`` without one.
    :param left_by: First later run that may have given the sink other batches up to the cut; ``None`` without one.
    :param turns: First batch that a run has planned anew, by epoch.
    """

    history: Mapping[int, BatchEntry]
    planned_to: int
    complete: bool
    epochs: frozenset[int]
    drained: int | None = None
    left_by: int | None = None
    turns: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LastTraces:
    """Facts found only in the last working directory, which must outlive it when its job is deleted.

    :param drained: Batch that an unfinished drain may have given to its sink, by query.
    :param unrecorded: Whether batches after the newest payload were planned, or may have been.
    """

    drained: Mapping[str, int]
    unrecorded: bool


def read_records(
    chosen: RestoreSource,
    payloads: Iterable[Checkpoint],
    last: LastDirectory | None,
    last_run: int | None = None,
    *,
    unrecorded: bool = False,
    starts: RunStarts | None = None,
) -> dict[str, QueryRecords]:
    """Return the records by query.

    :param payloads: All payloads of the source job (``CheckpointStore.payloads``).
    :param last: Last working directory of the source job; ``None`` when it never had one.
    :param last_run: Newest run of a source job that was deleted with its directories, while that counts; otherwise
        ``None``. With it, *last* is the directory of a run after the deletion.
    :param unrecorded: Whether those directories had batches without a record in a payload (:class:`LastTraces`).
    """
    recorded = read_payloads(payloads, chosen.queries)
    shown = _LastEpoch.read(last) if last is not None else None
    runs = {**recorded.runs, chosen.epoch: chosen.run} | ({shown.epoch: shown.run} if shown is not None else {})
    whole = shown.run if shown is not None and shown.exists else None
    known_runs = KnownRuns(runs, starts or {}, whole)
    past_is_known = last_run is None or (not unrecorded and _complete(None, recorded.newest, last_run))
    complete = past_is_known and _complete(shown, recorded.newest, last_run)
    found = {}
    for query, cut in chosen.queries.items():
        own = {chosen.epoch: {entry.batch: entry for entry in cut.entries}}
        at = (cut.batch, chosen.run)
        recordings = _recordings(query, own, recorded, last)
        known = _query_records(query, at, recordings, recorded, shown, runs=known_runs, complete=complete)
        found[query] = known if past_is_known else replace(known, epochs=known.epochs | {_FORGOTTEN})
    return found


def read_last_traces(payloads: Iterable[Checkpoint], last: LastDirectory) -> LastTraces:
    """Return the facts that a restore would find only in the last working directory of a job.

    The checkpoint of a stop has a cut of every query that its run has started: a query without a cut never ran, and its
    directory is unchanged.
    """
    shown = _LastEpoch.read(last)
    roots = [root for root in (shown.directory, shown.drain) if root is not None]
    queries = sorted({name for root in roots for name in names(root)})
    recorded = read_payloads(payloads, queries)
    newest = recorded.newest
    stopped = newest is not None and newest.reason is CheckpointKind.STOP and newest.epoch >= shown.epoch
    drained, unrecorded = dict[str, int](), not stopped  # guard: epochs-of-deleted-jobs-are-forgotten
    for query in queries:
        recordings = _recordings(query, {}, recorded, last)
        at = (-1, 0)
        batch = _query_records(query, at, recordings, recorded, shown, runs=KnownRuns(), complete=True).drained
        if batch is not None:
            drained[query] = batch
        if stopped and newest is not None and query in newest.queries:
            # The payloads of this epoch record the batches in flight when they were taken.
            known = max((newest.queries[query].batch, *recorded.entries[query].get(newest.epoch, ())))
            # A job whose stop has failed continues after the sharp checkpoint.
            unrecorded = unrecorded or shown.planned(query) > known
    return LastTraces(drained, unrecorded)


def _recordings(
    query: str,
    own: dict[int, dict[int, BatchEntry]],
    recorded: PayloadRecords,
    last: LastDirectory | None,
) -> dict[int, dict[int, BatchEntry]]:
    """Return the entries by epoch and batch: from the cut, the payloads, and the plan of the last run."""
    found = own
    for epoch, entries in recorded.entries[query].items():
        found.setdefault(epoch, {}).update(entries)
    if last is not None:
        for entry in last.replayed.get(query, ()):  # guard: planned-replays-are-forgotten
            found.setdefault(last.epoch, {}).setdefault(entry.batch, entry)
    return found


@dataclass(frozen=True, slots=True)
class _LastEpoch:
    """Content of the last working directory.

    :param directory: Directory under its current name; it may be gone.
    :param carried: Batches of earlier epochs without a payload, by query.
    """

    epoch: int
    run: int
    directory: Tree
    carried: Mapping[str, tuple[BatchEntry, ...]]
    drain: Tree | None

    @classmethod
    def read(cls, last: LastDirectory) -> _LastEpoch:
        directory, drain = last.area.tree(last.area.current(last.key)), newest_drain(last.area, last.key)
        return cls(last.epoch, last.run, directory, read_carried(directory), last.area.tree(drain) if drain else None)

    @property
    def exists(self) -> bool:
        return self.directory.is_directory()

    def planned(self, query: str) -> int:
        """Highest batch that it plans, readable or not; -1 for none."""
        return max(batches(self.directory / query, OFFSETS), default=-1)

    def entries(self, query: str) -> dict[int, BatchEntry]:
        found = {entry.batch: entry for entry in readable(self.directory / query)}
        return found | {entry.batch: entry for entry in self.carried.get(query, ()) if entry.commits is not None}

    def drained(self, query: str, history: Mapping[int, BatchEntry]) -> int | None:
        if self.drain is None:
            return None
        return unfinished_batch(self.directory / query, self.drain / query, history)


def _query_records(
    query: str,
    at: tuple[int, int],
    recordings: dict[int, dict[int, BatchEntry]],
    recorded: PayloadRecords,
    shown: _LastEpoch | None,
    *,
    runs: KnownRuns,
    complete: bool,
) -> QueryRecords:
    """Return the records of a query, for a cut.

    :param at: Batch and run of the cut.
    """
    cut, cut_run = at
    planned = {epoch: max(entries, default=-1) for epoch, entries in recordings.items()}
    for epoch, batch in recorded.cuts[query].items():
        # guard: purged-records-were-never-planned
        planned[epoch] = max(batch, planned[epoch])
    if shown is not None and shown.exists:
        own = recordings.setdefault(shown.epoch, {})
        own.update({number: entry.measured_as(own.get(number)) for number, entry in shown.entries(query).items()})
        planned[shown.epoch] = max((planned.get(shown.epoch, -1), *recordings[shown.epoch], shown.planned(query)))
    turns = runs.turns(query, planned)
    kept = runs.kept(planned, turns, run=cut_run)
    epochs = {epoch for epoch, batch in kept.items() if batch > cut}
    history = merge({epoch: entries.values() for epoch, entries in recordings.items()}, turns)
    return QueryRecords(
        history=history,
        planned_to=max(kept.values(), default=-1),
        complete=complete,
        epochs=frozenset(epochs | ({shown.epoch} if shown is not None else set())),
        drained=shown.drained(query, history) if shown is not None else None,
        left_by=runs.left_by(query, planned, cut=cut, run=cut_run),
        turns=turns,
    )


def _complete(shown: _LastEpoch | None, newest: Checkpoint | None, last_run: int | None) -> bool:
    if shown is not None and shown.exists:
        return True
    # A sharp checkpoint has nothing in flight, and the job has ended with it, unless it was started again.
    # guard: a-stop-hides-the-batches-of-a-later-run
    later = newest is None or (shown is not None and newest.epoch < shown.epoch) or last_run not in {None, newest.run}
    return newest is not None and newest.reason is CheckpointKind.STOP and not later
