"""Addresses of the page "Spark HA": what the plugin serves, and what links of tasks lead to.

Invariant: XCom keeps a link for as long as its task, so an address is never changed without the old one leading on.
"""

from __future__ import annotations

from urllib.parse import quote, urlencode


PREFIX = "/spark-ha"  # of every route of the plugin, below the path of Airflow's base URL
FIRST_AIRFLOW = (3, 1)  # Airflow 3.0 has no plugins that bring pages


def base_url() -> str:
    """Return ``[api] base_url`` without a slash at its end; empty when it is not set."""
    from airflow.configuration import conf  # noqa: PLC0415  # a page of addresses needs no Airflow to be imported

    return str(conf.get("api", "base_url", fallback="") or "").strip().rstrip("/")


def has_pages(release: str) -> bool:
    """Whether a release of Airflow shows the pages of plugins."""
    return tuple(int(part) for part in release.split(".")[:2]) >= FIRST_AIRFLOW


def has_page() -> bool:
    """Whether this Airflow shows the page."""
    from airflow import __version__  # noqa: PLC0415  # as above

    return has_pages(__version__)


def jobs_path(conn_id: str) -> str:
    """Return the path of the list of jobs of a connection."""
    return f"{PREFIX}/{_query(cluster=conn_id)}"


def job_path(conn_id: str, job_id: str) -> str:
    """Return the path of a job's page."""
    return f"{_job(job_id)}{_query(cluster=conn_id)}"


def log_path(conn_id: str, job_id: str, run: int | None = None, attempt: int | None = None) -> str:
    """Return the path of the log of a driver.

    :param run: The newest one when left out.
    :param attempt: The newest one of the run that was started when left out.
    """
    return f"{_job(job_id)}/log{_query(cluster=conn_id, run=run, attempt=attempt)}"


def spark_ui_path(conn_id: str, job_id: str, run: int | None = None) -> str:
    """Return the path that leads on to Spark's web UI of the driver that leads then, or to the history server."""
    return f"{_job(job_id)}/spark-ui{_query(cluster=conn_id, run=run)}"


def _job(job_id: str) -> str:
    return f"{PREFIX}/jobs/{quote(job_id, safe='')}"


def _query(**given: str | int | None) -> str:
    return f"?{urlencode({name: value for name, value in given.items() if value is not None})}"
