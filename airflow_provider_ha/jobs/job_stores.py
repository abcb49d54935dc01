"""Checkpoints and savepoints of a job, and the leases of their readers.

Invariants:

- A reader creates its lease before it reads the pointer, so either the reader finds no pointer, or the remover finds
  the lease. A killed reader protects its checkpoint for ten more minutes at most.
- A lease ends with the call that created it, unless a run was created from the plan that it protects: that run's driver
  still has to fork the cut, so the lease expires later. The same holds if a run may need the lease (contract 2: an
  uncertain outcome discards nothing).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection, select
from airflow_provider_ha.checkpoints.store.checkpoint_pointers import pointer_path
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.checkpoints.verify.verification import Depth
from airflow_provider_ha.coordination import reader_leases
from airflow_provider_ha.coordination.node_names import is_plain, ours
from airflow_provider_ha.coordination.reader_leases import ReaderLease, active, hold
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    HaError,
    JobStateError,
    NotConnectedError,
    OutcomeUnknownError,
    UnknownJobError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.runs.run_store import start_of_run


log = logging.getLogger(__name__)

LEASE_SECONDS = 600.0
RENEW_SECONDS = LEASE_SECONDS / 4
_CHOICES = 5


@contextmanager
def held(job: JobContext, choose: Callable[[], str], *, by: str, renew_seconds: float = RENEW_SECONDS) -> Iterator[str]:
    """Yield the name that *choose* returned; leaders keep that checkpoint or savepoint until the block ends.

    :param choose: Returns ``checkpoint-<n>`` or ``savepoint-<id>``; called again if that was just removed.
    :raises CheckpointMissingError: There is no candidate, or the candidates are removed repeatedly.
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
    """Holds a lease and replaces it well before it expires, in its own thread."""

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
        """Release the lease. If that fails, the lease expires, and the block ends as usual."""
        self._over.set()
        self._thread.join()
        self._release(self._lease)

    def _take(self) -> ReaderLease:
        return reader_leases.hold(
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
        """Create the next lease, then release the last; the next turn, well before its expiry, repeats a failure."""
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


def require_over(job: JobContext) -> None:
    """Refuse to remove a live job.

    :raises JobStateError: The job has a leader, a live run or a reader.
    :raises UnknownJobError: The job does not exist.
    """
    snapshot = job.snapshot()
    if snapshot.leader is not None:  # guard: erase-not-under-a-leader
        raise JobStateError(
            f"job {job.job_id!r} is led by epoch {snapshot.leader.epoch} on {snapshot.leader.host}",
            next_step=f"End it first: `spark-ha job stop {job.job_id}` or `spark-ha job cancel {job.job_id}`",
        )
    if snapshot.run is not None and snapshot.run.result is None:  # guard: erase-only-what-is-over
        raise JobStateError(
            f"run {snapshot.run.run.number} of job {job.job_id!r} is {snapshot.state.value} and has no result",
            next_step=f"End it first: `spark-ha job stop {job.job_id}` or `spark-ha job cancel {job.job_id}`; "
            "`spark-ha cluster recover` continues it",
        )
    for what in readers(job):
        raise JobStateError(
            f"a reader holds {what!r} of job {job.job_id!r}", next_step="Wait for its end, then delete again"
        )


def in_use(job: JobContext) -> list[str]:
    """Return the temporary users of an ended job: an ending driver, and readers.

    Empty for a live run and for an unknown job, which the removal itself refuses.
    """
    try:
        snapshot = job.snapshot()
    except UnknownJobError:
        return []
    if snapshot.run is not None and snapshot.run.result is None:
        return []
    leader = snapshot.leader
    led = [] if leader is None else [f"it is led by epoch {leader.epoch} on {leader.host}"]
    return led + [f"a reader holds {what}" for what in readers(job)]


def readers(job: JobContext) -> list[str]:
    """Return the names of the job's checkpoints and savepoints under a reader's lease, such as ``checkpoint-12``.

    :raises RecordCorruptError: A lease cannot be read; it may protect a checkpoint.
    """
    leases = f"{job.paths.base}/leases"
    names = ours(job.coordinator.children(leases), is_plain, parent=leases)
    found = []
    for what in names:
        if active(job.coordinator, job.paths, what, job.clock):  # guard: erase-not-under-a-reader
            found.append(what)  # noqa: PERF401  # a guard is a statement
    return found


RESTORE_LEASE_SECONDS = 600.0  # from the plan until the new driver has forked the cut
_UNCERTAIN = (NotConnectedError, OutcomeUnknownError)  # a run may have been created nevertheless


@dataclass(slots=True)
class _HeldLease:
    lease: ReaderLease
    plan: str | None = None  # digest of the plan that reads the protected checkpoint; None before the plan


class RestoreLeases:
    """Leases of a call on another job's checkpoints. Use it in a ``with`` statement around the whole call.

    :param job: The job that will run from them.
    """

    def __init__(self, job: JobContext, request_id: str) -> None:
        self._job = job
        self._request_id = request_id
        self._held: list[_HeldLease] = []

    def hold(self, source: JobContext, chosen: RestoreSource) -> None:
        """Create a lease on *chosen*. Read its pointer after that."""
        lease = hold(
            source.coordinator,
            source.paths,
            chosen.name,
            holder=who(f"restore of {self._job.job_id} ({self._request_id})"),
            seconds=RESTORE_LEASE_SECONDS,
            clock=source.clock,
        )
        self._held.append(_HeldLease(lease))

    def planned(self, plan: Blob | None) -> None:
        """Record that a run may be created from *plan*, which reads the last leased checkpoint."""
        if self._held and plan is not None:
            self._held[-1].plan = plan.sha256

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the leases without a run that needs them. If that fails, they expire, and the call ends as usual."""
        certain = error is None or (isinstance(error, Exception) and not isinstance(error, _UNCERTAIN))
        try:
            for held in self._held:
                if held.plan is None or (certain and not self._runs_from(held.plan)):  # guard: plan-keeps-its-lease
                    held.lease.release()
        except HaError as failure:
            log.warning("a reader's lease stays until it runs out: %s", failure)

    def _runs_from(self, plan: str) -> bool:
        newest = self._job.runs.latest()
        return newest is not None and newest.run.start.plan is not None and newest.run.start.plan.sha256 == plan


def select_checkpoint(job: JobContext, *, start_from: str, fallback: bool, depth: Depth = "full") -> Selection:
    """Verify the job's checkpoints and savepoints, newest first (``checkpoints.restore.select``)."""
    return select(
        checkpoint_store(job),
        savepoint_store(job),
        job.area,
        start_from=start_from,
        fallback=fallback,
        depth=depth,
    )


def checkpoint_store(job: JobContext) -> CheckpointStore:
    """Return the job's checkpoints."""
    return CheckpointStore(job.coordinator, job.store, job.paths, job.keys, job.area, clock=job.clock)


def savepoint_store(job: JobContext) -> SavepointStore:
    """Return the job's savepoints."""
    start = partial(start_of_run, job.coordinator, job.paths)
    return SavepointStore(job.coordinator, job.paths, job.keys, job.area, clock=job.clock, start=start)
