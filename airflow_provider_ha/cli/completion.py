"""Shell completion of ids: jobs, and the runs, checkpoints and savepoints of the job on the command line.

Invariant: a completion never explains an empty offer. It has a second or two, reads names of nodes only, and prints
neither a message nor a stack trace into the user's command line.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import typer

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node_names import is_plain, node_numbers, ours
from airflow_provider_ha.coordination.paths import CHECKPOINT_DIGITS, ClusterPaths, JobPaths
from airflow_provider_ha.jobs.observe import list_jobs


SECONDS = 1.5  # maximum wait of a person, in addition to the start of the command

Read = Callable[[Coordinator, ClusterPaths], list[str]]


def job_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the jobs of the cluster."""
    return _offered(context, incomplete, list_jobs)


def run_numbers(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the runs of the job."""
    return _of_job(context, incomplete, lambda session, job: _numbers(session, job.runs))


def checkpoint_numbers(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the checkpoints of the job by their numbers."""
    return _of_job(context, incomplete, _checkpoints)


def checkpoint_names(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the checkpoints of the job as ``checkpoint-7``."""
    return _of_job(context, incomplete, lambda *found: [f"checkpoint-{number}" for number in _checkpoints(*found)])


def savepoint_ids(context: typer.Context, incomplete: str) -> list[str]:
    """Offer the savepoints of the job."""
    return _of_job(
        context,
        incomplete,
        lambda session, job: ours(session.children(job.savepoints), is_plain, parent=job.savepoints),
    )


def _checkpoints(session: Coordinator, job: JobPaths) -> list[str]:
    return _numbers(session, job.checkpoints, digits=CHECKPOINT_DIGITS)


def _numbers(session: Coordinator, parent: str, *, digits: int = 0) -> list[str]:
    return [str(number) for number in node_numbers(session.children(parent), parent=parent, digits=digits)]


def _of_job(context: typer.Context, incomplete: str, read: Callable[[Coordinator, JobPaths], list[str]]) -> list[str]:
    # After an option that waits for its value, the words of the line are not yet assigned to the arguments.
    job_id = context.params.get("job_id") or next(iter(context.args), None)
    if not job_id:
        return []
    return _offered(context, incomplete, lambda session, cluster: read(session, cluster.job(job_id)))


def _offered(context: typer.Context, incomplete: str, read: Read) -> list[str]:
    """Return the result of *read*; empty after the time limit."""
    logging.disable(logging.CRITICAL)  # this process completes a word and ends
    found: list[str] = []

    def look() -> None:
        try:
            config = _config(context)
            session = KazooCoordinator.connect(config, timeout=SECONDS)
            try:
                found.extend(read(session, ClusterPaths(config.root, config.cluster_id)))
            finally:
                session.close()
        except Exception:  # noqa: BLE001, S110
            pass

    thread = threading.Thread(target=look, name="ha-completion", daemon=True)
    thread.start()
    thread.join(SECONDS)
    return [word for word in found if word.startswith(incomplete)]


def _config(context: typer.Context) -> HaConfig:
    """Return the cluster of the command line, found like the command does."""
    root = context.find_root()
    target = root.obj
    target.options.update({name: value for name, value in root.params.items() if name != "version"})
    config: HaConfig = target.config()
    return config
