"""Reads what a watcher of a cluster sees of jobs beside their leaders: results, checkpoints, and restore drills.

Of each job that is five reads, in two round trips for all: the status and the numbers of its runs and checkpoints,
then the newest run and the newest checkpoint. Nothing of them is kept: a job may be deleted and made again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, JobPaths
from airflow_provider_ha.coordination.reads import Reads, Seen
from airflow_provider_ha.errors import RecordCorruptError, StorageError
from airflow_provider_ha.jobs.history.drills import Drill, DrillStore
from airflow_provider_ha.jobs.model import Run, RunResult, Status
from airflow_provider_ha.records import Record
from airflow_provider_ha.triggers._judged_health import Bounds, JobHealth, judge_health
from airflow_provider_ha.triggers._notices import Condition, Watched


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


log = logging.getLogger(__name__)
_AT_ONCE = 500  # jobs in one round trip
RecordT = TypeVar("RecordT", bound=Record)


class HealthView:
    """The health of a cluster's jobs. Not for several threads at once.

    :param interval: Seconds for which an answer holds.
    :param drills: Whether restore drills are looked at as well.
    :param drill_interval: Seconds between two looks at the drills of a job: each lists a folder of the storage.
    """

    def __init__(self, bounds: Bounds, *, interval: float, drills: bool, drill_interval: float) -> None:
        self._bounds = bounds
        self._interval = interval
        self._drills = drills
        self._drill_interval = drill_interval
        self._drilled: dict[str, tuple[float, tuple[str, Drill] | None]] = {}
        self._read_at = float("-inf")
        self._found: dict[Watched, Condition] = {}

    def conditions(self, client: HaClient, jobs: Sequence[str]) -> dict[Watched, Condition]:
        """Return what is wrong with each job. Called in a thread.

        :raises NotConnectedError, StorageUnavailableError: It could not be found out.
        """
        if time.monotonic() - self._read_at < self._interval:
            return self._found
        now, found = client.clock.now(), dict[Watched, Condition]()
        there = set(jobs)
        self._drilled = {job_id: each for job_id, each in self._drilled.items() if job_id in there}
        for start in range(0, len(jobs), _AT_ONCE):
            for job_id, health in _read(client, jobs[start : start + _AT_ONCE]):
                drilled = self._drill(client, job_id) if self._drills and health.is_live else None
                for what, condition in judge_health(replace(health, drill=drilled), self._bounds, now).items():
                    found[job_id, what] = condition
        self._read_at, self._found = time.monotonic(), found
        return found

    def _drill(self, client: HaClient, job_id: str) -> Drill | None:
        looked, newest = self._drilled.get(job_id, (float("-inf"), None))
        if time.monotonic() - looked >= self._drill_interval:
            context = client.context(job_id)
            try:
                newest = DrillStore(context.store, context.keys).newest(newest)
            except StorageError as error:  # guard: storage-hides-lost-leaders
                log.warning("the drills of job %r cannot be read now: %s", job_id, error)
            self._drilled[job_id] = time.monotonic(), newest
        return newest[1] if newest is not None else None


def _read(client: HaClient, jobs: Sequence[str]) -> Iterator[tuple[str, JobHealth]]:
    paths = [client.paths.job(job_id) for job_id in jobs]
    lists = tuple(path for job in paths for path in (job.runs, job.checkpoints))
    first = client.coordinator.read(Reads(tuple(job.status for job in paths), lists))
    newest = {job.job_id: _newest(job, first) for job in paths}
    wanted = [path for job in paths for path in _wanted(job, *newest[job.job_id])]
    second = client.coordinator.read(Reads(tuple(wanted))).nodes
    for job in paths:
        run, checkpoint = newest[job.job_id]
        made = _readable(second[job.run(run)], Run) if run else None
        status = _readable(first.nodes[job.status], Status)
        yield (
            job.job_id,
            JobHealth(
                run=run,
                made_at=made.created_at if made is not None else None,
                result=_readable(second[job.run_result(run)], RunResult) if run else None,
                status=status if status is not None and status.run == run else None,
                checkpoint=_readable(second[job.checkpoint(checkpoint)], CheckpointPointer) if checkpoint else None,
            ),
        )


def _newest(job: JobPaths, seen: Seen) -> tuple[int, int]:
    """Return the numbers of the newest run and of the newest checkpoint; 0 for none."""
    runs = node_numbers(seen.lists[job.runs], parent=job.runs)
    checkpoints = node_numbers(seen.lists[job.checkpoints], parent=job.checkpoints, digits=CHECKPOINT_DIGITS)
    return (runs[-1] if runs else 0), (checkpoints[-1] if checkpoints else 0)


def _wanted(job: JobPaths, run: int, checkpoint: int) -> Iterator[str]:
    if run:
        yield job.run(run)
        yield job.run_result(run)
    if checkpoint:
        yield job.checkpoint(checkpoint)


def _readable(node: Node | None, kind: type[RecordT]) -> RecordT | None:
    """Return a record; ``None`` also for one that cannot be read: a damaged one is no news of the job's health."""
    try:
        return None if node is None else kind.from_bytes(node.data, source=node.path)
    except RecordCorruptError:
        return None
