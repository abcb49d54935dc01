"""Makes the working directory of an epoch from a checkpoint, in place of one that cannot be continued."""

from __future__ import annotations

import logging

from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.restore.prepare import prepare_restore
from airflow_provider_ha.checkpoints.working.pins import keep_sink_logs, kept_in
from airflow_provider_ha.checkpoints.working.started_queries import StartedQueries, read_started, write_started
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.start_point import check_facts
from airflow_provider_ha.errors import DecisionNeededError, RecordCorruptError, RestoreRefusedError
from airflow_provider_ha.jobs.model import Fallback
from airflow_provider_ha.storage.keys import JobKeys


log = logging.getLogger(__name__)


def start_from_fallback(area: WorkArea, paths: JobPaths, fallback: Fallback, plan: RestorePlan, *, key: str) -> Origin:
    """Make the working directory *key* and say where it comes from.

    Repeatable with another key. What the run has started is taken from the lost directory, where that can be read.

    :param area: Holds the checkpoint and both directories.
    :param paths: The job.
    :param plan: That of *fallback*.
    :raises DecisionNeededError: An output has changed since the plan was made.
    :raises CheckpointError: The checkpoint has been damaged since.
    :raises StorageUnavailableError: The work root, or an output, does not answer.
    """
    record = f"the fallback of znode {paths.generation}"
    chosen = area.admit(plan.directory, inside=JobKeys(plan.source_job).restorable, source=record)
    source = area.tree(chosen)
    try:
        check_facts(plan, source)
    except RestoreRefusedError as error:  # the plan is of this moment: another driver is at work, and no run is over
        raise DecisionNeededError(error.message, next_step=error.next_step) from error
    area.create(key)
    prepare_restore(area, chosen, plan, key)
    made = area.tree(key)
    keep_sink_logs(source, made)
    if (started := _started(area, fallback.lost)) is not None:
        write_started(made, started)
    return Origin(
        OriginKind.FALLBACK,
        key,
        made,
        area.uri(key),
        source=fallback.source,
        plan=plan,
        sinks=kept_in(made) or source,
        fallback=fallback,
    )


def _started(area: WorkArea, lost: str) -> StartedQueries | None:
    try:
        return read_started(area.tree(area.current(lost)))
    except RecordCorruptError as error:
        log.warning("what the run has started is taken from its checkpoint alone: %s", error)
        return None
