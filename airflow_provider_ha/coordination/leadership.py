"""Leadership: one epoch of a lock, held by one session, until its lease ends.

Invariants:

- Every write is one transaction that checks the epoch and that the leader node exists (design, contract 1). kazoo may
  resend a request that was queued under a lost session under the next one; it then fails at these checks.
- One process, one leadership: once lost it never comes back (contract 8). The holder exits, and a fresh process
  contends.
- The lease ends before the server can give the lock to another session. The server counts T from the last time that the
  ensemble's leader heard of the session. A heartbeat that a member acknowledged reaches the leader only with that
  member's next ping, half a tick later, so the last acknowledgement but one counts (design, contract 3;
  ``LearnerHandler`` of ZooKeeper forwards touches with its pings, not with requests).

Threads: :meth:`Leadership.commit` may be called from any thread. Heartbeats have their own thread, which alone calls
``on_lost``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Delete, Op, SessionState, SetData
from airflow_provider_ha.coordination.leader_information import PublishedInformation
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.errors import (
    CoordinationError,
    FencedError,
    LeadershipError,
    LeadershipLostError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.timings import Timings


JUMP_SECONDS = 1.0  # of the wall clock against the boot-time clock; slewing moves it by far less between two heartbeats
LEAST_SECONDS = 120.0
"""Seconds for which a lease remembers its lowest remaining time: longer than the interval of a monitoring."""
_TIMER_SLACK = 0.95  # a timer may wake a little early


@dataclass(frozen=True, slots=True)
class ClockReading:
    """Moment on both clocks.

    :param boot: Lease time, in seconds.
    :param skew: Wall clock minus lease time, in seconds.
    """

    boot: float
    skew: float

    @classmethod
    def at_least(cls, clock: Clock) -> Self:
        """Return the moment. A pause of the process between both readings makes the skew too large, never too small."""
        boot = clock.lease_time()
        return cls(boot, clock.now().timestamp() - boot)

    @classmethod
    def at_most(cls, clock: Clock) -> Self:
        """Return the moment. A pause of the process between both readings makes the skew too small, never too large."""
        wall = clock.now().timestamp()
        boot = clock.lease_time()
        return cls(boot, wall - boot)


class Lease:
    """Deadline = time at which the last but one acknowledged heartbeat was *sent* + T - margin, on the boot-time clock.

    The boot-time clock stops while a hypervisor pauses the machine, but the session runs out. Afterwards the only sign
    is a wall clock that was set forward. That may also be a plain correction of the clock, so it ends no lease, but it
    is doubt: until two heartbeats that were sent after the jump are acknowledged, each acknowledged heartbeat extends
    the lease by one interval and one timeout only.

    Not safe for several writers; readers may be in other threads.

    :param timings: Margin and heartbeat interval.
    :param session_timeout: T in seconds, as the server granted it.
    :param granted_at: Lease time at which the write that proved the grant was sent.
    :param clock: Source of the time.
    """

    def __init__(self, timings: Timings, *, session_timeout: float, granted_at: float, clock: Clock) -> None:
        self._duration = session_timeout - timings.margin  # guard: lease-is-shorter
        self._margin = timings.margin
        self._clock = clock
        self._spacing = timings.heartbeat_interval * _TIMER_SLACK
        self._patience = timings.heartbeat_interval + timings.heartbeat_timeout
        skew = clock.now().timestamp() - granted_at
        self._last = self._newest = ClockReading(granted_at, skew)
        # There is no last but one yet. The member last heard of a previously idle session up to a ping ago (kazoo sends
        # one after T/3), and the ensemble's leader knew of that up to half a tick later.
        self._last_but_one = ClockReading(granted_at - session_timeout / 3 - timings.heartbeat_interval, skew)
        self._lows: tuple[tuple[float, float], ...] = ()  # lease time and the remaining seconds then, both ascending

    def acknowledge(self, sent_at: ClockReading) -> None:
        """Record that a heartbeat sent at *sent_at* was acknowledged.

        A heartbeat less than one interval after its predecessor does not count: both may have waited for the same ping
        (half a tick is at most one interval).
        """
        self._note_low()
        if sent_at.boot > self._newest.boot:
            self._newest = sent_at
        if sent_at.boot - self._last.boot >= self._spacing:
            self._last_but_one, self._last = self._last, sent_at

    def shorten(self, session_timeout: float) -> None:
        """Record the T that a server grants now. A longer T changes nothing."""
        self._duration = min(self._duration, session_timeout - self._margin)

    @property
    def deadline(self) -> float:
        """Lease time at which the lease ends."""
        regular = self._last_but_one.boot + self._duration  # guard: last-heartbeat-counts
        if ClockReading.at_most(self._clock).skew - self._last_but_one.skew <= JUMP_SECONDS:
            return regular
        return min(regular, self._newest.boot + self._patience)  # guard: jump-makes-a-lease-longer

    def left(self) -> float:
        """Return the seconds until the lease ends; negative when it is over."""
        return self.deadline - self._clock.lease_time()

    def least(self) -> float:
        """Return the fewest seconds that were left in the last :data:`LEAST_SECONDS`; negative when it was over."""
        since = self._clock.lease_time() - LEAST_SECONDS
        return min((self.left(), *(low for at, low in self._lows if at >= since)))

    def _note_low(self) -> None:
        """Record the time left before a heartbeat extends it: the minimum until the next heartbeat."""
        now, left = self._clock.lease_time(), self.left()
        since = now - LEAST_SECONDS
        self._lows = (*((at, low) for at, low in self._lows if at >= since and low < left), (now, left))


_log = logging.getLogger(__name__)

_EXIT = "Exit: only a fresh process may contend again"


class Leadership:
    """Right to change a job or a cluster, until lost or released. Created by :func:`election.acquire`.

    :param coordinator: Session that owns the leader node.
    :param lock: Lock that is held.
    :param epoch: Fencing token of this grant.
    :param session_id: Session that the leader node belongs to.
    :param information: Content of the leader node.
    :param granted_at: Lease time at which the first write of this epoch is sent.
    :param timings: Heartbeats and margin.
    :param clock: Clock for the lease.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        lock: Lock,
        *,
        epoch: int,
        session_id: int,
        information: bytes,
        granted_at: float,
        timings: Timings,
        clock: Clock,
    ) -> None:
        self.epoch = epoch
        self.lost = threading.Event()
        self._coordinator = coordinator
        self._lock = lock
        self._session_id = session_id
        self._published = PublishedInformation(
            coordinator, lock, epoch=epoch, session_id=session_id, data=information, on_foreign=self._lose
        )
        self._timings = timings
        self._clock = clock
        self._lease = Lease(timings, session_timeout=coordinator.negotiated_timeout, granted_at=granted_at, clock=clock)
        self._reason = ""
        self._released = False
        self._stopping = threading.Event()
        self._wake = threading.Event()
        self._heartbeats: threading.Thread | None = None

    def lease_left(self) -> float:
        """Return the seconds for which this process may act as the leader; 0 once the leadership is lost or given up.

        The release itself gives the leadership up, not its answer: another process may take the lock long before that
        comes.
        """
        return 0.0 if self.lost.is_set() or self._stopping.is_set() else max(0.0, self._lease.left())

    def least_lease_left(self) -> float | None:
        """Return the fewest seconds that were left of the lease in the last two minutes; 0 once it is lost.

        :returns: ``None`` after a release, because its end is then intended.
        """
        if self._stopping.is_set():
            return None
        return 0.0 if self.lost.is_set() else max(0.0, self._lease.least())

    def doubt(self) -> str:
        """Return why this process no longer leads; empty while it leads, and after a release. Never blocks."""
        return "" if self._stopping.is_set() else self._reason or self._own_doubt()

    def commit(self, *ops: Op) -> list[int]:
        """Apply all *ops* in one transaction, or reject all, as this epoch's leader.

        :returns: Versions as :meth:`Coordinator.commit` does, for *ops* only.
        :raises FencedError: Another epoch owns the lock, or the leader node is gone. Nothing was changed.
        :raises LeadershipLostError: The lease ran out or the session ended. Nothing was sent.
        :raises NodeExistsError, NodeMissingError, VersionConflictError: An operation was rejected, and with it all.
        :raises NotConnectedError, OutcomeUnknownError: As :meth:`Coordinator.commit`.
        """
        self._require_lease()  # guard: lease-checked
        return self._guarded(ops, timeout=self.lease_left())

    def prove(self) -> None:
        """Write one heartbeat now: only a guarded write proves that the lock is still held, reads prove nothing.

        :raises LeadershipError, NotConnectedError, OutcomeUnknownError: As :meth:`commit`.
        """
        sent_at = ClockReading.at_least(self._clock)
        beat = SetData(self._lock.heartbeat, self._clock.now().isoformat().encode())
        self._guarded((beat,), timeout=self._timings.heartbeat_timeout)
        self._lease.acknowledge(sent_at)  # guard: lease-from-the-answer

    def start_heartbeats(self, on_lost: Callable[[str], None]) -> None:
        """Prove the leadership once per heartbeat interval, in a separate thread, and keep the leader node's data.

        :param on_lost: Called once, from that thread, with the reason, when the leadership is lost. A driver then
            exits.
        """
        self._coordinator.add_state_listener(self._on_state)
        # guard: reconnect-before-the-heartbeats-is-missed
        self._lease.shorten(self._coordinator.negotiated_timeout)  # it may have changed since the grant
        self._heartbeats = threading.Thread(
            target=self._beat_until_lost, args=(on_lost,), name=f"ha-heartbeat-{self._lock.label}", daemon=True
        )
        self._heartbeats.start()
        self._published.start()

    def publish(self, information: bytes) -> None:
        """Set the leader node's data to *information* for the rest of this leadership."""
        self._published.replace(information)

    def release(self) -> None:
        """Stop the heartbeats and free the lock without waiting for the session timeout. Idempotent.

        :raises NotConnectedError, OutcomeUnknownError: The leader node may still exist; it ends with the session.
        """
        if self._released:
            return
        self._stop_heartbeats()
        while not self.lost.is_set():
            try:
                # guard: release-guarded
                self._guarded((Delete(self._lock.leader),), timeout=self._timings.session_timeout)
            except LeadershipError:  # noqa: PERF203  # a retry is a try in a loop
                break  # the node no longer belongs to this leadership
            except (NotConnectedError, OutcomeUnknownError):
                if self._lease.left() <= 0:
                    raise
            else:
                _log.info("released %s, epoch %d", self._lock.label, self.epoch)
                break
        self._released = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _require_lease(self) -> None:
        if self._stopping.is_set():
            raise LeadershipLostError(f"epoch {self.epoch} of {self._lock.label} was released")
        reason = self._reason or self._own_doubt()  # guard: leadership-comes-back
        if reason:
            self._lose(reason)
            raise LeadershipLostError(reason, next_step=_EXIT)

    def _own_doubt(self) -> str:
        """Return why this process may no longer act as the leader, from its own knowledge; empty if it may."""
        what = f"{self._lock.label}, epoch {self.epoch}"
        if self._coordinator.state is not SessionState.CONNECTED and not self._timings.tolerate_suspended:
            return f"{what}: the connection is interrupted (strict mode)"
        if self._lease.left() <= 0:
            return f"{what}: the lease ran out {-self._lease.left():.1f} s ago"
        session = self._coordinator.session
        if session is None or session.session_id != self._session_id:  # guard: own-doubt-session
            return f"{what}: the session 0x{self._session_id:x} that held it has ended"
        return ""

    def _guarded(self, ops: tuple[Op, ...], *, timeout: float) -> list[int]:
        guard = (Check(self._lock.epoch, self.epoch), Check(self._lock.leader))  # guard: guard-epoch
        try:
            return self._coordinator.commit(*guard, *ops, timeout=timeout)[len(guard) :]
        except (NodeMissingError, VersionConflictError) as error:
            if error.path not in (self._lock.epoch, self._lock.leader):
                raise
            reason = f"{self._lock.label} was taken from epoch {self.epoch} ({error.message})"
            self._lose(reason)
            raise FencedError(reason, next_step=_EXIT) from error

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set() and not self._stopping.is_set():
            self._reason = reason
            self.lost.set()  # guard: loss-is-set
            self._wake.set()
            self._published.stop()  # without logging, which can block while the end of the process waits

    def _on_state(self, state: SessionState) -> None:
        """Wake the heartbeats on any change: after a cut the next heartbeat must not wait for its turn."""
        if state is SessionState.CONNECTED:
            # guard: reconnect-keeps-the-granted-lease
            self._lease.shorten(self._coordinator.negotiated_timeout)  # another server may grant less
        if state is not SessionState.CONNECTED and not self._timings.tolerate_suspended:  # guard: strict-mode
            self._lose(f"{self._lock.label}, epoch {self.epoch}: the connection was interrupted (strict mode)")
        self._wake.set()

    def _beat_until_lost(self, on_lost: Callable[[str], None]) -> None:
        try:
            self._beat_while_led()
        except BaseException as error:  # noqa: BLE001  # a leader without heartbeats must stop leading
            self._lose(f"{self._lock.label}, epoch {self.epoch}: the heartbeats failed ({error!r})")
        if self.lost.is_set():
            on_lost(self._reason)  # guard: loss-is-reported

    def _beat_while_led(self) -> None:
        while not self._stopping.is_set() and not self.lost.is_set():
            self._wake.clear()
            doubt = self._own_doubt()
            if doubt:
                self._lose(doubt)
                break
            if self._coordinator.state is SessionState.CONNECTED:
                self._beat()
            self._wake.wait(min(self._timings.heartbeat_interval, max(0.0, self._lease.left())))

    def _beat(self) -> None:
        try:
            self.prove()
        except LeadershipError:
            _log.debug("the loop ends with the reason")
        except OutcomeUnknownError:
            # kazoo takes its own requests for pings and would not notice a dead link.
            if self._coordinator.state is SessionState.CONNECTED:
                self._coordinator.drop_connection()
        except CoordinationError as error:
            _log.warning("heartbeat of %s, epoch %d: %s", self._lock.label, self.epoch, error)

    def _stop_heartbeats(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._published.stop()
        thread = self._heartbeats
        if thread is not None and thread is not threading.current_thread():  # guard: release-in-callback
            thread.join(self._timings.heartbeat_timeout * 3)
