"""Unneeded files in a job's working directories, where Spark's deletes are left to this collector.

Invariant: retained checkpoints are read first, from ZooKeeper and payloads. A checkpoint that cannot be read, or that
was marked for deletion while a reader holds a lease on it, ends the pass without removals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.working.layered.collector import note_needs, remove, time_of
from airflow_provider_ha.checkpoints.working.layered.garbage import Cuts, Search
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import CheckpointError, HaError, RecordCorruptError
from airflow_provider_ha.storage.file_store import FileStore
from airflow_provider_ha.storage.keys import JobKeys


log = logging.getLogger(__name__)
INTERVAL = 3600.0  # seconds between two passes of a driver
RETRY_SECONDS = 600.0  # before a failed pass is restarted


def retained_cuts(checkpoints: CheckpointStore) -> Cuts:
    """Return the cuts of working directories that checkpoints without a separate directory keep.

    :raises RecordCorruptError: A checkpoint cannot be read: its files are unknown.
    :raises CheckpointError: A checkpoint marked for deletion is being read.
    :raises StorageUnavailableError: A payload could not be read.
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


def search(checkpoints: CheckpointStore, files: FileStore, current: str | None, now: int) -> Search:
    """Return a new search in the working directories of a job; raises as :func:`retained_cuts` does.

    :param current: Key of the current working directory.
    :param now: The storage's time, in milliseconds since 1970.
    """
    return Search(files, JobKeys(checkpoints.job_id).live, retained_cuts(checkpoints), current, now)


class WorkingFilesCollector:
    """Collects the files of a job in small steps. For one thread.

    :param files: Holds the working directories.
    :param current: Returns the key of the current one; ``None`` for none.
    :param now: Lease time, in seconds, to schedule the next pass.
    """

    def __init__(
        self,
        checkpoints: CheckpointStore,
        files: FileStore,
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
