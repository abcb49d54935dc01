"""Send the metrics of the observed jobs to Airflow's ``Stats``, each job once a minute.

However many triggers wait for a job, the session that they share sends it once:
:mod:`~airflow_provider_ha.jobs.metric_names`. A job is sent once more when the last trigger has left it: a run that has
just failed would otherwise stay RUNNING for the receiver. Beside the jobs goes for how long the cluster's leader has
inspected none.

Invariants: nothing here raises into a trigger, or keeps one waiting: one thread reads and sends, for nothing else, and
it has one turn at a time. Where Airflow sends no metrics, nothing is read.

A job that is led is read as a whole when it has another leader; in between only its status is news, and is decoded when
it was written again. One whose run is over is read as a whole when it has a leader or a graph pointer again, or is
deleted. Every other job is read as a whole each time. What the triggers of the session watch of these nodes is known
without a request.

A triggerer has thousands of jobs, and Python's collector of cycles stops its event loop for as long as it takes to look
at everything that is kept: so of a job that is not read as a whole again nothing is kept that no sample needs, and of
every other job nothing at all.

The options of a run lie in storage, in its graph. They are read once for each run, and what goes wrong with that is no
trouble of the other values.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import ceil
from typing import TYPE_CHECKING

from airflow_provider_ha.airflow_side import job_samples
from airflow_provider_ha.airflow_side.job_samples import (
    Carrier,
    Sample,
    SampledJob,
    ZeroFilter,
    of_state,
    samples,
    stat_of,
)
from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.coordinator import Node, Reads, Steps, follow_all, or_error
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import HaError, RecordCorruptError, StorageUnavailableError, UnknownJobError
from airflow_provider_ha.fleet.notify.session import Nodes
from airflow_provider_ha.jobs import metric_names
from airflow_provider_ha.jobs.model import Status
from airflow_provider_ha.jobs.observe import in_one_session, whole_steps
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.run_store import decode
from airflow_provider_ha.jobs.runs.watchers import read_cluster_leader
from airflow_provider_ha.jobs.status import JobStatus


if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.fleet.notify.session import Session


@dataclass(frozen=True, slots=True)
class _JobReading:
    """A job as it was read last.

    :param mark: What changes when it has to be read as a whole.
    :param status_mark: What changes with each write of its status; ``None`` when that is not known.
    """

    snapshot: JobStatus
    mark: tuple[int | None, ...]
    checkpoint: CheckpointPointer | None = None
    status_mark: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether a change of its newest run changes the mark: not while its next driver is on its way, or lost."""
        run = self.snapshot.run
        if run is None:
            return False
        led = self.snapshot.leader is not None and run.newest is not None and run.newest.exit is None
        return run.result is not None or led

    def with_status(self, node: Node | None) -> _JobReading:
        """Return it with its status as it is now.

        :raises RecordCorruptError: It cannot be read.
        """
        if node is not None and node.modified_zxid == self.status_mark:
            return self
        mark = None if node is None else node.modified_zxid
        return replace(self, snapshot=replace(self.snapshot, status=decode(node, Status)), status_mark=mark)

    def without_what_no_sample_needs(self) -> _JobReading:
        """Return what is worth keeping until it is read again."""
        numbers = self.snapshot.checkpoint_numbers[-1:]
        kept = replace(self.snapshot, graph=None, generation=None, recovery=None, checkpoint_numbers=numbers)
        return replace(self, snapshot=kept)


class JobMetricsReader:
    """What is known of some jobs. For one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, _JobReading] = {}
        self._options: dict[str, tuple[int, HaOptions | None]] = {}

    def __len__(self) -> int:
        """Return of how many jobs something is kept. For any thread."""
        return len(self._known)

    def read(self, session: Session, job_ids: Sequence[str]) -> dict[str, SampledJob | None]:
        """Return jobs as they are; ``None`` for one that does not exist, and nothing of one that cannot be read.

        :raises NotConnectedError: They could not be read.
        """
        found = dict[str, SampledJob | None]()
        for job_id, read in zip(job_ids, self._read(session, job_ids), strict=True):
            if isinstance(read, _JobReading):
                self._keep(job_id, read)
                found[job_id] = SampledJob(snapshot=read.snapshot, checkpoint=read.checkpoint)
                continue
            self.forget([job_id])
            if isinstance(read, UnknownJobError):
                found[job_id] = None
        return found | self._with_options(session.client, found)

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop what is known of jobs."""
        for job_id in job_ids:
            self._known.pop(job_id, None)
            self._options.pop(job_id, None)

    def _keep(self, job_id: str, read: _JobReading) -> None:
        if not read.is_settled:
            self._known.pop(job_id, None)
        elif read is not self._known.get(job_id):
            self._known[job_id] = read.without_what_no_sample_needs()

    def _read(self, session: Session, job_ids: Sequence[str]) -> list[_JobReading | HaError]:
        client = session.client
        jobs = [client.paths.job(job_id) for job_id in job_ids]

        def read() -> list[_JobReading | HaError]:
            kept = session.nodes.kept(path for job in jobs for path in (job.leader, job.job_graph))
            steps = [or_error(_steps(job, self._known.get(job.job_id), kept)) for job in jobs]
            return follow_all(client.coordinator, steps)

        return in_one_session(client.coordinator, f"{len(jobs)} jobs", read)

    def _with_options(self, client: HaClient, found: dict[str, SampledJob | None]) -> dict[str, SampledJob]:
        known, answers = dict[str, SampledJob](), True
        for job_id, job in found.items():
            run = job.snapshot.run if job is not None else None
            if job is None or run is None or run.result is not None:
                continue
            number, options = self._options.get(job_id, (0, None))
            if number != run.run.number:
                options = None
                if answers:
                    try:
                        options = client.context(job_id).graph_of(run.run).options
                    except StorageUnavailableError:
                        answers = False
                        continue
                    except HaError:
                        options = None  # missing or damaged, and that stays so: `job show` has the reason
                    self._options[job_id] = run.run.number, options
            known[job_id] = replace(job, options=options)
        return known


def _steps(paths: JobPaths, known: _JobReading | None, kept: Nodes) -> Steps[_JobReading]:
    marked = (paths.leader, paths.job_graph, paths.base)
    if known is not None and known.is_settled:
        led = known.snapshot.leader is not None
        compared = marked[:1] if led else marked  # a job that is led is not deleted
        watched = {path: kept[path] for path in compared if path in kept}
        unknown = tuple(path for path in compared if path not in watched)
        seen = yield Reads((*unknown, paths.status) if led else unknown)
        if _mark({**seen.nodes, **watched}, compared) == known.mark[: len(compared)]:
            return (yield from _with_checkpoint(paths, known.with_status(seen.nodes[paths.status]))) if led else known
    # Before the rest: what changes in between has another mark the next time.
    first = yield Reads(marked)
    snapshot = yield from whole_steps(paths)
    return (yield from _with_checkpoint(paths, _JobReading(snapshot, _mark(first.nodes, marked))))


def _mark(nodes: Nodes, paths: Iterable[str]) -> tuple[int | None, ...]:
    return tuple(None if (node := nodes[path]) is None else node.modified_zxid for path in paths)


def _with_checkpoint(paths: JobPaths, known: _JobReading) -> Steps[_JobReading]:
    """Return it with its newest checkpoint. A leader writes the number of each new one into its status."""
    snapshot, status = known.snapshot, known.snapshot.status
    number = status.checkpoint if status is not None and status.epoch == snapshot.epoch else None
    number = number or snapshot.latest_checkpoint
    if number is None or (known.checkpoint is not None and known.checkpoint.number == number):
        return known
    path = paths.checkpoint(number)
    seen = yield Reads((path,))
    try:
        found = decode(seen.nodes[path], CheckpointPointer)
    except RecordCorruptError:
        found = None  # it hides neither the state nor the rest
    return replace(known, checkpoint=found or known.checkpoint)


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
        self._carrier = job_samples.carrier()
        self._watched = Counter[str]()
        self._due: dict[str, float] = {}
        self._left: dict[str, float] = {}
        self._known = JobMetricsReader()
        self._zeros = ZeroFilter()
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
            sample = Sample(metric_names.INSPECTION_AGE, leader.uninspected(now))
            name, tags = stat_of(sample, self._cluster, "", self._carrier)
            job_samples.gauge(name, sample.value, tags)

    def _send(self, job_id: str, told: Sequence[Sample]) -> None:
        for sample in self._zeros.news(job_id, told):
            name, tags = stat_of(sample, self._cluster, job_id, self._carrier)
            job_samples.gauge(name, sample.value, tags)
        self._zeros.sent(job_id, told)
