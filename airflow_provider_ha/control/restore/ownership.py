"""Whether what a restore starts from can be claimed, checked before anything is changed.

Invariant: what is claimed is the job's own savepoint, or a directory outside of the cluster. Another job goes on owning
what is its own, and its leader alone removes it. A savepoint is claimed once; only the request that claimed it may ask
for the same again, because a restore can be repeated.
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import SavepointPointer
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.control.submission.submission import made_by
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.pointers.ownership import ClaimMode


def check_claim(job: JobContext, request: RestoreRequest, source: JobContext, chosen: Chosen) -> bool:
    """Return whether *chosen* is a savepoint that an earlier restore has claimed.

    :param source: The job that it belongs to.
    :raises RestoreRefusedError: It is to be claimed, and cannot be.
    """
    claims = request.claim_mode is ClaimMode.CLAIM
    if claims and source.job_id != job.job_id:  # guard: another-jobs-savepoint-is-claimed
        raise RestoreRefusedError(
            f"{chosen.name} belongs to job {source.job_id!r}, so job {job.job_id!r} cannot claim it",
            next_step="Restore it with claim mode NO_CLAIM; its own job, or its user, removes it",
        )
    if chosen.source == StartKind.CHECKPOINT.value:
        return False
    store = SavepointStore(source.coordinator, source.paths, source.keys, source.area, clock=source.clock)
    pointer = store.pointer(chosen.source_id)
    if pointer.claimed_by is None:
        return False
    if claims:
        _refuse_second_claim(job, request, pointer, pointer.claimed_by)
    return True


def _refuse_second_claim(job: JobContext, request: RestoreRequest, pointer: SavepointPointer, run: int) -> None:
    if run in job.runs.numbers() and made_by(job.runs.get(run).run, request.request_id):
        return
    raise RestoreRefusedError(
        f"savepoint {pointer.savepoint_id!r} of job {job.job_id!r} was claimed by run {run}, and is claimed once",
        next_step="Restore it with claim mode NO_CLAIM; the job owns it already, and removes it when it is outlived",
    )
