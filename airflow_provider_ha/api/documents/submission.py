"""Submission of a job: the persisted job graph without secrets, and the submitted run."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ha.api.documents.view import View, shows
from airflow_provider_ha.argument_secrets import hidden
from airflow_provider_ha.jobs.job_graph import GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.conf import counted
from airflow_provider_ha.jobs.status import JobStatus


class SubmittedRunView(View):
    """The run of a request."""

    job_id: str
    run: int
    attempt: int
    created: bool


class JobSubmittedView(SubmittedRunView):
    """The run of a submission from a shell, and its state at the end of the wait.

    :param request_id: Id of the request: repeated, it finds the run again.
    :param state: State of the run.
    :param epoch: Epoch of its leader, or of the leader that wrote its result; ``null`` before the first leader.
    :param host: Where its leader runs; ``null`` without one.
    :param checkpoint: Number of the last checkpoint of an ended run; ``null`` without a checkpoint.
    :param reason: Why the run has ended; ``null`` while it is live.
    """

    request_id: str
    state: JobState
    epoch: int | None
    host: str | None
    checkpoint: int | None
    reason: str | None


def job_submitted(run: SubmittedRunView, request_id: str, snapshot: JobStatus) -> JobSubmittedView:
    """Return the view of a run, which is the newest one of *snapshot*."""
    view, leader = snapshot.run, snapshot.leader
    result = view.result if view is not None else None
    led = leader if leader is not None and leader.run == run.run and result is None else None
    newest = view.newest.submission.attempt if view is not None and view.newest is not None else run.attempt
    return JobSubmittedView.of(
        run,
        attempt=newest,
        request_id=request_id,
        state=snapshot.state,
        epoch=result.epoch if result is not None else led.epoch if led is not None else None,
        host=led.host if led is not None else None,
        checkpoint=result.checkpoint if result is not None else None,
        reason=result.reason if result is not None else None,
    )


class SiteConfView(View):
    """The ``spark-defaults.conf`` of this host.

    :param file: Its path.
    :param keys: The conf keys that it sets.
    """

    file: str
    keys: tuple[str, ...]


@shows(
    JobGraph,
    "job_id name application arguments modules py_files files jars archives packages target driver_memory options",
)
class _ShownGraph(View):
    """Fields of a job graph without secrets."""


class GraphView(_ShownGraph):
    """The job graph of a submission.

    :param arguments: Its arguments; values that look like secrets are ``***``.
    :param conf_keys: Keys of its Spark conf, those for OpenLineage included.
    :param env_keys: Names of its environment variables.
    :param site_conf: Spark's defaults on this host, which the job's own conf overrides; ``null`` if missing or
        unreadable.
    :param sha256: Digest of the graph: the name of its blob.
    :param recovered_by_a_new_leader: Whether a new leader would recover the job from it.
    """

    conf_keys: tuple[str, ...]
    env_keys: tuple[str, ...]
    site_conf: SiteConfView | None
    sha256: str
    recovered_by_a_new_leader: bool


def graph_view(
    graph: JobGraph, *, sha256: str, pointer: GraphPointer | None, site_conf: tuple[str, Sequence[str]] | None
) -> GraphView:
    """Return the graph of a run.

    :param pointer: Of the job; ``None`` when no new leader has to recover it.
    :param site_conf: The site's file, and the keys that it sets.
    """
    return GraphView.of(
        graph,
        arguments=hidden(graph.arguments),
        conf_keys=tuple(sorted({*graph.conf, *counted(graph.lineage, graph.conf)})),
        env_keys=tuple(sorted(graph.env)),
        site_conf=SiteConfView(file=site_conf[0], keys=tuple(site_conf[1])) if site_conf is not None else None,
        sha256=sha256,
        recovered_by_a_new_leader=pointer is not None,
    )
