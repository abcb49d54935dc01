"""Cleanup of a job's working directories: superfluous directories, and unneeded files.

Invariant: retained checkpoints are read first, from ZooKeeper and payloads. A checkpoint that cannot be read, or that
was marked for deletion while a reader holds a lease on it, ends the pass without removals.

Invariant: the newest one stays, and so does the directory of a retained checkpoint without a pin: a restore reads them,
fenced or not. So does the newest fork of an unfinished drain: it alone shows that the batch beyond the last one, which
the sinks may have, is the drain's. Forks share files by links, so removing the other directories does not affect their
forks. A directory of a later epoch than the newest known one is not judged here.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator

from airflow_provider_ha.checkpoints.areas.drain import newest_drain
from airflow_provider_ha.checkpoints.areas.layered.garbage import Cuts, GarbageSearch, note_needs, remove, time_of
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import CheckpointError, HaError, RecordCorruptError
from airflow_provider_ha.storage.keys import JobKeys, epoch_of
from airflow_provider_ha.storage.object_store import ObjectStore


_EPOCH = re.compile(r"e(\d+)-")


def superfluous_directories(
    checkpoints: CheckpointStore, area: WorkArea, current: str, *, drains_after: int | None
) -> list[str]:
    """Return the keys of removable directories other than *current*, oldest first.

    :param drains_after: Epoch after which a fork belongs to the newest run; ``None`` when that run has finished its
        drain (``jobs.runs.drains_after``).
    :raises RecordCorruptError: A checkpoint cannot be read, so its directories are unknown; or *current* or a
        checkpoint refers to a directory outside of the job's.
    """
    listing = checkpoints.list()
    if listing.unreadable:
        raise RecordCorruptError(f"checkpoint {listing.unreadable[0].name} cannot be read, so no directory is removed")
    live, job = JobKeys(checkpoints.job_id).live, f"job {checkpoints.job_id!r}"
    here = area.admit(current, inside=(live,), source=f"the current working directory of {job}")
    unpinned = (found for found in map(checkpoints.load, listing.pointers) if not found.pin)
    needed = {here, *(checkpoints.directory(found) for found in unpinned)}  # guard: housekeeping-goes-by-any-directory
    kept = {key for name in needed for key in (name, area.fenced(name))}
    newest = _EPOCH.match(here.removeprefix(live))
    drain = newest_drain(area, here) if drains_after is not None else None
    if drain is not None and drains_after is not None and epoch_of(drain) > drains_after:
        kept.add(drain)
    found = [(int(match[1]), f"{live}{name}") for name in area.list(live) if (match := _EPOCH.match(name))]
    # guard: later-epoch-stays
    return [key for epoch, key in sorted(found) if newest and epoch <= int(newest[1]) and key not in kept]


log = logging.getLogger(__name__)
INTERVAL = 3600.0  # seconds between two passes of a driver
RETRY_SECONDS = 600.0  # before a failed pass is restarted


def retained_cuts(checkpoints: CheckpointStore) -> Cuts:
    """Return the cuts of working directories that checkpoints without a separate directory keep.

    :raises RecordCorruptError: A checkpoint cannot be read: its files are unknown.
    :raises CheckpointError: A checkpoint marked for deletion is being read.
    """
    listing = checkpoints.list()
    if listing.unreadable:  # guard: unreadable-checkpoints-keep-nothing
        first = listing.unreadable[0]
        raise RecordCorruptError(
            f"checkpoint {first.name} of job {checkpoints.job_id!r} cannot be read: {first.reason}"
        )
    cuts: dict[str, dict[str, set[int]]] = {}
    for pointer in listing.pointers:
        checkpoint = checkpoints.load(pointer)
        if checkpoint.pin is None:
            of_directory = cuts.setdefault(checkpoints.directory(checkpoint), {})
            for query, part in checkpoint.queries.items():
                of_directory.setdefault(query, set()).add(part.batch)
    # After the pointers: a pointer marked between the two reads is in the first answer or in this one.
    read = checkpoints.read_while_waiting()
    if read:  # guard: what-is-read-goes
        raise CheckpointError(
            f"{read[0]} of job {checkpoints.job_id!r} is being read, and is removed afterwards",
            next_step="Try again when its reader has finished",
        )
    return cuts


def search(checkpoints: CheckpointStore, files: ObjectStore, current: str | None, now: int) -> GarbageSearch:
    """Return a new search in the working directories of a job; raises as :func:`retained_cuts` does.

    :param current: Key of the current working directory.
    :param now: The storage's time, in milliseconds since 1970.
    """
    return GarbageSearch(files, JobKeys(checkpoints.job_id).live, retained_cuts(checkpoints), current, now)


class WorkingFilesCollector:
    """Collects the files of a job in small steps. For one thread.

    :param current: Returns the key of the current one; ``None`` for none.
    :param now: Lease time, in seconds, to schedule the next pass.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        files: ObjectStore,
        current: Callable[[], str | None],
        now: Callable[[], float],
    ) -> None:
        self._checkpoints = checkpoints
        self._files = files
        self._current = current
        self._now = now
        self._due = now()
        self._steps: Iterator[None] | None = None

    def collect(self, leadership: Leadership, go_on: Callable[[], bool]) -> bool:
        """Continue a pass, or start a due one, while *go_on* returns true: a turn of the driver's cleaning.

        A failed pass is started again later; files are never removed on a guess.

        :returns: Whether the work is done for now.
        :raises LeadershipError: This process may no longer write for the job.
        """
        if self._steps is None:
            if self._now() < self._due:
                return True
            self._steps = self._pass(leadership)
        try:
            for _ in self._steps:
                if not go_on():
                    return False
        except (HaError, OSError):
            self._steps, self._due = None, self._now() + RETRY_SECONDS
            raise
        self._steps, self._due = None, self._now() + INTERVAL
        return True

    def _pass(self, leadership: Leadership) -> Iterator[None]:
        found = search(self._checkpoints, self._files, self._current(), time_of(self._files))
        yield from found.steps()
        note_needs(self._files, found.known, leadership.prove)
        removed = 0
        for _ in remove(self._files, found.garbage, leadership.prove):
            removed += 1
            yield
        if removed:
            log.info("removed %d of %d files in working directories of %s", removed, found.seen, found.live)
