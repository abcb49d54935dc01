"""``spark-ha leader`` and ``spark-ha job history``: the leader of a job, and its earlier leaders."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.api.documents.history import HistoryView, JobLeaderView, RunHistoryView, history_view
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.session import AsJson, JobId, answer, cluster
from airflow_provider_ha.jobs.run_history import RUNS, read_history
from airflow_provider_ha.names import check_job_id


def history(
    context: typer.Context,
    job_id: JobId,
    runs: Annotated[int, typer.Option(help="How many of the newest runs are shown.", min=1)] = RUNS,
    as_json: AsJson = False,
) -> None:
    """Show the runs of a job, newest first: the leader of each epoch, its begin and end, and the reason of the change.

    Times are UTC. Exit 1: the job does not exist.
    """
    with cluster(context, as_json=as_json) as client:
        shown = history_view(read_history(client.coordinator, client.paths.job(check_job_id(job_id)), runs=runs))
    if as_json:
        console.print_json(shown)
        return
    console.print_table(
        ("RUN", "ATTEMPT", "EPOCH", "HOST", "PID", "FROM", "TO", "END", "REASON"),
        _rows(shown),
        empty=f"job {job_id} has no run yet",
    )
    for run in shown.runs:
        if run.left_out:
            console.out.print(f"{run.left_out} earlier attempts of run {run.run} are not shown")
    if shown.left_out:
        console.out.print(f"{shown.left_out} earlier runs are not shown: --runs shows more")
    for broken in shown.unreadable:
        console.err.print(f"{console.escaped(broken.name)} cannot be read: {console.escaped(broken.reason)}")


def _rows(shown: HistoryView) -> list[list[object]]:
    return [row for run in shown.runs for row in _rows_of_run(run)]


def _rows_of_run(run: RunHistoryView) -> list[list[object]]:
    return [
        [
            run.run,
            epoch.attempt,
            epoch.epoch,
            epoch.host,
            epoch.pid,
            f"{epoch.led_at or epoch.submitted_at:%Y-%m-%d %H:%M:%S}",
            f"{epoch.ended_at:%Y-%m-%d %H:%M:%S}" if epoch.ended_at else None,
            epoch.end,
            epoch.reason,
        ]
        for epoch in run.epochs
    ]


app = typer.Typer(help="Show the leader of a job.", no_args_is_help=True)


@app.command()
def show(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Show the leader of a job. Exit 0: there is one; 1: the job has no leader; 2: unknown."""
    with cluster(context, as_json=as_json) as client:
        snapshot = client.job(job_id).snapshot()
    shown = JobLeaderView.of(snapshot)
    if as_json:
        console.print_json(shown)
    elif shown.leader is None:
        console.out.print(f"{job_id} has no leader; its last epoch was {shown.epoch}")
    else:
        console.print_fields({"job": job_id, **shown.leader.to_json()})
    answer(yes=shown.leader is not None)
