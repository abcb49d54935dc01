"""``spark-ha recover``: recover the jobs of a cluster, once or continuously, without Airflow."""

from __future__ import annotations

import signal
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.history import LeadingLineView, ReconciledLineView, recovery_view
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import who
from airflow_provider_ha.cli.session import AsJson, cluster
from airflow_provider_ha.errors import LeadershipUnavailableError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome, ReconcileResult, recover_one
from airflow_provider_ha.names import check_job_id


_NEEDS_A_PERSON = frozenset(
    {
        ReconcileOutcome.QUARANTINED,
        ReconcileOutcome.IN_QUARANTINE,
        ReconcileOutcome.GIVEN_UP,
        ReconcileOutcome.DECISION_NEEDED,
    }
)
_SILENT = frozenset({ReconcileOutcome.LEFT_ALONE, ReconcileOutcome.PENDING})
_NOT_FINISHED = frozenset({ReconcileOutcome.NOT_KNOWN, ReconcileOutcome.PENDING})


def recover(
    context: typer.Context,
    job_id: Annotated[
        str | None,
        typer.Argument(metavar="[JOB]", help="Recover only this job, immediately; every lost job without it."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Wait until the cluster has no leader, then recover until the end.")
    ] = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for restart delays and for submissions on their way.", min=0)
    ] = 60.0,
    address: Annotated[
        str, typer.Option(help="Address shown to contenders that are refused; host and pid when left out.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Recover every job whose driver is lost, and clean up after ended jobs, as the cluster's leader.

    Exit 0: all is done (with --watch: it was stopped). 1: another process leads the cluster, or a job needs a person
    (it
    is in quarantine, or has used up its attempts). 2: the state of a job was still unknown after the wait, or the
    leadership was lost: start a fresh process.

    With a job: submit that one again if its driver is lost, without the delay of its restart strategy, and without
    leading the cluster. Exit 0: it is submitted, on its way, or already led. 1: it is in quarantine, or over.
    """
    if job_id is not None:
        if watch:
            raise typer.BadParameter("--watch is for every job of the cluster: leave the job out")
        with cluster(context, as_json=as_json) as client:
            _show(client, 0, [recover_one(client, check_job_id(job_id), by=who())], as_json=as_json)
        return
    with cluster(context, as_json=as_json) as client:
        leader = ClusterLeader(client, by=who(), address=address)
        code = _watch(leader, as_json=as_json) if watch else _once(client, leader, wait, as_json=as_json)
    raise typer.Exit(code)


def _once(client: HaClient, leader: ClusterLeader, wait: float, *, as_json: bool) -> Exit:
    with leader:
        leader.lead(timeout=0)
        epoch, attended = leader.epoch, leader.settle(wait)
        leader.collect_blobs()
    _show(client, epoch, attended, as_json=as_json)
    return _exit(attended)


def _show(client: HaClient, epoch: int, attended: Sequence[ReconcileResult], *, as_json: bool) -> None:
    if as_json:
        console.print_json(recovery_view(client.config.cluster_id, epoch, attended))
    else:
        console.print_table(
            ("JOB", "OUTCOME", "DETAIL"),
            ([each.job_id, each.outcome.value, each.detail] for each in attended),
            empty="no job is known in this cluster",
        )


def _watch(leader: ClusterLeader, *, as_json: bool) -> Exit:
    """Lead until SIGTERM or SIGINT: then release the lock immediately, instead of after a session timeout."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    said: dict[str, ReconcileResult] = {}

    def say(attended: ReconcileResult) -> None:
        """Print news about a job; unchanged and waiting jobs get no line."""
        before = said.get(attended.job_id)
        said[attended.job_id] = attended
        if attended.outcome not in _SILENT and (before is None or before.outcome is not attended.outcome):
            console.print_line(ReconciledLineView.of(attended, outcome=attended.outcome.value), as_json=as_json)

    with leader:
        try:
            leader.lead(timeout=None, stop=stop)
        except LeadershipUnavailableError:
            if stop.is_set():
                return Exit.YES
            raise
        console.print_line(LeadingLineView(epoch=leader.epoch), as_json=as_json)
        leader.watch(stop, say)
    return Exit.YES


def _exit(attended: Sequence[ReconcileResult]) -> Exit:
    if any(each.outcome in _NOT_FINISHED for each in attended):
        return Exit.UNKNOWN
    return Exit.NO if any(each.outcome in _NEEDS_A_PERSON for each in attended) else Exit.YES
