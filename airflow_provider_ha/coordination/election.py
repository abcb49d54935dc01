"""Election of the leader of a job or a cluster: each grant has a new epoch, and no lost answer grants it twice.

The epoch is the version of the epoch node: made once with version 0, set by every acquisition in the same transaction
that creates the leader's ephemeral node, so the first epoch is 1. It is never deleted, so an epoch never comes back.

When the answer to that transaction is lost, the nodes are read back. The epoch node's data then shows whether this
attempt was applied, and the leader node's owner whether it belongs to the *current* session: a node that only carries
the name of this process may belong to a session that is about to die (CURATOR-498, CURATOR-696).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Create, Delete, Node, Op, SetData
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.errors import (
    CoordinationError,
    FencedError,
    LeadershipUnavailableError,
    NodeExistsError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.timings import Timings


__all__ = ["Leadership", "acquire"]

_log = logging.getLogger(__name__)


def acquire(
    coordinator: Coordinator,
    lock: Lock,
    *,
    timings: Timings,
    clock: Clock,
    describe: Callable[[int], bytes],
    timeout: float | None,
    stop: threading.Event | None = None,
    admit: Callable[[], None] | None = None,
    also: Callable[[int], tuple[Op, ...]] | None = None,
) -> Leadership:
    """Wait until the lock is free, then take it.

    :param coordinator: Session; the leadership ends with it.
    :param lock: Lock of a job or of the cluster.
    :param timings: Heartbeats and lease.
    :param clock: Clock for the lease.
    :param describe: Returns the data of the leader node for the epoch that would be won. Called once per epoch.
    :param timeout: Seconds to wait; ``None`` waits without limit, also through outages of ZooKeeper; 0 tries once.
    :param stop: Set by another thread to end the wait; noticed within a heartbeat interval.
    :param admit: Called before each attempt; an error in it ends the wait (for example, the run already has a result).
    :param also: Returns, for the epoch that would be won, operations of the transaction that grants it.
    :raises LeadershipUnavailableError: Another process still leads after *timeout*, or *stop* was set.
    :raises NotConnectedError: ZooKeeper does not answer within *timeout*.
    """
    candidate = _Candidate(coordinator, lock, timings, clock, describe, also or _nothing)
    try:
        return _wait_for_grant(candidate, timeout, stop, admit)
    except BaseException:
        candidate.withdraw()  # guard: withdraw
        raise


def _wait_for_grant(
    candidate: _Candidate, timeout: float | None, stop: threading.Event | None, admit: Callable[[], None] | None
) -> Leadership:
    label, interval = candidate.lock.label, candidate.timings.heartbeat_interval
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        if stop is not None and stop.is_set():  # guard: stop-noticed
            raise LeadershipUnavailableError(f"the wait for {label} was called off")
        try:
            leadership = candidate.try_once(admit)
        except (NotConnectedError, OutcomeUnknownError) as error:
            if deadline is not None and time.monotonic() >= deadline:
                raise
            _log.warning("waiting for %s: %s", label, error)
            leadership = None
        if leadership is not None:
            return leadership
        left = interval if deadline is None else deadline - time.monotonic()
        if left <= 0:
            raise candidate.unavailable(timeout or 0.0)
        candidate.changed.wait(min(left, interval))


def _nothing(epoch: int) -> tuple[Op, ...]:  # noqa: ARG001  # the interface of ``also``
    return ()


@dataclass
class _Candidate:
    """Candidate for leadership: one process, with its state between attempts.

    ``attempt`` is its content of the epoch node. It stays the same over all attempts, so that a transaction whose
    response was lost is still recognised and does not raise the epoch a second time.
    """

    coordinator: Coordinator
    lock: Lock
    timings: Timings
    clock: Clock
    describe: Callable[[int], bytes]
    also: Callable[[int], tuple[Op, ...]] = _nothing
    attempt: bytes = field(default_factory=lambda: new_id().encode())
    changed: threading.Event = field(default_factory=threading.Event)
    information: dict[int, bytes] = field(default_factory=dict)
    leader: Node | None = None
    contended: bool = False

    def try_once(self, admit: Callable[[], None] | None) -> Leadership | None:
        """Take the lock if it is free; return ``None`` if it is not, or if the outcome is still unknown."""
        self.changed.clear()
        epoch = self._read()
        if self.leader is None:  # guard: wait-for-absence
            if admit is not None:  # guard: admission-each-time
                admit()
            self._contend(epoch)  # guard: lost-answer-of-an-acquisition-is-a-failure
            epoch = self._read()
        return self._judge(epoch, self.leader)

    def withdraw(self) -> None:
        """Remove the leader node if this session owns it after all: a session that lives on must not block the job."""
        if not self.contended:
            return
        try:
            epoch = self._read()
            if self._is_mine(epoch, self.leader):  # guard: withdraw-own-only
                self.coordinator.commit(Check(self.lock.epoch, epoch.version), Delete(self.lock.leader))
        except CoordinationError as error:
            _log.warning(
                "the wait for %s ended, its lock may be held until the session ends: %s", self.lock.label, error
            )

    def _read(self) -> Node:
        """Return the epoch node; remember the leader node and watch it."""
        epoch = self.coordinator.find(self.lock.epoch)
        if epoch is None:
            # The epoch last: a process that finds it takes the lock immediately, and first writes the heartbeat node.
            self.coordinator.ensure(self.lock.heartbeat, self.lock.epoch)
            epoch = self.coordinator.get(self.lock.epoch)
        self.leader = self.coordinator.find(self.lock.leader, watch=self.changed.set)
        return epoch

    def _contend(self, epoch: Node) -> None:
        self.contended = True
        try:
            self.coordinator.commit(
                Check(self.lock.epoch, epoch.version),
                SetData(self.lock.epoch, self.attempt, epoch.version),  # guard: attempt-kept
                Create(self.lock.leader, self._information(epoch.version + 1), ephemeral=True),
                *self.also(epoch.version + 1),
            )
        except (NodeExistsError, VersionConflictError):
            _log.debug("another process was faster, or an earlier attempt of this one was applied late")
        except OutcomeUnknownError:
            _log.info("no answer to the acquisition of %s; reading back", self.lock.label)

    def _judge(self, epoch: Node, leader: Node | None) -> Leadership | None:
        """Decide from the nodes whether this candidate leads, and prove it with a first guarded write."""
        if leader is None or not self._is_mine(epoch, leader):
            return None
        leadership = Leadership(
            self.coordinator,
            self.lock,
            epoch=epoch.version,  # guard: epoch-is-the-version
            session_id=leader.ephemeral_owner,
            information=self._information(epoch.version),
            granted_at=self.clock.lease_time(),
            timings=self.timings,
            clock=self.clock,
        )
        try:
            leadership.prove()  # guard: grant-proved
        except FencedError:
            return None
        _log.info("leading %s with epoch %d, session 0x%x", self.lock.label, epoch.version, leader.ephemeral_owner)
        return leadership

    def _information(self, epoch: int) -> bytes:
        """Return the leader information of *epoch*: the same bytes at every attempt, as one may be applied late."""
        if epoch not in self.information:
            self.information[epoch] = self.describe(epoch)
        return self.information[epoch]

    def _is_mine(self, epoch: Node, leader: Node | None) -> bool:
        session = self.coordinator.session
        if leader is None or session is None:
            return False
        return epoch.data == self.attempt and leader.ephemeral_owner == session.session_id  # guard: owner-compared

    def unavailable(self, waited: float) -> LeadershipUnavailableError:
        """Return the error for a wait that ends without the lock."""
        owner = f"session 0x{self.leader.ephemeral_owner:x}" if self.leader else "another process"
        return LeadershipUnavailableError(
            f"{self.lock.label} is still led by {owner} after {waited:g} s",
            next_step="Wait until its leader ends or its session is over; a job can be stopped or canceled",
        )
