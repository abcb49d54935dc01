"""Keeping what is read for long from being removed: a lease that is renewed for as long as its reader lives.

Invariant: the lease comes first, the look at the pointer after it, so either the reader finds no pointer or the remover
finds the lease. A reader that was killed protects what it read for ten minutes more, and no longer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow_provider_ha.checkpoints.retention.pointers import pointer_path
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination import leases
from airflow_provider_ha.coordination.leases import ReaderLease
from airflow_provider_ha.errors import CheckpointMissingError, HaError
from airflow_provider_ha.jobs.job_records import who


log = logging.getLogger(__name__)

LEASE_SECONDS = 600.0
RENEW_SECONDS = LEASE_SECONDS / 4
_CHOICES = 5


@contextmanager
def held(job: JobContext, choose: Callable[[], str], *, by: str, renew_seconds: float = RENEW_SECONDS) -> Iterator[str]:
    """Yield the name of what *choose* chose; no leader removes it until the block ends.

    :param choose: Returns ``checkpoint-<n>`` or ``savepoint-<id>``; called again when that was removed first.
    :param by: Reader, as recorded for people.
    :raises CheckpointMissingError: There is nothing to choose, or what is chosen is removed again and again.
    """
    for _ in range(_CHOICES):
        name = choose()
        with _Keeper(job, name, by, renew_seconds):
            if job.coordinator.find(pointer_path(job.paths, name)) is not None:
                yield name
                return
    raise CheckpointMissingError(
        f"the checkpoints of job {job.job_id!r} are removed faster than they can be read",
        next_step="Raise its retained_checkpoints, or take a savepoint",
    )


class _Keeper:
    """Holds a lease and takes the next one well before it runs out, in its own thread."""

    def __init__(self, job: JobContext, name: str, by: str, renew_seconds: float) -> None:
        self._job = job
        self._name = name
        self._holder = who(by)
        self._renew_seconds = renew_seconds
        self._lease = self._take()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._renew, name=f"lease on {name}", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """Release. A lease that cannot be released runs out; the block ends as it would have ended."""
        self._over.set()
        self._thread.join()
        self._release(self._lease)

    def _take(self) -> ReaderLease:
        return leases.hold(
            self._job.coordinator,
            self._job.paths,
            self._name,
            holder=self._holder,
            seconds=LEASE_SECONDS,
            clock=self._job.clock,
        )

    def _renew(self) -> None:
        while not self._over.wait(self._renew_seconds):
            self._renew_once()

    def _renew_once(self) -> None:
        """Take the next lease, then release the last. The next turn tries again, well before that one runs out."""
        try:
            old, self._lease = self._lease, self._take()
        except HaError as error:
            log.warning("the lease on %s of job %s is not renewed: %s", self._name, self._job.job_id, error)
        else:
            self._release(old)

    def _release(self, lease: ReaderLease) -> None:
        try:
            lease.release()
        except HaError as error:
            log.warning("a reader's lease stays until it runs out: %s", error)
