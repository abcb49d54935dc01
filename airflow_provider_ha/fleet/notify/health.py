"""Health of a cluster's jobs, in addition to their leaders: results, checkpoints and restore drills.

Eleven reads per job, in four round trips for all jobs: the eight of a list
(:mod:`~airflow_provider_ha.fleet.fleet_overview`), then the newest run, the numbers of the checkpoints and the newest
checkpoint. For a recovered job, two or three more reads: the ends of its newest drivers. For a job with a new run, one
more read: a failed run may be followed by another run before the next inspection. These reads are not cached: a job may
be deleted and created again. Drills come from storage; another thread reads them.

Drills are stored in storage. A storage that does not answer blocks a call for minutes, once per job, and a thread
cannot be ended: in the threads of the hub such calls would delay the inspections of all other triggers.

Invariants: a caller never waits for storage; at most one thread reads at a time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.coordinator import Node, Reads, Steps, follow_all
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.fleet.fleet_overview import listed_steps
from airflow_provider_ha.fleet.notify.health_rules import HealthLimits, JobHealth, judge_health, stalls_again
from airflow_provider_ha.fleet.notify.notices import Condition, Watched
from airflow_provider_ha.jobs.model import Run, RunResult, StartPoint
from airflow_provider_ha.jobs.observe import in_one_session
from airflow_provider_ha.jobs.runs.submissions import SubmissionExit
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillStore
from airflow_provider_ha.records import Record


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _DrillReading:
    """The newest drill of a job.

    :param looked: Time of the last read, successful or not; on a monotonic clock.
    :param newest: Key and record; ``None`` without one.
    """

    looked: float
    newest: tuple[str, Drill] | None


class NewestDrills:
    """Newest known drills of the live jobs. Thread-safe.

    :param interval: Seconds between two reads of the drills of a job; a read lists a folder of the storage.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._known: dict[str, _DrillReading] = {}
        self._reading = False
        self._closed = False
        self._version = 0

    @property
    def version(self) -> int:
        """Version number; it changes when the newest drill of any job changes."""
        return self._version

    def of(self, job_id: str) -> Drill | None:
        """Return the known drill; ``None`` without one, and before the first answer."""
        with self._lock:
            known = self._known.get(job_id)
        return known.newest[1] if known is not None and known.newest is not None else None

    def read(self, client: HaClient, jobs: Sequence[str]) -> None:
        """Start to read the due drills, and return immediately; a no-op while a thread still reads.

        :param jobs: All live jobs: the drills of other jobs are dropped.
        """
        with self._lock:
            if self._reading or self._closed:
                return
            there, now = set(jobs), time.monotonic()
            self._known = {job_id: known for job_id, known in self._known.items() if job_id in there}
            due = [job_id for job_id in jobs if self._is_due(job_id, now)]
            self._reading = bool(due)
        if due:
            # A daemon: the end of the process does not wait for storage.
            threading.Thread(target=self._read, args=(client, due), name="spark-ha-drills", daemon=True).start()

    def close(self) -> None:
        """Let the reading thread, if any, end after its current job."""
        self._closed = True

    def _is_due(self, job_id: str, now: float) -> bool:
        known = self._known.get(job_id)
        return known is None or now - known.looked >= self._interval

    def _read(self, client: HaClient, jobs: Sequence[str]) -> None:
        try:
            for job_id in jobs:
                if self._closed:
                    return
                self._read_one(client, job_id)
        finally:
            with self._lock:
                self._reading = False

    def _read_one(self, client: HaClient, job_id: str) -> None:
        with self._lock:
            known = self._known.get(job_id)
        before = newest = known.newest if known is not None else None
        try:
            context = client.context(job_id)
            newest = DrillStore(context.store, context.keys).newest(before)
        except Exception as error:  # noqa: BLE001
            log.warning("the drills of job %r cannot be read now: %s", job_id, error)
        with self._lock:
            self._known[job_id] = _DrillReading(time.monotonic(), newest)
            self._version += newest != before


T = TypeVar("T")


class ExclusiveCalls:
    """Refuses a call while an earlier call is in progress.

    An abandoned call continues in its thread: one more call per poll would occupy every thread of the hub, and the read
    data is not thread-safe.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, function: Callable[[HaClient], T]) -> Callable[[HaClient], T]:
        """Return *function* for :meth:`~airflow_provider_ha.triggers._hub.Hub.call`.

        The result raises ``asyncio.TimeoutError`` while an earlier call is still in progress.
        """

        def alone(client: HaClient) -> T:
            if not self._lock.acquire(blocking=False):
                raise asyncio.TimeoutError("an earlier call is still in progress")
            try:
                return function(client)
            finally:
                self._lock.release()

        return alone


_AT_ONCE = 500  # jobs in one round trip
_RECOVERED = 2  # the attempt of a run that is its first recovery
RecordT = TypeVar("RecordT", bound=Record)


class HealthView:
    """The health of a cluster's jobs.

    :param interval: Seconds for which an answer is valid.
    :param drills: Whether restore drills are also read.
    :param drill_interval: Seconds between two reads of the drills of a job; a read lists a folder of the storage.
    """

    def __init__(self, bounds: HealthLimits, *, interval: float, drills: bool, drill_interval: float) -> None:
        self._bounds = bounds
        self._interval = interval
        self._drills = NewestDrills(drill_interval) if drills else None
        self._drilled = 0
        self._alone = ExclusiveCalls()
        self._read_at = float("-inf")
        self._looked: datetime | None = None
        self._found: dict[Watched, Condition] = {}

    def known(self, jobs: Sequence[str]) -> dict[Watched, Condition]:
        """Return the problems of the jobs at their last read."""
        there = set(jobs)
        return {each: condition for each, condition in self._found.items() if each[0] in there}

    def read(self, client: HaClient, jobs: Sequence[str]) -> None:
        """Read the problems of the jobs, if that is due. Called in a thread; does not wait for storage.

        :raises NotConnectedError: ZooKeeper did not answer.
        :raises asyncio.TimeoutError: An earlier read is still in progress.
        """
        self._alone(partial(self._read, jobs=jobs))(client)

    def close(self) -> None:
        """Read no more drills."""
        if self._drills is not None:
            self._drills.close()

    def _read(self, client: HaClient, jobs: Sequence[str]) -> None:
        drilled = self._drills.version if self._drills is not None else 0
        if time.monotonic() - self._read_at < self._interval and drilled == self._drilled:
            return
        now, found, live = client.clock.now(), dict[Watched, Condition](), list[str]()
        # One interval earlier: a late answer caused no event, and clocks of hosts differ.
        since = (self._looked or now - timedelta(seconds=self._interval)) - timedelta(seconds=self._interval)
        for start in range(0, len(jobs), _AT_ONCE):
            for job_id, health in _of_jobs(client, jobs[start : start + _AT_ONCE], since):
                drill = self._drills.of(job_id) if self._drills is not None else None
                for what, condition in judge_health(replace(health, drill=drill), self._bounds, now).items():
                    found[job_id, what] = condition
                if health.is_live:
                    live.append(job_id)
        if self._drills is not None:
            self._drills.read(client, live)
        self._read_at, self._drilled, self._found, self._looked = time.monotonic(), drilled, found, now


def _of_jobs(client: HaClient, jobs: Sequence[str], since: datetime) -> Iterator[tuple[str, JobHealth]]:
    """Yield the facts about each job; runs created after *since* are new."""
    paths, now = [client.paths.job(job_id) for job_id in jobs], client.clock.now()
    found = in_one_session(
        client.coordinator,
        f"{len(jobs)} jobs",
        lambda: follow_all(client.coordinator, [health_steps(each, now, since) for each in paths]),
    )
    yield from zip(jobs, found, strict=True)


def health_steps(paths: JobPaths, now: datetime, since: datetime) -> Steps[JobHealth]:
    """Read a job as a list does, then its newest run, the ends of its newest drivers, and its newest checkpoint."""
    job = yield from listed_steps(paths, now)
    if job.newest is None:
        return JobHealth(job=job)
    number, attempt = job.newest.number, job.newest.attempt
    newest = range(attempt, max(attempt - 3, 0), -1) if attempt >= _RECOVERED else ()
    ends = tuple(paths.submission_exit(number, each) for each in newest)
    seen = yield Reads((paths.run(number), *ends), (paths.checkpoints,))
    made = _readable(seen.nodes[paths.run(number)], Run)
    kept = node_numbers(seen.lists[paths.checkpoints], parent=paths.checkpoints, digits=CHECKPOINT_DIGITS)
    is_new = number > 1 and made is not None and made.created_at >= since
    checkpoint, previous = paths.checkpoint(max(kept, default=0)), paths.run_result(number - 1)
    wanted = (*((checkpoint,) if kept else ()), *((previous,) if is_new else ()))
    last = (yield Reads(wanted)).nodes if wanted else {}
    exits = [_readable(seen.nodes[path], SubmissionExit) for path in ends]
    ended = exits[1:] if exits and exits[0] is None else exits  # the newest driver may be running
    return JobHealth(
        job=job,
        made_at=made.created_at if made is not None else None,
        start=made.start if made is not None else StartPoint(),
        previous=_readable(last.get(previous), RunResult),
        checkpoint=_readable(last.get(checkpoint), CheckpointPointer),
        stalls_again=stalls_again(*ended[:2]) if len(ended) > 1 else None,
    )


def _readable(node: Node | None, kind: type[RecordT]) -> RecordT | None:
    """Return a record; ``None`` also for an unreadable record, which is no news of the job's health."""
    try:
        return None if node is None else kind.from_bytes(node.data, source=node.path)
    except RecordCorruptError:
        return None
