"""``spark-ha leader``: the leader of a job."""

from __future__ import annotations

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.session import AsJson, JobId, answer, cluster
from airflow_provider_ha.views.leader import leader_view


app = typer.Typer(help="Show the leader of a job.", no_args_is_help=True)


@app.command()
def show(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show the leader of a job. Exit 0: there is one; 1: the job has no leader; 2: unknown."""
    with cluster(context, as_json=as_json) as client:
        snapshot = client.job(job_id).snapshot()
    shown = leader_view(snapshot)
    if as_json:
        console.print_json(shown)
    elif shown.leader is None:
        console.out.print(f"{job_id} has no leader; its last epoch was {shown.epoch}")
    else:
        console.print_fields({"job": job_id, **shown.leader.to_json()})
    answer(yes=shown.leader is not None)
