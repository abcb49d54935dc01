"""``spark-ha leader``: the leader of a job."""

from __future__ import annotations

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.session import AsJson, JobId, answer, cluster


app = typer.Typer(help="Show the leader of a job.", no_args_is_help=True)


@app.command()
def show(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show the leader of a job. Exit 0: there is one; 1: the job has no leader; 2: unknown."""
    with cluster(context, as_json=as_json) as client:
        snapshot = client.job(job_id).snapshot()
    leader = snapshot.leader
    if as_json:
        console.print_json({"job_id": job_id, "epoch": snapshot.epoch, "leader": leader})
    elif leader is None:
        console.out.print(f"{job_id} has no leader; its last epoch was {snapshot.epoch}")
    else:
        console.print_fields({"job": job_id, **console.plain(leader)})
    answer(yes=leader is not None)
