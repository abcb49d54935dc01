"""Where Spark shows the application of a job: its own web UI while it runs, the history server afterwards. Pure."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from airflow_provider_ha.jobs.status import JobStatus


def web_page(url: str) -> str:
    """Return *url* when a browser may be led there; empty for anything else, which a record must not make a link."""
    try:
        parts = urlsplit(url)
        admitted = parts.scheme in ("http", "https")
        plain = url.isprintable() and " " not in url and not parts.password
    except ValueError:  # half an IPv6 address
        return ""
    return url if admitted and plain and parts.hostname else ""


def live_page(snapshot: JobStatus) -> str:
    """Return Spark's web UI of the driver that leads; empty without one."""
    status, leader, view = snapshot.status, snapshot.leader, snapshot.run
    if status is None or leader is None or view is None or view.result is not None:
        return ""
    return web_page(status.spark_ui) if (status.epoch, status.run) == (leader.epoch, view.run.number) else ""


def history_page(snapshot: JobStatus, history_server: str | None) -> str:
    """Return the page of the history server about the last application of the job; empty when either is not known."""
    status = snapshot.status
    if status is None or not status.application_id or not history_server:
        return ""
    return web_page(f"{history_server.rstrip('/')}/history/{quote(status.application_id, safe='')}/")


def spark_page(snapshot: JobStatus, history_server: str | None) -> str:
    """Return where Spark shows the newest application of a job now; empty when nothing shows it."""
    return live_page(snapshot) or history_page(snapshot, history_server)
