"""Links of a task: its job, the log of the driver, and Spark's web UI.

Invariants:

* A link needs neither ZooKeeper nor the database, because the task's own data suffices. If the page exists, the link
  leads there, and the page looks up the present driver on each click: a deferred task outlives many drivers.
* A resumed task knows less than the process that deferred. Earlier links are then kept, never emptied.
* A failed report never fails a task, because the run exists without the report too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side import page_urls
from airflow_provider_ha.airflow_side.compat.sdk import BaseOperatorLink
from airflow_provider_ha.api.documents.operation import TaskRunView
from airflow_provider_ha.errors import HaError


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.status import JobStatus


XCOM_KEY = "spark_ha_run"
"""XCom key under which a task reports its run (``api.documents.operation.TaskRunView``)."""

_ATTRIBUTE = "_spark_ha_known_run"


@dataclass(frozen=True, slots=True)
class TaskRun:
    """Run of a task.

    :param run: Number of the run; ``None`` before it exists.
    :param log_page: Page of the cluster manager that leads to the log of the newest driver; empty without such a page.
    :param spark_ui: Spark's web UI, or the page of the history server; empty if neither is known.
    """

    run: int | None = None
    log_page: str = ""
    spark_ui: str = ""


def note_run(operator: Any, known: TaskRun) -> None:
    """Store the run of *operator*, as known to this process."""
    setattr(operator, _ATTRIBUTE, known)


def known_run(operator: Any) -> TaskRun:
    """Return the run of *operator*, as known to this process."""
    found = getattr(operator, _ATTRIBUTE, None)
    return found if isinstance(found, TaskRun) else TaskRun()


def report_run(operator: Any, context: Any, client: HaClient, run: int, *, operation_id: str | None = None) -> None:
    """Push the XCom ``spark_ha_run``, and store the run's present state in ZooKeeper for the links.

    :param operation_id: Id of the operation that the task has requested of the run.
    """
    from airflow_provider_ha.jobs.drivers.driver_log import spark_page  # noqa: PLC0415  # brings pydantic

    try:
        snapshot = client.job(operator.job_id).snapshot()
    except HaError:
        report_facts(operator, context, {"run": run, "operation_id": operation_id})
        return
    facts: dict[str, Any] = {"run": run, "operation_id": operation_id}
    if snapshot.run is not None and snapshot.run.run.number == run:
        facts |= {"attempt": _attempt(snapshot), "epoch": _epoch(snapshot)}
        page = spark_page(snapshot, client.config.history_server)
        report_facts(operator, context, facts, log_page=_log_page(snapshot), spark_ui=page)
    else:
        report_facts(operator, context, facts)


def report_facts(operator: Any, context: Any, facts: dict[str, Any], *, log_page: str = "", spark_ui: str = "") -> None:
    """Push the known facts, and store them for the links."""
    note_run(operator, TaskRun(facts["run"], log_page, spark_ui))
    known = {key: facts[key] for key in TaskRunView.model_fields if facts.get(key) is not None}
    view = TaskRunView.model_validate({**known, "job_id": operator.job_id, "conn_id": operator.spark_ha_conn_id})
    try:
        context["ti"].xcom_push(key=XCOM_KEY, value=view.to_json())
    except Exception as error:  # noqa: BLE001  # an API server that is down must not fail a task whose run lives
        operator.log.warning("XCom %s could not be written: %s", XCOM_KEY, error)


def _attempt(snapshot: JobStatus) -> int | None:
    newest = snapshot.run.newest if snapshot.run is not None else None
    return newest.submission.attempt if newest is not None else None


def _epoch(snapshot: JobStatus) -> int | None:
    """Return the epoch of the run's leader, or of the result of a run that is over; never an earlier run's epoch."""
    leader, view = snapshot.leader, snapshot.run
    if view is None:
        return None
    if view.result is not None:
        return view.result.epoch
    return leader.epoch if leader is not None and leader.run == view.run.number else None


def _log_page(snapshot: JobStatus) -> str:
    from airflow_provider_ha.jobs.drivers.driver_log import web_page  # noqa: PLC0415  # as above

    for submission in reversed(snapshot.run.submissions if snapshot.run is not None else ()):
        if submission.started is not None and submission.started.handle.ui_uri:
            return web_page(submission.started.handle.ui_uri)
    return ""


class _Link(BaseOperatorLink):
    """Base of the links: to the page if this Airflow has it, else to the URL that the task knows."""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the URL; empty if it is unknown.

        :param operator: Operator with rendered templates.
        :param ti_key: Key of the running task instance.
        """
        if page_urls.has_page():
            return page_urls.base_url() + self.path(operator)
        return self.elsewhere(operator) or self._before(ti_key)

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        raise NotImplementedError

    def elsewhere(self, operator: Any) -> str:  # noqa: ARG002  # for subclasses
        """Return the URL that the task knows, for an Airflow without the page; empty without one."""
        return ""

    def _before(self, ti_key: Any) -> str:
        """Return the link that an earlier process of this try has stored."""
        try:
            return ti_key.xcom_pull(key=self.xcom_key) or ""
        except Exception:  # noqa: BLE001  # Airflow would log a stack trace for a link
            return ""


class SparkHaJobLink(_Link):
    """Page of the task's job."""

    name = "Spark HA job"

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        return page_urls.job_path(operator.spark_ha_conn_id, operator.job_id)


class SparkHaJobsLink(_Link):
    """List of the jobs of a cluster, for tasks that act on the whole cluster."""

    name = "Spark HA jobs"

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        return page_urls.jobs_path(operator.spark_ha_conn_id)


class SparkHaDriverLogLink(_Link):
    """Log of the newest driver of the task's run."""

    name = "Driver log"

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        return page_urls.log_path(operator.spark_ha_conn_id, operator.job_id, known_run(operator).run)

    def elsewhere(self, operator: Any) -> str:
        """Return the page of the cluster manager that leads to the log."""
        return known_run(operator).log_page


class SparkHaSparkUiLink(_Link):
    """Spark's web UI of the run while a driver leads, and the history server afterwards."""

    name = "Spark UI"

    def path(self, operator: Any) -> str:
        """Return the path that redirects to the web UI."""
        return page_urls.spark_ui_path(operator.spark_ha_conn_id, operator.job_id, known_run(operator).run)

    def elsewhere(self, operator: Any) -> str:
        """Return the URL as of the task's latest read."""
        return known_run(operator).spark_ui
