"""Driver of a job: lines of its log, and the address of its metrics for Prometheus."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from airflow_provider_ha.api.documents.view import Text, View


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.model import Status
    from airflow_provider_ha.jobs.status import JobStatus


class MetricsTargetView(View):
    """One element of what Prometheus reads from a file (``file_sd``) or over HTTP (``http_sd``): one job.

    :param targets: Where its driver serves its metrics, as ``host:port``.
    :param labels: ``cluster`` and ``job_id``, as the metrics have them.
    """

    targets: tuple[str, ...]
    labels: dict[str, str]


def targets_of(cluster_id: str, snapshot: JobStatus) -> MetricsTargetView | None:
    """Return where the driver of a job is scraped; ``None`` when it serves no metrics, or the job is over.

    That of a lost driver stays until another one leads: Prometheus then says that it is down.
    """
    run, status = snapshot.run, snapshot.status
    live = run is not None and run.result is None and status is not None and status.run == run.run.number
    if not live or status is None or not status.metrics:
        return None
    return MetricsTargetView(targets=(status.metrics,), labels={"cluster": cluster_id, "job_id": snapshot.job_id})


def out_of_reach(snapshot: JobStatus, here: str) -> str:
    """Return why the target of a job says nothing at host *here*; empty when it is the driver's.

    The loopback of another host has nothing, or another driver: the job would seem lost, or its loss would not be seen.
    """
    status = snapshot.status
    if status is None or not _is_loopback(status.metrics):
        return ""
    host = _host_of(snapshot, status)
    if host == here:
        return ""
    where = f"host {host}" if host else "a host that is not known"
    return (
        f"its driver serves metrics at {status.metrics} of {where}, which {here} cannot reach. Set metrics_address of "
        "the job to 0.0.0.0, or to an address that each of its hosts has"
    )


def _host_of(snapshot: JobStatus, status: Status) -> str:
    """Return the host of the driver that wrote the status; empty when that is not known."""
    leader = snapshot.leader
    if leader is not None:
        return leader.host if leader.epoch == status.epoch else ""
    submissions = snapshot.run.submissions if snapshot.run is not None else ()
    # The next submission may wait for its leadership already, on another host.
    led = [each for each in submissions if each.created_zxid < snapshot.epoch_zxid]
    return led[-1].started.handle.log_host if led and led[-1].started is not None else ""


def _is_loopback(place: str) -> bool:
    host = place.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class LogView(View):
    """The last lines of a log.

    :param path: The file there.
    :param lines: The lines, without secrets.
    """

    job_id: str
    run: int
    attempt: int
    host: str
    path: Text
    lines: tuple[str, ...]


class LogLineView(View):
    """One line of a log that is followed.

    :param line: The line, without secrets.
    """

    job_id: str
    run: int
    attempt: int
    line: str
