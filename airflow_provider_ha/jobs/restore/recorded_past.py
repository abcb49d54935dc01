"""The past of a job for a restore: starts of its runs, last working directory, and the life before a deletion.

Invariants:

- A damaged record does not block a deletion. Its content counts as the worst case: batches without a record. A record
  that could not be read because of an outage refuses the deletion.
- The facts of an earlier life are relevant until a later run has a checkpoint. A working directory proves nothing: a
  run has one before its script begins, even if the script fails immediately.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from airflow_provider_ha.checkpoints.restore.plan_execution import planned_replays
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, RunStart, read_last_traces
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS, batches
from airflow_provider_ha.coordination.coordinator import Reads
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.model import DrainedQuery, Generation
from airflow_provider_ha.jobs.removal.removal_records import PastLife, RemovedRunStore
from airflow_provider_ha.jobs.runs.run_store import working_directory


def life_before(job: JobContext, last: LastDirectory | None) -> PastLife | None:
    """Return the facts that the last deletion has recorded; ``None`` if they are no longer relevant.

    :param last: Working directory of the last run of this life; ``None`` if none exists, or if it is unknown.
    :raises RecordCorruptError: The record of the facts cannot be read.
    :raises StorageUnavailableError: A read failed.
    """
    past = RemovedRunStore(job.coordinator, job.paths).read().past
    if past is None:
        return None
    if any(payload.run > past.last_run for payload in checkpoint_store(job).payloads()):
        return None
    return past if last is None else _beside(past, last)


def _beside(past: PastLife, last: LastDirectory) -> PastLife:
    """Return the facts that stay relevant after a run of this life without a checkpoint.

    A batch planned in its directory is an ordinary batch, and not the earlier drain with the same number.
    """
    directory = last.area.tree(last.area.current(last.key))
    drained = {
        query: drain
        for query, drain in past.drained.items()
        if max(batches(directory / query, OFFSETS), default=-1) < drain.batch
    }
    return past.model_copy(
        update={"drained": drained, "unrecorded": past.unrecorded or drained.keys() != past.drained.keys()}
    )


def last_directory(source: JobContext, generation: Generation) -> LastDirectory:
    """Return the directory that *generation* names, with the batches that its run had to execute again.

    :raises RecordCorruptError: The generation names anything but a working directory of the job.
    :raises StorageUnavailableError: A read failed.
    """
    key = working_directory(source.area, source.paths, generation)
    followed = generation.fallback.plan if generation.fallback is not None else _plan_of_run(source, generation.run)
    replayed = planned_replays(source.store, followed.sha256 if followed is not None else None)
    return LastDirectory(source.area, key, generation.epoch, generation.run, replayed)


def _plan_of_run(source: JobContext, run: int) -> Blob | None:
    return source.runs.get(run).run.start.plan if run in source.runs.numbers() else None


def run_starts(source: JobContext, generation: Generation, *, after: int = 0) -> dict[int, RunStart]:
    """Return run -> its start, for the runs that may have worked.

    :param generation: The last working directory: no later run has had one, or written to a sink.
    :param after: Run of a cut; leadership of drivers is read for later runs only.
    :raises RecordCorruptError: A run cannot be read.
    """
    numbers = [number for number in source.runs.numbers() if number <= generation.run]
    return {
        number: RunStart(run.start.common_within(source.job_id), led=number > after and _was_led(source, number))
        for number, run in source.runs.runs(numbers).items()
    }


def _was_led(source: JobContext, run: int) -> bool:
    attempts = (view.submission.attempt for view in source.runs.get(run).submissions)
    nodes = source.coordinator.read(Reads(tuple(source.paths.submission_led(run, each) for each in attempts))).nodes
    return any(node is not None for node in nodes.values())


log = logging.getLogger(__name__)
FoundT = TypeVar("FoundT")


def known_past(job: JobContext, last_run: int) -> PastLife:
    """Return the past of a job about to be deleted, as far as a restore would know it.

    :raises StorageUnavailableError: A read failed.
    """
    damaged: list[RecordCorruptError] = []
    worked = _read(damaged, partial(read_record, job.coordinator, job.paths.generation, Generation))
    last = _read(damaged, partial(last_directory, job, worked[0])) if worked is not None else None
    before = _read(damaged, partial(life_before, job, last))
    known = before if before is not None else PastLife(last_run=last_run)
    drained, unrecorded = known.drained, known.unrecorded
    if last is not None:
        traces = _read(damaged, partial(read_last_traces, checkpoint_store(job).payloads(), last))
        # No digest: the claim on the output is removed, so another job may write the entry later.
        unfinished = {query: DrainedQuery(batch=batch) for query, batch in traces.drained.items()} if traces else {}
        drained = drained | unfinished
        unrecorded = unrecorded or (traces is not None and traces.unrecorded)
    result = _read(damaged, partial(job.runs.result, worked[0].run)) if worked is not None else None
    drained = drained | result.drained if result is not None else drained
    starts = _read(damaged, partial(run_starts, job, worked[0])) if worked is not None else None
    for error in damaged:
        log.warning(
            "a restore from a kept savepoint of job %s will assume batches without a record: %s",
            job.job_id,
            error.message,
        )
    # guard: damage-of-deleted-jobs-is-taken-for-nothing
    return PastLife(
        last_run=last_run,
        drained=drained,
        unrecorded=unrecorded or bool(damaged),
        starts=known.starts | {run: dict(start.common) for run, start in (starts or {}).items() if start.led},
    )


def _read(damaged: list[RecordCorruptError], read: Callable[[], FoundT]) -> FoundT | None:
    """Return the result of *read*; for a damaged record, append the error to *damaged* and return ``None``."""
    try:
        return read()
    except RecordCorruptError as error:
        damaged.append(error)
        return None
