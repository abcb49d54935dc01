"""A job that storage knows and ZooKeeper does not: ZooKeeper has lost its data, or is another one.

To begin it from nothing would give its sources to its sinks once more, under epochs and run numbers that were used
before. So no run of it is made. With its user's word for a fresh start the tree of the job is made again from storage
first: the new run goes on with its numbers, and what the first life has left stays its own.
"""

from __future__ import annotations

import logging

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.rebuild.apply import apply_job
from airflow_provider_ha.control.rebuild.evidence import gather
from airflow_provider_ha.control.rebuild.plan import plan_job
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.deleted import read_life
from airflow_provider_ha.storage.open import open_root, storage_uri


log = logging.getLogger(__name__)


def is_known_to_storage_only(job: JobContext) -> bool:
    """Whether storage has a journal or working directories of a job that ZooKeeper knows no run of.

    :raises StorageUnavailableError: It could not be found out.
    """
    if job.runs.numbers() or read_life(job.coordinator, job.paths).deleted is not None:
        return False
    # Not by the store: its listing fails where there is no root, as before the first submission of a cluster.
    storage = open_root(job.config, storage_uri(job.config))
    return next(iter(storage.list(job.keys.journals)), None) is not None or bool(job.area.list(job.keys.live))


def refuse_unknown(job: JobContext) -> None:
    """Refuse to do anything with such a job.

    :raises JobStateError: It is one; names both ways out.
    """
    if is_known_to_storage_only(job):
        raise JobStateError(
            f"ZooKeeper knows no job {job.job_id!r} in cluster {job.config.cluster_id!r}, and there are files of it in "
            f"{storage_uri(job.config)}: it would begin from nothing a second time",
            next_step="Check the addresses and the root of ZooKeeper. If it has lost its data, `spark-ha rebuild` "
            'makes the job again. To begin from nothing all the same: start_from="fresh", if_lost="restart", '
            "accept_verdicts=LOSS_POSSIBLE",
        )


def rebuild_unknown(job: JobContext) -> None:
    """Make the tree of such a job again, so that a new run follows those that it had.

    :raises JobStateError: Another process changes the job.
    """
    plan = plan_job(gather(job.config, job.store, job.job_id), job.paths)
    for problem in plan.problems:
        log.warning("job %s: %s", job.job_id, problem)
    done = apply_job(job.coordinator, job.paths, plan)
    log.warning("job %s was known to storage only: %d nodes are made again", job.job_id, len(done.created))
