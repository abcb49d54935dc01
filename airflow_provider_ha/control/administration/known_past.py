"""What a deletion notes for restores from the savepoints that it keeps, before it removes what they would read.

Invariant: a damaged record keeps no deletion from its end. What it would say counts as the worst: batches that nothing
records. What could not be read at all refuses the deletion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from airflow_provider_ha.checkpoints.restore.recorded import read_last_traces
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.last_directory import last_directory
from airflow_provider_ha.control.job.life_before import life_before
from airflow_provider_ha.control.job.run_starts import run_starts
from airflow_provider_ha.control.job.stores import checkpoint_store
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.model import DrainedQuery, Generation
from airflow_provider_ha.jobs.removed_runs import PastLife


log = logging.getLogger(__name__)
FoundT = TypeVar("FoundT")


def known_past(job: JobContext, last_run: int) -> PastLife:
    """Return what a restore would know of a job that is about to be deleted.

    :param last_run: Number of its newest run.
    :raises StorageUnavailableError: Something could not be read.
    """
    damaged: list[RecordCorruptError] = []
    worked = _read(damaged, partial(read_record, job.coordinator, job.paths.generation, Generation))
    last = _read(damaged, partial(last_directory, job, worked[0])) if worked is not None else None
    before = _read(damaged, partial(life_before, job, last))
    known = before if before is not None else PastLife(last_run=last_run)
    drained, unrecorded = known.drained, known.unrecorded
    if last is not None:
        traces = _read(damaged, partial(read_last_traces, checkpoint_store(job).payloads(), last))
        # Without a digest: the claim of the output goes, so another job may have written the entry that is there later.
        unfinished = {query: DrainedQuery(batch=batch) for query, batch in traces.drained.items()} if traces else {}
        drained = drained | unfinished
        unrecorded = unrecorded or (traces is not None and traces.unrecorded)
    result = _read(damaged, partial(job.runs.result, worked[0].run)) if worked is not None else None
    drained = drained | result.drained if result is not None else drained
    starts = _read(damaged, partial(run_starts, job, worked[0])) if worked is not None else None
    for error in damaged:
        log.warning(
            "a restore from a kept savepoint of job %s will count on batches that nothing records: %s",
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
    """Return what *read* returns; ``None`` for a damaged record, which *damaged* gets."""
    try:
        return read()
    except RecordCorruptError as error:
        damaged.append(error)
        return None
