"""Makes the working directory of an epoch from a checkpoint, to replace a directory that cannot be continued."""

from __future__ import annotations

import logging

from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.checkpoints.restore.prepare import prepare_restore
from airflow_provider_ha.checkpoints.working.pins import keep_sink_logs, kept_in
from airflow_provider_ha.checkpoints.working.started_queries import (
    StartedBefore,
    StartedQueries,
    read_started,
    write_started,
)
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.driver.origin import Origin, OriginKind
from airflow_provider_ha.driver.start_point import check_facts
from airflow_provider_ha.errors import DecisionNeededError, RecordCorruptError, RestoreRefusedError
from airflow_provider_ha.jobs.model import Fallback, Run
from airflow_provider_ha.storage.keys import JobKeys


log = logging.getLogger(__name__)


def start_from_fallback(
    area: WorkArea,
    paths: JobPaths,
    run: Run,
    planned: tuple[Fallback, RestorePlan],
    *,
    key: str,
    reach: Reach | None = None,
) -> Origin:
    """Make the working directory *key*, and return its origin.

    Repeatable with another key.

    :param area: Holds the checkpoint and both directories.
    :param paths: The job.
    :param run: The run that continues.
    :param planned: The checkpoint to continue from, and its plan.
    :param reach: Access to the file systems of outputs; by default from the environment.
    :raises DecisionNeededError: An output has changed since the plan was made.
    :raises CheckpointError: The checkpoint has been damaged since.
    :raises StorageUnavailableError: The work root, or an output, does not answer.
    """
    fallback, plan = planned
    record = f"the fallback of znode {paths.generation}"
    chosen = area.admit(plan.directory, inside=JobKeys(plan.source_job).restorable, source=record)
    source = area.tree(chosen)
    reach = reach or Reach()
    try:
        check_facts(plan, source, reach)
    except RestoreRefusedError as error:  # the plan is fresh: another driver is at work, and no run ends
        raise DecisionNeededError(error.message, next_step=error.next_step) from error
    area.create(key)
    prepare_restore(area, chosen, plan, key, reach)
    made = area.tree(key)
    keep_sink_logs(source, made)
    if (started := _started(area, fallback, plan, run)) is not None:
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
        reach=reach,
    )


def _started(area: WorkArea, fallback: Fallback, plan: RestorePlan, run: Run) -> StartedQueries | None:
    """Return the queries that the run has started, by its lost directory, else by its own checkpoint.

    A checkpoint is taken when the script has started all its queries. The starting point of the run is no evidence
    about the run's own script.
    """
    try:
        found = read_started(area.tree(area.current(fallback.lost)))
    except RecordCorruptError as error:
        log.warning("the started queries of the run are taken from its checkpoint: %s", error)
        found = None
    if found is not None or fallback.source == f"{run.start.kind.value}-{run.start.source_id}":
        return found
    queries = tuple(StartedBefore(name=name, sink=query.sink) for name, query in plan.queries.items())
    return StartedQueries(queries=queries, complete=True)
