"""Leadership of a cluster's jobs, with observations of whole jobs in a separate thread.

Two nodes are watched per job: its leader and its graph pointer. While both stay unchanged, a job that is led or idle is
not read again. Every other job is surveyed at each poll (:func:`~airflow_provider_ha.jobs.observe.survey`), and read as
a whole when the survey cannot decide its state, and again after a change. These reads may read storage, so a separate
thread makes them. Until a read ends, the earlier state of the job holds; a job that was never read is unknown, and has
no event.

A look (:mod:`~airflow_provider_ha.fleet.observations`) may read the graph of the job, which is in storage. Storage that
does not answer holds it for minutes, and no thread can be ended: in the call that reads all leaders, the look at one
job would hide the leaders of all others.

Invariants: a caller never waits for an observation; one thread makes all observations of a watcher, one after the
other.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.fleet.notify.notices import (
    GRANTED,
    INTERIM,
    NO_LEADER,
    NOT_INSPECTED,
    QUARANTINED,
    UNKNOWN,
    Condition,
    Event,
)
from airflow_provider_ha.fleet.notify.session import Nodes
from airflow_provider_ha.fleet.observations import JobObservation, look, quarantine_reason
from airflow_provider_ha.jobs.condition import Action, decide
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import LeaderInfo
from airflow_provider_ha.jobs.observe import survey
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit, SubmissionStarted, how_it_ended
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.jobs.status import JobStatus, StandingDepth


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


THREAD = "spark-ha-looks"
_LONG = 30.0  # seconds after which a look without an answer is worth a line in the log


@dataclass(frozen=True, slots=True)
class _ObservedJob:
    """Last observation of a job.

    :param surveyed: State of the job at the time of the request.
    :param began: Start of the observation, on a monotonic clock.
    """

    surveyed: JobStatus[StandingDepth]
    sight: JobObservation
    began: float


class JobObserver:
    """Known observations of jobs. Thread-safe.

    :param look_again: Seconds after which a job is observed again also without a change.
    :param wake: Called from the observing thread after new results, when no further observation is due.
    """

    def __init__(self, look_again: float, wake: Callable[[], None]) -> None:
        self._look_again = look_again
        self._wake = wake
        self._changed = threading.Condition()
        self._known: dict[str, _ObservedJob] = {}
        self._failed: dict[str, str] = {}
        self._due: deque[JobStatus[StandingDepth]] = deque()
        self._wanted: frozenset[str] = frozenset()
        self._client: HaClient | None = None
        self._current: JobStatus[StandingDepth] | None = None
        self._began = 0.0
        self._thread: threading.Thread | None = None
        self._closed = False

    @property
    def trouble(self) -> str | None:
        """Reason of a missing observation; ``None`` without a problem."""
        with self._changed:
            waited = time.monotonic() - self._began
            if self._current is not None and waited > _LONG:
                return f"the look at job {self._current.job_id!r} has no answer after {waited:.0f} s"
            return next(iter(self._failed.values()), None)

    def of(self, job_id: str) -> JobObservation | None:
        """Return the last observation of a job; ``None`` before the end of the first observation."""
        with self._changed:
            known = self._known.get(job_id)
        return known.sight if known is not None else None

    def ask(self, client: HaClient, jobs: Sequence[JobStatus[StandingDepth]]) -> None:
        """Request observations of the due jobs, and return immediately.

        :param jobs: Current states of all jobs that need an observation; other jobs are dropped.
        """
        there, now = frozenset(seen.job_id for seen in jobs), time.monotonic()
        with self._changed:
            self._wanted = there
            self._known = {job_id: known for job_id, known in self._known.items() if job_id in there}
            self._failed = {job_id: why for job_id, why in self._failed.items() if job_id in there}
            self._client = client
            self._due = deque(seen for seen in jobs if self._is_due(seen, now))
            self._changed.notify_all()
            if self._thread is not None or not self._due or self._closed:
                return
            # A daemon: the end of the process does not wait for storage.
            thread = threading.Thread(target=self._run, name=THREAD, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # tried again by the next call
                self._failed |= {seen.job_id: f"no look at job {seen.job_id!r}: {error}" for seen in self._due}
                return
            self._thread = thread

    def close(self) -> None:
        """Let the thread end, after its current observation if any."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _is_due(self, seen: JobStatus[StandingDepth], now: float) -> bool:
        known, current = self._known.get(seen.job_id), self._current
        if current is not None and current.job_id == seen.job_id and is_same(current, seen):
            return False
        return known is None or not is_same(known.surveyed, seen) or now - known.began >= self._look_again

    def _run(self) -> None:
        is_new = False
        while (following := self._next()) is not None:
            is_new = self._look_at(*following) or is_new
            if is_new and not self._due:  # not after each failure: the look would be due at once again
                self._wake()
                is_new = False

    def _next(self) -> tuple[HaClient, JobStatus[StandingDepth]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._due)
            if self._closed or self._client is None:
                return None
            self._current, self._began = self._due.popleft(), time.monotonic()
            return self._client, self._current

    def _look_at(self, client: HaClient, seen: JobStatus[StandingDepth]) -> bool:
        """Observe a job; return whether there is an answer."""
        sight, why = None, ""
        try:
            sight = look(client.coordinator, client.store, client.paths, seen.job_id)
        except Exception as error:  # noqa: BLE001
            why = f"the look at job {seen.job_id!r} has failed: {error}"
        with self._changed:
            self._current = None
            if seen.job_id not in self._wanted:
                return False
            if sight is None:
                self._failed[seen.job_id] = why
                return False
            self._failed.pop(seen.job_id, None)
            self._known[seen.job_id] = _ObservedJob(seen, sight, self._began)
            return True


def is_same(before: JobStatus[StandingDepth], now: JobStatus[StandingDepth]) -> bool:
    """Whether a job is unchanged between two surveys."""
    return (before.quarantined, before.mark) == (now.quarantined, now.mark)


_LIST_AGAIN = 60.0  # seconds after which the jobs are listed also when no watch fires
_INSPECTIONS_READ = 60.0  # seconds between two looks at a leader that inspects: nothing is read at each poll
_NOT_INSPECTED_SECONDS = 300.0  # a leader looks at each job once a minute, and says so every quarter of one


class JobList:
    """The jobs of a cluster, listed again when there may be more or fewer."""

    def __init__(self) -> None:
        self.jobs: tuple[str, ...] = ()
        self._listed: float | None = None

    def refresh(self, client: HaClient, wake: Callable[[], None]) -> None:
        """List the jobs if that is due. Called in a thread.

        :param wake: Called from another thread when they have to be listed again.
        :raises NotConnectedError: They could not be listed.
        """
        if self._listed is not None and time.monotonic() - self._listed < _LIST_AGAIN:
            return
        self._listed = time.monotonic()  # first: a watch that fires during the read makes the next one due

        def changed() -> None:
            self._listed = None
            wake()

        try:
            self.jobs = tuple(client.list_jobs(watch=changed))
        except BaseException:
            self._listed = None
            raise


@dataclass(frozen=True, slots=True)
class _SurveyedJob:
    """Known state of a job.

    :param nodes: Its watched nodes at that time.
    :param until: Time of the next evaluation of its condition, without a change.
    """

    nodes: tuple[object, ...]
    surveyed: JobStatus[StandingDepth]
    condition: Condition
    until: float


class ClusterView:
    """Leadership of a cluster's jobs. Not thread-safe.

    :param grace: Seconds that a condition has to last.
    :param start_timeout: Seconds that a submission may take until it leads.
    :param look_again: Seconds after which a job is observed as a whole also without a change.
    :param wake: Called from another thread after a new observation.
    """

    def __init__(
        self, *, grace: float, start_timeout: float, look_again: float, wake: Callable[[], None] = lambda: None
    ) -> None:
        self._grace = grace
        self._start_timeout = start_timeout
        self._look_again = look_again
        self._looks = JobObserver(look_again, wake)
        self._known: dict[str, _SurveyedJob] = {}
        self._lock = threading.Lock()
        self._inspected_until = 0.0  # of the monotonic clock

    def inspections(self, client: HaClient) -> Condition:
        """Return whether the leader of the cluster has inspected no job for long. Called in a thread.

        :raises NotConnectedError: ZooKeeper did not answer.
        """
        now = time.monotonic()
        if now < self._inspected_until:
            return Condition()
        try:
            leader = read_cluster_leader(client.coordinator, client.paths)
        except RecordCorruptError:
            return Condition()
        lasts = leader.uninspected(client.clock.now()) if leader is not None else 0.0
        if leader is None or lasts <= _NOT_INSPECTED_SECONDS:
            self._inspected_until = now + min(_NOT_INSPECTED_SECONDS - lasts, _INSPECTIONS_READ)
            return Condition()
        facts = leader.model_dump(mode="json", include={"epoch", "host", "pid", "address"})
        reason = f"{leader.address} leads the cluster, and has inspected no job for {lasts:.0f} s"
        facts |= {"cluster": client.config.cluster_id, "reason": reason}
        return Condition(kind=NOT_INSPECTED, key=(leader.epoch,), lasting=self._grace, facts=facts)

    @staticmethod
    def nodes(cluster: ClusterPaths, jobs: Sequence[str]) -> list[str]:
        """Return the nodes that have to be watched."""
        return [node for job_id in jobs for node in _watched(cluster, job_id)]

    @property
    def trouble(self) -> str | None:
        """Reason of missing observations; ``None`` without a problem."""
        return self._looks.trouble

    def close(self) -> None:
        """Stop the observations."""
        self._looks.close()

    def leadership(self, client: HaClient, jobs: Sequence[str], found: Nodes) -> dict[str, Condition]:
        """Return the leadership of the jobs; reads changed jobs. Called in a thread, never waits for storage.

        :param found: The watched nodes.
        :raises NotConnectedError: ZooKeeper did not answer.
        """
        with self._lock:  # a call that was given up may still go on
            return self._leadership(client, jobs, found)

    def _leadership(self, client: HaClient, jobs: Sequence[str], found: Nodes) -> dict[str, Condition]:
        cluster, unclear = client.paths, list[JobStatus[StandingDepth]]()
        nodes = {job_id: tuple(found[node] for node in _watched(cluster, job_id)) for job_id in jobs}
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in nodes}
        due = [job_id for job_id in jobs if self._is_due(job_id, nodes[job_id])]
        for seen in survey(client.coordinator, cluster, due) if due else ():
            condition, until = self._told_by(client, seen)
            if condition is None:
                unclear.append(seen)
                condition = self._last_known(seen.job_id, client.clock.now())
            self._known[seen.job_id] = _SurveyedJob(nodes[seen.job_id], seen, condition, until)
        self._looks.ask(client, unclear)
        return {job_id: self._known[job_id].condition for job_id in jobs}

    def _is_due(self, job_id: str, nodes: tuple[object, ...]) -> bool:
        known = self._known.get(job_id)
        return known is None or known.surveyed.needs_a_look or known.nodes != nodes

    def _told_by(self, client: HaClient, seen: JobStatus[StandingDepth]) -> tuple[Condition | None, float]:
        """Return the condition from the survey, and the end of its validity."""
        before, now = self._known.get(seen.job_id), time.monotonic()
        if not seen.is_unclear and before is not None and is_same(before.surveyed, seen) and now < before.until:
            return before.condition, before.until
        return self._condition(client, seen), now + self._look_again

    def _condition(self, client: HaClient, seen: JobStatus[StandingDepth]) -> Condition | None:
        """Return the condition of a job; ``None`` when only the whole job shows it."""
        if seen.is_led and seen.leader is not None:
            return self._granted(seen.leader)
        if seen.is_idle or seen.is_over:
            return Condition()
        if seen.quarantined:
            return self._quarantined(client, seen)
        if seen.is_unclear or seen.graph is None:
            return None
        return self._no_leader(seen, _reason(client, seen, seen.graph), seen.is_lost)

    def _last_known(self, job_id: str, now: datetime) -> Condition:
        sight, before = self._looks.of(job_id), self._known.get(job_id)
        if sight is not None:
            return self._shown_by(sight, now)
        return UNKNOWN if before is None else before.condition

    def _shown_by(self, sight: JobObservation, now: datetime) -> Condition:
        status, found = sight.status, decide(sight.status, sight.options, now)
        if found.action is Action.LEAVE and status.leader is not None:
            return self._granted(status.leader)
        is_lost = found.action is Action.QUARANTINE or found.action.follows_a_loss
        if not is_lost and found.action is not Action.WAIT:
            return Condition()
        return self._no_leader(status, found.reason, is_lost)

    def _no_leader(self, seen: JobStatus[StandingDepth], reason: str, is_lost: bool) -> Condition:
        which: Event = {}
        if (newest := seen.newest) is not None:
            which = {"run": newest.number, "attempt": newest.attempt, "epoch": seen.epoch}
        lasting = self._grace if is_lost else self._start_timeout
        # The reason is no part of it: it says more once the supervisor has reported.
        key = (is_lost, *sorted(which.items())) if which else (is_lost, reason)
        return Condition(kind=NO_LEADER, key=key, lasting=lasting, facts={"reason": reason, **which})

    def _quarantined(self, client: HaClient, seen: JobStatus[StandingDepth]) -> Condition | None:
        reason = quarantine_reason(client.coordinator, client.paths, seen.job_id)
        if reason is None:  # released since it was surveyed: the outage goes on until the next survey
            return None
        facts: Event = {"reason": reason}
        if seen.graph is not None:
            facts |= {"run": seen.graph.run, "attempt": seen.graph.attempt, "epoch": seen.epoch}
        return Condition(kind=QUARANTINED, key=(reason,), lasting=self._grace, facts=facts)

    def _granted(self, leader: LeaderInfo) -> Condition:
        if not leader.attempt:
            return INTERIM
        facts = leader.model_dump(mode="json", include={"run", "attempt", "epoch", "host", "pid", "standby"})
        return Condition(kind=GRANTED, key=(leader.epoch,), lasting=self._grace, facts=facts)


def _watched(cluster: ClusterPaths, job_id: str) -> tuple[str, str]:
    paths = cluster.job(job_id)
    return paths.leader, paths.job_graph


def _reason(client: HaClient, seen: JobStatus[StandingDepth], pointer: GraphPointer) -> str:
    """Return the reason why a job has no leader, with the end of its newest ended attempt."""
    run, attempt, paths = pointer.run, pointer.attempt, client.paths.job(seen.job_id)
    ended = attempt if seen.is_lost else attempt - 1
    try:
        started = decode(client.coordinator.find(paths.submission_started(run, attempt)), SubmissionStarted)
        left = decode(client.coordinator.find(paths.submission_exit(run, ended)), SubmissionExit)
    except RecordCorruptError:
        started = left = None
    if seen.is_lost:
        reason = f"run {run} has lost its driver, epoch {seen.epoch}"
    else:
        refusal = started.refusal(run, attempt) if started is not None else ""
        reason = refusal or f"attempt {attempt} of run {run} was submitted and has no leader yet"
    return f"{reason}; attempt {ended}: {how_it_ended(left)}" if left is not None else reason
