"""The life of a job before its deletion: how far a restore from a kept savepoint, and the next deletion, count it.

Invariant: it counts until a later run has a checkpoint. A working directory proves nothing: a run has one before its
script begins, so also a run whose script fails at once.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.format.layout import OFFSETS, batches
from airflow_provider_ha.checkpoints.restore.recorded import LastDirectory
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.stores import checkpoint_store
from airflow_provider_ha.jobs.removed_runs import PastLife, RemovedRunStore


def life_before(job: JobContext, last: LastDirectory | None) -> PastLife | None:
    """Return what the deletion has noted that ended the life before; ``None`` when nothing of it counts any more.

    :param last: Working directory of the last run of this life; ``None`` when none has one, or it is not known.
    :raises RecordCorruptError: The note cannot be read.
    :raises StorageUnavailableError: Something could not be read.
    """
    past = RemovedRunStore(job.coordinator, job.paths).read().past
    if past is None:
        return None
    if any(payload.run > past.last_run for payload in checkpoint_store(job).payloads()):
        return None
    return past if last is None else _beside(past, last)


def _beside(past: PastLife, last: LastDirectory) -> PastLife:
    """Return what counts beside a directory of this life, of which no checkpoint says what happened in it.

    A batch that it has planned is an ordinary one, and not the drain's of the same number.
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
