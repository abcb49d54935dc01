"""Whether storage has something of a job from before this ZooKeeper tree knew it: then no clean-up of the job removes.

A job that was begun anew after ZooKeeper had lost its data has a first life in storage, whose directories and records
have the names that a clean-up looks for. `spark-ha rebuild` needs them.
"""

from __future__ import annotations

import logging
from datetime import datetime

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.journal import JobJournal
from airflow_provider_ha.jobs.removed_runs import RemovedRunStore
from airflow_provider_ha.jobs.runs import RunStore


log = logging.getLogger(__name__)


def has_earlier_life(coordinator: Coordinator, paths: JobPaths, journal: JobJournal) -> bool:
    """Whether the journal has a submission of a run that was made before the oldest run of the tree.

    What the tree has removed is not asked for.

    :raises RecordCorruptError: The oldest run cannot be read, so nothing is known.
    :raises StorageUnavailableError: The journal could not be read.
    """
    runs = RunStore(coordinator, paths)
    numbers = runs.numbers()

    def oldest() -> datetime | None:
        found = runs.runs(numbers[:1])
        return found[numbers[0]].created_at if found else None

    for entry in journal.submissions_before(oldest):
        if entry.run.number in numbers or entry.run.number > RemovedRunStore(coordinator, paths).read().through:
            log.warning(
                "nothing of job %s is removed: run %d of request %r was made before ZooKeeper knew the job",
                paths.job_id,
                entry.run.number,
                entry.run.request_id,
            )
            return True
    return False
