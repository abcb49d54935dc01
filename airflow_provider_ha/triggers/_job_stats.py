"""Sends the metrics of the jobs that a triggerer waits for to Airflow's ``Stats``: each once a minute.

However many triggers wait for a job, the session that they share sends it once. What is sent is in
:mod:`~airflow_provider_ha.jobs.metrics`. A job is sent once more when the last trigger has left it: a run that has just
failed would otherwise stay RUNNING for the receiver. Beside the jobs goes for how long the cluster's leader has
inspected none.

Invariants: nothing here raises into a trigger, or keeps one waiting: one thread reads and sends, for nothing else, and
it has one turn at a time. Where Airflow sends no metrics, nothing is read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from math import ceil
from typing import TYPE_CHECKING

from airflow_provider_ha.compat import stats
from airflow_provider_ha.compat.stats import Carrier
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs import metrics
from airflow_provider_ha.jobs.cluster import read_cluster_leader
from airflow_provider_ha.triggers._known_jobs import KnownJobs
from airflow_provider_ha.triggers._quiet_zeros import QuietZeros
from airflow_provider_ha.triggers._samples import of_state, samples
from airflow_provider_ha.triggers._stat_names import Sample, stat_of


if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_ha.triggers._session import Session


INTERVAL = 60.0  # seconds between two reports of a job
_TICK = 1.0  # seconds between two turns
_AT_LEAST = 100  # jobs of one turn, when so many are due: a triggerer that starts has thousands
_LAST = 2.0  # seconds for the last turn: its trigger waits for it
_LOG_EVERY = 600.0  # seconds between two lines about a receiver that refuses

_log = logging.getLogger(__name__)


class JobStats:
    """What one session reports. For the thread of its loop.

    :param cluster: Id of the cluster.
    :param session: Returns the session; ``None`` while there is none.
    """

    def __init__(self, cluster: str, session: Callable[[], Session | None]) -> None:
        self._cluster = cluster
        self._session = session
        self._carrier = stats.carrier()
        self._watched = Counter[str]()
        self._due: dict[str, float] = {}
        self._left: dict[str, float] = {}
        self._known = KnownJobs()
        self._zeros = QuietZeros()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="spark-ha-hub-stats")
        self._turn: Future[None] | None = None
        self._warned = self._cluster_told = float("-inf")
        self._task = asyncio.ensure_future(self._report_again_and_again()) if self._is_on else None

    @contextmanager
    def reporting(self, job_ids: Iterable[str]) -> Iterator[None]:
        """Report jobs for the time of the block, and once more after it."""
        if not self._is_on:
            yield
            return
        jobs = tuple(job_ids)
        self._watched.update(jobs)
        for job_id in jobs:
            self._due.setdefault(job_id, self._left.pop(job_id, 0.0))
        try:
            yield
        finally:
            self._watched.subtract(jobs)
            for job_id in jobs:
                if not self._watched[job_id]:
                    del self._watched[job_id]
                    self._left[job_id] = self._due.pop(job_id)

    @property
    def kept(self) -> int:
        """Of how many jobs something is kept until their next report."""
        return len(self._known)

    async def close(self) -> None:
        """Report what was left last, if the session answers within seconds."""
        if self._task is not None:
            self._task.cancel()
            session, last = self._session(), list(self._left)[:_AT_LEAST]
            if session is not None and last:
                turn = self._executor.submit(self._report, session, last)
                await asyncio.wait({asyncio.wrap_future(turn)}, timeout=_LAST)
        self._executor.shutdown(wait=False)

    @property
    def _is_on(self) -> bool:
        return self._carrier is not Carrier.NOTHING

    async def _report_again_and_again(self) -> None:
        while True:
            await asyncio.sleep(_TICK)
            session = self._session()
            if session is None or (self._turn is not None and not self._turn.done()):
                continue
            if jobs := self._next(time.monotonic()):
                self._turn = self._executor.submit(self._report, session, jobs)

    def _next(self, now: float) -> Sequence[str]:
        """Return the jobs of one turn: a share of all, so that each is reported once in an interval."""
        left, self._left = list(self._left), {}
        share = max(_AT_LEAST, ceil(len(self._due) * _TICK / INTERVAL))
        due = [job_id for job_id, at in self._due.items() if at <= now][:share]
        self._due.update(dict.fromkeys(due, now + INTERVAL))
        return [*left, *due]

    def _report(self, session: Session, job_ids: Sequence[str]) -> None:
        """Read jobs and send what is known of them. Called in the thread. Raises nothing."""
        try:
            read = self._known.read(session, job_ids)
            now = session.client.clock.now()
            for job_id, job in read.items():
                self._send(job_id, list(of_state(None) if job is None else samples(job, now)))
            gone = [job_id for job_id in job_ids if job_id not in self._watched]
            self._known.forget(gone)
            self._zeros.forget(gone)
            self._send_inspections(session, now)
        except HaError as error:
            _log.debug("the metrics of %d jobs are left out: %s", len(job_ids), error)  # triggers report an outage
        except Exception:  # noqa: BLE001  # logged: the next turn has to come all the same
            if time.monotonic() - self._warned >= _LOG_EVERY:
                self._warned = time.monotonic()
                _log.warning("Airflow's Stats refuses the metrics of jobs", exc_info=True)

    def _send_inspections(self, session: Session, now: datetime) -> None:
        if time.monotonic() - self._cluster_told < INTERVAL:
            return
        self._cluster_told = time.monotonic()
        leader = read_cluster_leader(session.client.coordinator, session.client.paths)
        if leader is not None:
            sample = Sample(metrics.INSPECTION_AGE, leader.uninspected(now))
            name, tags = stat_of(sample, self._cluster, "", self._carrier)
            stats.gauge(name, sample.value, tags)

    def _send(self, job_id: str, told: Sequence[Sample]) -> None:
        for sample in self._zeros.news(job_id, told):
            name, tags = stat_of(sample, self._cluster, job_id, self._carrier)
            stats.gauge(name, sample.value, tags)
        self._zeros.sent(job_id, told)
