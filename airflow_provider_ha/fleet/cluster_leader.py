"""The leader of a cluster: the process that recovers its jobs.

On grant it recovers every job that needs recovery and no other. While it leads it keeps watching. On revoke it stops
acting immediately. It also accepts submissions: a process that does not lead refuses them and names the leader.

Exactly one process recovers. The lock keeps two leaders apart, its epoch fences a deposed leader, and a lost epoch is
claimed once (contract 9), also against an Airflow task that follows the job.

One process has one leadership (contract 8): after a loss it exits, and a fresh process contends. A process whose read
of a job hangs gives up the leadership.
"""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.node_names import is_job
from airflow_provider_ha.errors import (
    CoordinationError,
    HaError,
    LeadershipError,
    LeadershipLostError,
    NotConnectedError,
)
from airflow_provider_ha.fleet.cluster_removal import BlobCollection, cluster_collection
from airflow_provider_ha.fleet.observations import DueWatch, ReconcileQueue
from airflow_provider_ha.fleet.reconciler import (
    JobWait,
    ReconcileOutcome,
    Reconciler,
    ReconcileResult,
    ReconcileTimings,
)
from airflow_provider_ha.jobs.observe import survey
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.rebuild.rebuild import is_known_to_storage_only
from airflow_provider_ha.jobs.runs.watchers import ClusterLeaderInfo, not_leading
from airflow_provider_ha.jobs.status import JobStatus, StandingDepth
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.storage import keys


log = logging.getLogger(__name__)

_FEW = 5  # jobs; fewer are read without a survey
_LOOK_SECONDS = 900.0  # between two full reads of a job that needs none according to surveys
HUNG = 2  # exit code, as the command's for a lost leadership
_WATCH_SECONDS = 0.5
_TELL_SECONDS = 15.0
_GIVING_UP_SECONDS = 2.0  # for the release of the lock, which is otherwise free after a session timeout
_WORKERS = 8  # a launch may wait for a response; other jobs must not wait with it
Report = Callable[[ReconcileResult], None]


class ClusterLeader:
    """Contends for the leadership of a cluster, and recovers its jobs while it leads.

    .. code-block:: python

        with HaClient.open(config) as client, ClusterLeader(client, by="recoverer") as leader:
            leader.lead(timeout=None)
            leader.watch(stop)

    :param client: The cluster. Its session holds the lock, so it must not be shared with another leader.
    :param address: Address of this process; host and process id by default.
    :param patience: Time limits before an act.
    :param waiting: Open waits of an earlier leader; see :attr:`waiting`.
    """

    def __init__(
        self,
        client: HaClient,
        *,
        by: str,
        address: str = "",
        patience: ReconcileTimings | None = None,
        waiting: Mapping[str, JobWait] | None = None,
    ) -> None:
        self._client = client
        self._by = by
        self._address = address or f"{socket.gethostname()}:{os.getpid()}"
        self._patience = patience or ReconcileTimings()
        self._earlier = waiting
        self._agenda = ReconcileQueue(client.clock)
        self._attendant: Reconciler | None = None
        self._leadership: Leadership | None = None
        self._looked: dict[str, float] = {}
        self._since = client.clock.now()

    @property
    def leads(self) -> bool:
        """``True`` if this process leads the cluster now."""
        return self._leadership is not None and self._leadership.lease_left() > 0

    @property
    def waiting(self) -> dict[str, JobWait]:
        """Open waits of the jobs: a debounce, or the delay of their restart strategy. Empty before the grant."""
        return {} if self._attendant is None else self._attendant.waiting

    @property
    def leadership(self) -> Leadership:
        """The leadership, for writes about the cluster.

        :raises LeadershipUnavailableError: This process does not lead; the message names the leader.
        """
        if self._leadership is None or not self.leads:
            raise not_leading(self._client.coordinator, self._client.paths)
        return self._leadership

    @property
    def epoch(self) -> int:
        """Epoch of this leadership; 0 before the grant."""
        return self._leadership.epoch if self._leadership is not None else 0

    def lead(self, *, timeout: float | None, stop: threading.Event | None = None) -> None:
        """Wait until the cluster has no leader, then lead it.

        :param timeout: Seconds to wait; ``None`` waits without limit; 0 tries once.
        :param stop: Event that ends the wait.
        :raises LeadershipUnavailableError: Another process leads; the message has its address.
        :raises LeadershipLostError: This process has led before, and its knowledge from that time may be outdated.
        :raises NotConnectedError: ZooKeeper does not answer within *timeout*.
        """
        if self._leadership is not None:
            raise LeadershipLostError("one process leads a cluster once", next_step="Start a fresh process")
        client = self._client
        client.coordinator.ensure(client.paths.quarantine)
        try:
            leadership = acquire(
                client.coordinator,
                client.paths.lock,
                timings=client.config.timings,
                clock=client.clock,
                describe=self._describe,
                timeout=timeout,
                stop=stop,
            )
        except LeadershipError as error:
            raise not_leading(client.coordinator, client.paths) from error
        self._leadership = leadership
        self._attendant = Reconciler(client, leadership, by=self._by, patience=self._patience, waiting=self._earlier)
        leadership.start_heartbeats(self._on_lost)
        watched = (leadership, self._attendant)
        threading.Thread(target=self._watch_inspections, args=watched, name="inspections", daemon=True).start()

    def submit(self, request: JobSpec) -> SubmittedRun:
        """Submit a job, as the cluster's leader.

        :raises LeadershipUnavailableError: This process does not lead; the message names the leader. Raised before any
            change.
        :raises JobStateError: The job has a live run of another request.
        """
        return JobClient(self._client.context(request.job_id, cluster=self.leadership)).submit(request)

    def attend(self, job_id: str) -> ReconcileResult:
        """Reconcile a job: read it and carry out the due act.

        :raises LeadershipError: This process does not lead.
        """
        if self._attendant is None:
            raise not_leading(self._client.coordinator, self._client.paths)
        return self._attendant.attend(job_id)

    def settle(self, seconds: float, report: Report | None = None) -> list[ReconcileResult]:
        """Reconcile all jobs until none waits, for at most *seconds*; return the last outcome per job.

        :raises LeadershipError: This process no longer leads.
        :raises NotConnectedError: The jobs could not be listed.
        """
        clock, last = self._client.clock, dict[str, ReconcileResult]()
        deadline = clock.lease_time() + seconds
        jobs = sorted({*self._client.list_jobs(), *self._unknown()})
        self._require_leadership()
        for seen in survey(self._client.coordinator, self._client.paths, jobs):
            if seen.is_led and not seen.quarantined:
                last[seen.job_id] = _left_alone(seen)
                if report is not None:
                    report(last[seen.job_id])
        waiting = [name for name in jobs if name not in last]
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="ha-cluster") as pool:
            while waiting:
                for attended in pool.map(self.attend, waiting):
                    last[attended.job_id] = attended
                    if report is not None:
                        report(attended)
                pauses = {name: again for name in waiting if (again := last[name].again) is not None}
                waiting = sorted(pauses)
                pause = min(pauses.values(), default=0.0)
                if clock.lease_time() + pause > deadline:
                    break
                self._agenda.changed.wait(pause)
        return [last[name] for name in sorted(last)]

    def collect_blobs(self) -> None:
        """Remove unreferenced blobs, unless that was done in the last 24 hours.

        For a short-lived leader; :meth:`watch` includes it. Errors are logged, including a lost leadership.
        """
        if self._leadership is not None and self._attendant is not None:
            with self._attendant.acting("the collection of blobs"):
                cluster_collection(self._client, self._leadership).attempt()

    def watch(self, stop: threading.Event, report: Report | None = None) -> None:
        """Reconcile the jobs as they change, until *stop* is set.

        :raises LeadershipLostError: This process no longer leads, and has to exit.
        """
        blobs = BlobCollection(self._client, self.leadership)
        for job_id in self._unknown():  # only once, because it lists the storage
            attended = self.attend(job_id)
            if report is not None:
                report(attended)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="ha-cluster") as pool:
            while not stop.is_set():
                self._require_leadership()  # guard: watch-ends-with-lead
                blobs.turn()
                self._agenda.changed.clear()
                self._expect_jobs()
                for job_id in self._worth_a_look(self._agenda.take(), report):
                    pool.submit(self._attend_watched, job_id, report)
                self._agenda.changed.wait(self._agenda.pause(self._client.config.timings.heartbeat_interval))

    def close(self) -> None:
        """Give up the leadership immediately. Idempotent.

        :raises NotConnectedError, OutcomeUnknownError: The lock may stay until the session ends.
        """
        leadership, self._leadership, self._attendant = self._leadership, None, None
        if leadership is not None:
            leadership.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _describe(self, epoch: int) -> bytes:
        self._since = self._client.clock.now()
        return self._info(epoch).to_bytes()

    def _info(self, epoch: int, inspected_at: datetime | None = None) -> ClusterLeaderInfo:
        return ClusterLeaderInfo(
            epoch=epoch,
            host=socket.gethostname(),
            pid=os.getpid(),
            address=self._address,
            since=self._since,
            inspected_at=inspected_at,
        )

    def _on_lost(self, reason: str) -> None:
        log.error("this process stops recovering jobs: %s", reason)
        self._agenda.changed.set()

    def _watch_inspections(self, leadership: Leadership, attendant: Reconciler) -> None:
        """Give up the leadership if a read or an act hangs: another host may still reach the data.

        A hanging thread cannot be ended, and Python waits for it at exit, so the process exits hard.
        """
        told, due, clock = None, 0.0, self._client.clock
        while leadership.lease_left() > 0:
            if attendant.inspected_at != told and clock.lease_time() >= due:
                told, due = attendant.inspected_at, clock.lease_time() + _TELL_SECONDS
                leadership.publish(self._info(leadership.epoch, told).to_bytes())
            overdue = attendant.overdue()
            if overdue is not None:
                log.critical(
                    "%s has taken %.0f s without an answer: this process gives up the cluster and exits. Check that "
                    "its storage root and work root are mounted and respond on this host",
                    *overdue,
                )
                giving_up = threading.Thread(target=self.close, daemon=True)
                giving_up.start()
                giving_up.join(_GIVING_UP_SECONDS)
                os._exit(HUNG)
            time.sleep(_WATCH_SECONDS)

    def _require_leadership(self) -> None:
        if not self.leads:
            raise LeadershipLostError(
                f"this process no longer leads {self._client.paths.lock.label}",
                next_step="Start a fresh process: one process, one leadership",
            )

    def _expect_jobs(self) -> None:
        try:
            self._agenda.expect(self._client.list_jobs(watch=self._agenda.changed.set))
        except NotConnectedError as error:
            log.warning("the jobs cannot be listed now: %s", error)

    def _unknown(self) -> list[str]:
        """Return the jobs known to storage only, which otherwise would not be noticed."""
        client = self._client
        if self._attendant is None:
            return []
        try:
            with self._attendant.inspecting("the jobs of the storage"):
                found = set(client.area.list(keys.JOBS)) - set(client.coordinator.children(client.paths.base))
                return [
                    each for each in sorted(filter(is_job, found)) if is_known_to_storage_only(client.context(each))
                ]
        except HaError as error:
            log.warning("the jobs of the storage cannot be compared with ZooKeeper's: %s", error)
            return []

    def _worth_a_look(self, names: list[str], report: Report | None) -> list[str]:
        """Return the jobs that need a full read; the others are done until the backstop."""
        if len(names) < _FEW:
            return names  # a few full reads are faster than an additional survey
        try:
            seen = list(survey(self._client.coordinator, self._client.paths, names, watch=self._touch))
        except CoordinationError as error:
            log.warning("the jobs are read one by one: %s", error)
            return names
        if self._attendant is not None:
            self._attendant.inspected_at = self._client.clock.now()
        done = [each for each in seen if not self._needs_a_look(each)]
        for each in done:
            if report is not None:
                report(_left_alone(each))
            self._agenda.done(each.job_id, self._patience.backstop)
        return sorted(set(names) - {each.job_id for each in done})

    def _needs_a_look(self, seen: JobStatus[StandingDepth]) -> bool:
        if seen.needs_a_look:
            return True
        now = self._client.clock.lease_time()
        if seen.is_led:  # not at the start, and then spread over time
            self._looked.setdefault(seen.job_id, now - random.uniform(0.0, _LOOK_SECONDS))  # noqa: S311  # not a secret
        return now - self._looked.get(seen.job_id, float("-inf")) >= _LOOK_SECONDS

    def _touch(self, path: str) -> None:
        self._agenda.touch(path.removeprefix(f"{self._client.paths.base}/").partition("/")[0])

    def _attend_watched(self, job_id: str, report: Report | None) -> None:
        again = self._patience.poll
        try:
            self._arm(job_id)
            attended = self.attend(job_id)
            self._looked[job_id] = self._client.clock.lease_time()
            settled = attended.outcome in (ReconcileOutcome.LEFT_ALONE, ReconcileOutcome.IN_QUARANTINE)
            again = attended.again or (self._patience.backstop if settled else self._patience.debounce)
            if report is not None:
                report(attended)
        except CoordinationError as error:
            log.warning("job %s is read again: %s", job_id, error)
        except Exception:  # top of a pool's thread, without a caller to raise to
            log.exception("job %s could not be reconciled", job_id)
        finally:
            self._agenda.done(job_id, again)

    def _arm(self, job_id: str) -> None:
        """Set the watches before the read, so that every change is noticed."""
        touched, paths = DueWatch(self._agenda, job_id), self._client.paths.job(job_id)
        self._client.coordinator.find(paths.leader, watch=touched)
        self._client.coordinator.find(self._client.paths.quarantined(job_id), watch=touched)
        self._client.coordinator.children(paths.runs, watch=touched)


def _left_alone(seen: JobStatus[StandingDepth]) -> ReconcileResult:
    leader = seen.leader if seen.is_led else None
    detail = f"led by epoch {leader.epoch}" if leader is not None else "it needs no recovery"
    return ReconcileResult(job_id=seen.job_id, outcome=ReconcileOutcome.LEFT_ALONE, detail=detail)
