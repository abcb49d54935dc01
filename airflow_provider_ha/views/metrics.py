"""Where Prometheus finds the metrics of drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.snapshot import JobSnapshot


class TargetsView(View):
    """One element of what Prometheus reads from a file (``file_sd``) or over HTTP (``http_sd``): one job.

    :param targets: Where its driver serves its metrics, as ``host:port``.
    :param labels: ``cluster`` and ``job_id``, as the metrics have them.
    """

    targets: tuple[str, ...]
    labels: dict[str, str]


def targets_of(cluster_id: str, snapshot: JobSnapshot) -> TargetsView | None:
    """Return where the driver of a job is scraped; ``None`` when it serves no metrics, or the job is over.

    That of a lost driver stays until another one leads: Prometheus then says that it is down.
    """
    run, status = snapshot.run, snapshot.status
    live = run is not None and run.result is None and status is not None and status.run == run.run.number
    if not live or status is None or not status.metrics:
        return None
    return TargetsView(targets=(status.metrics,), labels={"cluster": cluster_id, "job_id": snapshot.job_id})
