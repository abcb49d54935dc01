"""The buttons of a task's page. Airflow asks for them in the task's process, each time that the task ends or defers.

Invariants:

* A link needs neither ZooKeeper nor the database: it is made of what the task knows. Where the page exists, it leads
  there, and the page looks up what is right at the time of the click: a deferred task outlives many drivers.
* A resumed task knows less than the one that has deferred. What was there before is then kept, never emptied.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.compat.sdk import BaseOperatorLink
from airflow_provider_ha.links import page_urls
from airflow_provider_ha.links.known_run import known_run


class _Link(BaseOperatorLink):
    """Base of the links: the page where Airflow has it, else what the task itself knows."""

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the URL; empty when there is none.

        :param operator: With its templates rendered.
        :param ti_key: The running task instance.
        """
        if page_urls.has_page():
            return page_urls.base_url() + self.path(operator)
        return self.elsewhere(operator) or self._before(ti_key)

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        raise NotImplementedError

    def elsewhere(self, operator: Any) -> str:  # noqa: ARG002  # what a subclass may need
        """Return the URL that the task knows, for an Airflow without the page; empty without one."""
        return ""

    def _before(self, ti_key: Any) -> str:
        """Return the link that an earlier process of this try has left."""
        try:
            return ti_key.xcom_pull(key=self.xcom_key) or ""
        except Exception:  # noqa: BLE001  # Airflow would log a stack trace for a link
            return ""


class SparkHaJobLink(_Link):
    """The page of the task's job."""

    name = "Spark HA job"

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        return page_urls.job_path(operator.spark_ha_conn_id, operator.job_id)


class SparkHaJobsLink(_Link):
    """The list of the jobs of a cluster, for tasks that look after all of them."""

    name = "Spark HA jobs"

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        return page_urls.jobs_path(operator.spark_ha_conn_id)


class SparkHaDriverLogLink(_Link):
    """The log of the newest driver of the task's run."""

    name = "Driver log"

    def path(self, operator: Any) -> str:
        """Return the path on the page."""
        return page_urls.log_path(operator.spark_ha_conn_id, operator.job_id, known_run(operator).run)

    def elsewhere(self, operator: Any) -> str:
        """Return the page of the cluster manager that leads to it."""
        return known_run(operator).log_page


class SparkHaSparkUiLink(_Link):
    """Spark's web UI of the run while a driver leads, and the history server afterwards."""

    name = "Spark UI"

    def path(self, operator: Any) -> str:
        """Return the path that leads on."""
        return page_urls.spark_ui_path(operator.spark_ha_conn_id, operator.job_id, known_run(operator).run)

    def elsewhere(self, operator: Any) -> str:
        """Return the URL that was right when the task looked."""
        return known_run(operator).spark_ui
