"""URLs of the page "Spark HA", for its routes and for links of tasks.

Invariant: XCom keeps a link as long as its task, so after a change of a URL the old one redirects to the new one.
"""

from __future__ import annotations

from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit


PREFIX = "/spark-ha"  # prefix of all routes of the plugin, below the path of Airflow's base URL
FIRST_AIRFLOW = (3, 1)  # Airflow 3.0 has no plugins that bring pages


def base_url() -> str:
    """Return ``[api] base_url`` without a final slash; empty if it is not set."""
    from airflow.configuration import conf  # noqa: PLC0415  # a page of addresses needs no Airflow to be imported

    return str(conf.get("api", "base_url", fallback="") or "").strip().rstrip("/")


def has_pages(release: str) -> bool:
    """Return whether a release of Airflow shows the pages of plugins."""
    return tuple(int(part) for part in release.split(".")[:2]) >= FIRST_AIRFLOW


def has_page() -> bool:
    """Return whether this Airflow shows the page."""
    from airflow import __version__  # noqa: PLC0415  # as above

    return has_pages(__version__)


def jobs_path(conn_id: str) -> str:
    """Return the path of the list of jobs of a connection."""
    return f"{PREFIX}/{_query(cluster=conn_id)}"


def job_path(conn_id: str, job_id: str) -> str:
    """Return the path of a job's page."""
    return f"{_job(job_id)}{_query(cluster=conn_id)}"


def job_of(url: str) -> tuple[str, str] | None:
    """Return connection and job of a link to a job's page; ``None`` for any other text."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    _, found, job_id = parts.path.rpartition(f"{PREFIX}/jobs/")
    cluster = parse_qs(parts.query).get("cluster", [""])[0]
    return (cluster, unquote(job_id)) if found and job_id and "/" not in job_id and cluster else None


def dag_path(dag_id: str) -> str:
    """Return the path of the tab of a DAG, with its jobs from the list."""
    return f"{PREFIX}/?dag={dag_id}"


def dag_run_path(dag_id: str, run_id: str) -> str:
    """Return the path of the tab of a DAG run.

    Both parameters are placeholders of Airflow's UI, which 3.1 replaces unescaped. The ``+`` of a run id would mean a
    space in a query string, but keeps its meaning in a path.
    """
    return f"{PREFIX}/dag-runs/{dag_id}/{run_id}"


def task_path(dag_id: str, run_id: str, task_id: str, map_index: str) -> str:
    """Return the path of the tab of a task instance."""
    return f"{dag_run_path(dag_id, run_id)}/tasks/{task_id}/{map_index}"


def log_path(conn_id: str, job_id: str, run: int | None = None, attempt: int | None = None) -> str:
    """Return the path of the log of a driver.

    :param run: Number of the run; the newest run by default.
    :param attempt: Attempt of the run; the newest started attempt by default.
    """
    return f"{_job(job_id)}/log{_query(cluster=conn_id, run=run, attempt=attempt)}"


def spark_ui_path(conn_id: str, job_id: str, run: int | None = None) -> str:
    """Return the path that redirects to Spark's web UI of the present driver, or to the history server."""
    return f"{_job(job_id)}/spark-ui{_query(cluster=conn_id, run=run)}"


def _job(job_id: str) -> str:
    return f"{PREFIX}/jobs/{quote(job_id, safe='')}"


def _query(**given: str | int | None) -> str:
    return f"?{urlencode({name: value for name, value in given.items() if value is not None})}"
