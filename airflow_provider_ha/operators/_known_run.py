"""Tell other tasks and the links of this one which run it has, as soon as there is one.

Invariant: nothing of it can fail a task: the run is there whether or not it can be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import HaError
from airflow_provider_ha.links.known_run import XCOM_KEY, KnownRun, note_run
from airflow_provider_ha.views.task_results import KnownRunView


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient
    from airflow_provider_ha.jobs.status import JobStatus


def tell_run(operator: Any, context: Any, client: HaClient, run: int, *, operation_id: str | None = None) -> None:
    """Push the XCom ``spark_ha_run``, and note for the links what ZooKeeper says of the run now.

    :param operation_id: Of the operation that the task has requested of the run.
    """
    from airflow_provider_ha.jobs.host.spark_page import spark_page  # noqa: PLC0415  # brings pydantic

    try:
        snapshot = client.job(operator.job_id).snapshot()
    except HaError:
        tell(operator, context, {"run": run, "operation_id": operation_id})
        return
    facts: dict[str, Any] = {"run": run, "operation_id": operation_id}
    if snapshot.run is not None and snapshot.run.run.number == run:
        facts |= {"attempt": _attempt(snapshot), "epoch": _epoch(snapshot)}
        page = spark_page(snapshot, client.config.history_server)
        tell(operator, context, facts, log_page=_log_page(snapshot), spark_ui=page)
    else:
        tell(operator, context, facts)


def tell(operator: Any, context: Any, facts: dict[str, Any], *, log_page: str = "", spark_ui: str = "") -> None:
    """Push what is known in *facts*, and note it for the links."""
    note_run(operator, KnownRun(facts["run"], log_page, spark_ui))
    known = {key: facts[key] for key in KnownRunView.model_fields if facts.get(key) is not None}
    view = KnownRunView.model_validate({**known, "job_id": operator.job_id, "conn_id": operator.spark_ha_conn_id})
    try:
        context["ti"].xcom_push(key=XCOM_KEY, value=view.to_json())
    except Exception as error:  # noqa: BLE001  # an API server that is down must not fail a task whose run lives
        operator.log.warning("XCom %s could not be written: %s", XCOM_KEY, error)


def _attempt(snapshot: JobStatus) -> int | None:
    newest = snapshot.run.newest if snapshot.run is not None else None
    return newest.submission.attempt if newest is not None else None


def _epoch(snapshot: JobStatus) -> int | None:
    """Return the epoch of the leader, or of the result of a run that is over; an earlier run's epoch says nothing."""
    leader, view = snapshot.leader, snapshot.run
    if view is None:
        return None
    if view.result is not None:
        return view.result.epoch
    return leader.epoch if leader is not None and leader.run == view.run.number else None


def _log_page(snapshot: JobStatus) -> str:
    from airflow_provider_ha.jobs.host.spark_page import web_page  # noqa: PLC0415  # as above

    for submission in reversed(snapshot.run.submissions if snapshot.run is not None else ()):
        if submission.started is not None and submission.started.handle.ui_uri:
            return web_page(submission.started.handle.ui_uri)
    return ""
