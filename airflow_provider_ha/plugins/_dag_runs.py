"""DAG runs requested by the pages: permission, request and state.

Invariants: the id of a run comes from its form, so a form that is sent again finds its earlier run. A run is requested
only for a user who may trigger that DAG, as Airflow's own button requires.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

from airflow.api.common.trigger_dag import trigger_dag
from airflow.configuration import conf
from airflow.exceptions import DagNotFound, DagRunAlreadyExists
from airflow.models.dag import DagModel
from airflow.models.dagbag import DBDagBag
from airflow.models.dagrun import DagRun
from airflow.models.pool import Pool
from airflow.models.taskinstance import TaskInstance
from airflow.utils.session import create_session
from airflow.utils.types import DagRunTriggeredByType
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from airflow_provider_ha.errors import ConfigurationError, JobStateError
from airflow_provider_ha.links.page_urls import base_url
from airflow_provider_ha.names import task_request
from airflow_provider_ha.plugins._bring_back import Way
from airflow_provider_ha.plugins._security import Permissions


SECTION = "spark_ha"
_OPTIONS = {Way.RESTORE: ("restore_dag", "disaster_recovery"), Way.RECOVER: ("recover_dag", "recover_jobs")}


@dataclass(frozen=True, slots=True)
class ShownDagRun:
    """A run of a DAG.

    :param state: ``queued``, ``running``, ``success`` or ``failed``.
    :param conf: Its parameters.
    :param tasks: Task id -> state in start order; ``None`` before the scheduler has processed it.
    :param asked_at: Time of its request; a cleared run keeps it.
    :param waits: The cause of a delay, when Airflow has not begun it or its next task; empty otherwise.
    :param waits_since: Begin of the delay, if known.
    """

    dag_id: str
    run_id: str
    state: str
    conf: Mapping[str, Any]
    tasks: Mapping[str, str | None]
    asked_at: datetime
    waits: str = ""
    waits_since: datetime | None = None

    @property
    def url(self) -> str:
        """Its page in Airflow."""
        return f"{base_url()}/dags/{quote(self.dag_id, safe='')}/runs/{quote(self.run_id, safe='')}"

    @property
    def failed_tasks(self) -> list[str]:
        """Tasks with an own failure."""
        return [task_id for task_id, state in self.tasks.items() if state == "failed"]

    @property
    def requests(self) -> list[str]:
        """Ids of the requests of its tasks."""
        return [task_request(self.dag_id, self.run_id, task_id) for task_id in self.tasks]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason not to trigger a DAG.

    :param next_step: Remedy, with the exact command or setting.
    :param url: Page of the DAG in Airflow, if useful; empty otherwise.
    """

    reason: str
    next_step: str
    url: str = ""


def dag_of(way: Way) -> str:
    """Return the DAG that the configuration names for a way."""
    option, default = _OPTIONS[way]
    return str(conf.get(SECTION, option, fallback=default) or default).strip()


def refusal_of_dag(way: Way, wanted: Mapping[str, Any], allowed: Permissions) -> Refusal | None:
    """Return why this user cannot trigger the DAG with these parameters; ``None`` if they can."""
    dag_id, option = dag_of(way), _OPTIONS[way][0]
    if not allowed.may_trigger(dag_id):
        return Refusal(
            f"You may not trigger the DAG {dag_id} (POST on its runs)",
            f"Ask an administrator of Airflow for the permission to trigger {dag_id}, or for a run of it",
        )
    with create_session() as session:
        model = session.scalar(select(DagModel).where(DagModel.dag_id == dag_id))
        known = DBDagBag().get_latest_version_of_dag(dag_id, session=session) if model is not None else None
        stale, paused, broken = (
            (model.is_stale, model.is_paused, model.has_import_errors) if model is not None else (True, False, False)
        )
        lacking = sorted(set(wanted) - set(known.params)) if known is not None else []
    if stale or known is None:
        return Refusal(
            f"Airflow has no DAG {dag_id}, which starts the driver on a host that is meant for it",
            f"Copy it to the DAGs folder (spark-ha examples DIR), or name yours: [{SECTION}] {option} "
            f"(AIRFLOW__{SECTION.upper()}__{option.upper()})",
        )
    if broken:
        return Refusal(f"The file of DAG {dag_id} has import errors", "airflow dags list-import-errors shows them")
    if lacking:
        return Refusal(
            f"DAG {dag_id} has no parameter {', '.join(lacking)}: it is a copy from another release, or another DAG",
            f"Copy the DAG of this release (spark-ha examples DIR --force), or name yours: [{SECTION}] {option}",
        )
    if paused:
        return Refusal(
            f"DAG {dag_id} is paused, so nothing would happen",
            f"Unpause it on its page in Airflow, then load this page again (in a shell: airflow dags unpause {dag_id})",
            f"{base_url()}/dags/{quote(dag_id, safe='')}",
        )
    return None


def trigger(dag_id: str, run_id: str, wanted: Mapping[str, Any], *, by: str) -> None:
    """Create a DAG run, or find it.

    :param by: Name of Airflow's user, which the run keeps.
    :raises JobStateError: The DAG is gone.
    :raises ConfigurationError: The DAG does not accept the parameters.
    """
    try:
        trigger_dag(
            dag_id,
            triggered_by=DagRunTriggeredByType.UI,
            triggering_user_name=by,
            run_id=run_id,
            conf=dict(wanted),
        )
    except DagRunAlreadyExists:
        return
    except IntegrityError:
        # Concurrent requests: the other one has created it.
        if read_dag_run(dag_id, run_id) is None:
            raise
    except DagNotFound as error:
        raise JobStateError(f"Airflow no longer has the DAG {dag_id!r}", next_step="Load the page again") from error
    except ValueError as error:
        raise ConfigurationError(
            f"DAG {dag_id!r} does not take these parameters: {error}", next_step="Correct the parameters of the DAG"
        ) from error


def read_dag_run(dag_id: str, run_id: str) -> ShownDagRun | None:
    """Return a DAG run; ``None`` if it does not exist."""
    with create_session() as session:
        run = session.scalar(select(DagRun).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))
        if run is None:
            return None
        tasks = session.execute(
            select(TaskInstance.task_id, TaskInstance.state)
            .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id)
            .order_by(TaskInstance.start_date.is_(None), TaskInstance.start_date, TaskInstance.task_id)
        )
        shown = {task_id: str(getattr(state, "value", state)) if state else None for task_id, state in tasks}
        state = str(getattr(run.state, "value", run.state))
        waits, since = _waits(session, run, state)
        return ShownDagRun(dag_id, run_id, state, dict(run.conf or {}), shown, run.run_after, waits, since)


def _waits(session: Session, run: DagRun, state: str) -> tuple[str, datetime | None]:
    """Return the cause and the begin of a delay before the run or its next task."""
    if state == "queued":
        most = session.scalar(select(DagModel.max_active_runs).where(DagModel.dag_id == run.dag_id))
        running = select(func.count()).where(DagRun.dag_id == run.dag_id, DagRun.state == "running")
        count = session.scalar(running) or 0
        full = f": {count} of its runs {'is' if count == 1 else 'are'} running, and {most} may" if count else ""
        return f"The scheduler has not begun this run of {run.dag_id} yet{full}", run.queued_at
    task = session.scalar(
        select(TaskInstance)
        .where(
            TaskInstance.dag_id == run.dag_id,
            TaskInstance.run_id == run.run_id,
            TaskInstance.state.in_(("scheduled", "queued")),
        )
        .order_by(TaskInstance.scheduled_dttm)
        .limit(1)
    )
    if task is None:
        return "", None
    pool = session.scalar(select(Pool).where(Pool.pool == task.pool))
    free = max(0, pool.open_slots(session=session)) if pool is not None else 0
    slots = f"{free:g} of {pool.slots} slots are free" if pool is not None else "there is no such pool"
    what = "a free slot of" if task.state == "scheduled" else "a worker, with a slot of"
    return f"Task {task.task_id} waits for {what} pool {task.pool} ({slots})", task.queued_dttm or task.scheduled_dttm
