"""Jobs that the tasks of a DAG run have reported to Airflow: by the XCom with their run, or by the link to their job.

Invariant: an XCom is a text of the DAG's author. It determines which job to read, never whether the user may see it:
the job itself decides that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.links.known_run import XCOM_KEY
from airflow_provider_ha.links.operator_links import SparkHaJobLink
from airflow_provider_ha.links.page_urls import job_of
from airflow_provider_ha.names import check_job_id


_MOST = 1000  # XComs: a mapped task has two per instance
_LONGEST = 250  # characters of a connection's id
_OVER = {"success", "failed"}


@dataclass(frozen=True, slots=True)
class Told:
    """Content of one XCom.

    :param cluster: Connection of the job's cluster.
    :param run: The run of the task; ``None`` if missing.
    """

    task: str
    cluster: str
    job_id: str
    run: int | None = None


@dataclass(frozen=True, slots=True)
class ToldJob:
    """A job of a DAG run, or of a task instance.

    :param tasks: The tasks that reported it, in order.
    :param run: The newest reported run; ``None`` without one.
    """

    cluster: str
    job_id: str
    tasks: tuple[str, ...]
    run: int | None = None


def read_told(
    dag_id: str, run_id: str, task_id: str | None = None, map_index: int | None = None
) -> tuple[list[ToldJob], bool] | None:
    """Return the jobs, and whether more may follow; ``None`` if the DAG run does not exist.

    :param task_id: Only those of this task; of all tasks by default.
    :param map_index: Of this instance of it.
    """
    link = SparkHaJobLink().xcom_key
    query = (
        select(XComModel.task_id, XComModel.map_index, XComModel.key, XComModel.value)
        .where(XComModel.dag_id == dag_id, XComModel.run_id == run_id, XComModel.key.in_((XCOM_KEY, link)))
        .order_by(XComModel.timestamp)
        .limit(_MOST)
    )
    if task_id is not None:
        query = query.where(XComModel.task_id == task_id, XComModel.map_index == map_index)
    with create_session() as session:
        state = session.scalars(select(DagRun.state).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id)).first()
        rows = session.execute(query).all()
    if state is None:
        return None
    found = [
        told for row in rows if (told := heard(_name(row.task_id, row.map_index), plain_value(row.value))) is not None
    ]
    return told_jobs(found), str(getattr(state, "value", state)) not in _OVER


def plain_value(stored: Any) -> Any:
    """Return the content of an XCom, as plain JSON.

    Airflow's own deserialization creates objects of classes that the text names; its pages avoid that too.

    :param stored: The column: the value itself, or its JSON text, as some writers store it.
    """
    if not isinstance(stored, str):
        return stored
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):
        return stored


def heard(task: str, value: Any) -> Told | None:
    """Return the content of a task's XCom: a link, or the run; ``None`` for other values."""
    cluster: Any
    job_id: Any
    run: Any = None
    if isinstance(value, str):
        cluster, job_id = job_of(value) or ("", "")
    elif isinstance(value, dict):
        cluster, job_id, run = value.get("conn_id"), value.get("job_id"), value.get("run")
    else:
        return None
    if not isinstance(job_id, str) or not isinstance(cluster, str) or not 0 < len(cluster) <= _LONGEST:
        return None
    try:
        check_job_id(job_id)
    except ConfigurationError:
        return None
    return Told(task, cluster, job_id, run if type(run) is int and run > 0 else None)


def told_jobs(told: Sequence[Told]) -> list[ToldJob]:
    """Return each job once, in the order of the first report."""
    jobs: dict[tuple[str, str], list[Told]] = {}
    for each in told:
        jobs.setdefault((each.cluster, each.job_id), []).append(each)
    return [
        ToldJob(
            cluster,
            job_id,
            tuple(dict.fromkeys(each.task for each in of_job)),
            max(_runs(of_job), default=None),
        )
        for (cluster, job_id), of_job in jobs.items()
    ]


def _runs(told: Iterable[Told]) -> list[int]:
    return [each.run for each in told if each.run is not None]


def _name(task_id: str, map_index: int) -> str:
    return task_id if map_index < 0 else f"{task_id} [{map_index}]"
