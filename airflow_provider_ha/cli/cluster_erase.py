"""``spark-ha cluster``: show the leader of a cluster, or erase all its data."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.confirmation import confirm
from airflow_provider_ha.cli.help_examples import examples
from airflow_provider_ha.cli.requests import who
from airflow_provider_ha.cli.session import AsJson, answer, cluster
from airflow_provider_ha.control.erase import erase_cluster, plan_erase
from airflow_provider_ha.control.reconcile.cluster_leader import ClusterLeader
from airflow_provider_ha.jobs.cluster import read_cluster_leader
from airflow_provider_ha.views.deletion import ErasureView
from airflow_provider_ha.views.leader import cluster_show_view


EXAMPLES = examples("spark-ha cluster erase --dry-run", "spark-ha cluster erase --yes")
app = typer.Typer(help="Show the leader of a cluster, or erase all its data.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Show the leader of a cluster, or erase all its data."""


@app.command()
def show(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the process that recovers the jobs of the cluster, and the time since its last inspection of a job.

    Exit 0: the cluster has a leader; 1: it has no leader; 2: unknown.
    """
    with cluster(context, as_json=as_json) as client:
        leader = read_cluster_leader(client.coordinator, client.paths)
        shown = cluster_show_view(client.config.cluster_id, leader, now=client.clock.now())
    if as_json:
        console.print_json(shown)
    else:
        console.print_fields(shown.to_json())
    answer(yes=leader is not None)


@app.command(epilog=EXAMPLES)
def erase(
    context: typer.Context,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase the data of all jobs of the cluster: records, checkpoints, working directories, files.

    Refused while any job lives, is read or is moved, and while another process recovers jobs: first end
    `spark-ha recover --watch` and pause the DAG recover_jobs. Submit no job during that time. Savepoints stay, with
    the files that a restore from them needs: they belong to their users. Epochs stay too, so that no process that was
    suspended in the meantime can write. Outputs of the jobs, and directories outside the cluster that they have
    claimed, are not touched.

    Each job is removed completely or stays unchanged. After a crash the same command completes the rest.

    Exit 0: it is erased, also when it was before; 1: it is refused, or another process leads the cluster.
    """
    with cluster(context, as_json=as_json) as client:
        shown = ErasureView.of(plan_erase(client))
        if not dry_run:
            _confirm(shown, yes=yes, as_json=as_json)
            with ClusterLeader(client, by=who(), address="the erase of the cluster") as leader:
                leader.lead(timeout=0)
                erase_cluster(client, leader.leadership, by=who())
            shown = shown.model_copy(update={"state": "erased"})
    if as_json:
        console.print_json(shown)
    else:
        console.print_fields(shown.to_json())


def _confirm(planned: ErasureView, *, yes: bool, as_json: bool) -> None:
    if yes:
        return
    stays = f"cluster {planned.cluster!r} is not erased"
    confirm(stays, "Erase it?", as_json=as_json, show=lambda: console.print_fields(planned.to_json()))
