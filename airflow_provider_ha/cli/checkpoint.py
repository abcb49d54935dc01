"""``spark-ha checkpoint``: list and show the checkpoints of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.session import AsJson, JobId, cluster
from airflow_provider_ha.errors import CheckpointMissingError
from airflow_provider_ha.views.checkpoints import CheckpointView, checkpoint_list


app = typer.Typer(help="List, show and verify checkpoints.", no_args_is_help=True)


@app.command("list")
def list_checkpoints(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the completed checkpoints of a job, newest first. Exit 1: the job has none."""
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        job.snapshot()  # an unknown job is an error, not an empty list
        listing = job.checkpoints.list()
    if as_json:
        console.print_json(checkpoint_list(job_id, listing))
    else:
        console.print_table(
            ("CHECKPOINT", "TAKEN", "WHY", "RUN", "EPOCH", "CUT"),
            (
                [p.number, p.created_at, p.reason.value, p.run, p.epoch, console.cut_text(p.cut)]
                for p in listing.pointers
            ),
            empty=f"job {job_id} has no completed checkpoint",
        )
        console.print_unreadable(listing.unreadable)
    raise typer.Exit(Exit.YES if listing.pointers else Exit.NO)


@app.command()
def show(
    context: typer.Context,
    job_id: JobId,
    number: Annotated[int, typer.Argument(help="Number of the checkpoint.", metavar="NUMBER")],
    as_json: AsJson = False,
) -> None:
    """Show one checkpoint: its cut, its files, what the sinks had. Exit 1: there is no such checkpoint."""
    with cluster(context, as_json=as_json) as client:
        store = client.job(job_id).checkpoints
        pointer = next((item for item in store.list().pointers if item.number == number), None)
        if pointer is None:
            raise CheckpointMissingError(
                f"job {job_id!r} has no checkpoint {number}", next_step=f"See `spark-ha checkpoint list {job_id}`"
            )
        checkpoint = store.load(pointer)
    if as_json:
        console.print_json(CheckpointView.of(checkpoint))
        return
    console.print_fields(
        {
            "checkpoint": checkpoint.number,
            "taken": checkpoint.created_at,
            "why": checkpoint.reason.value,
            "run": checkpoint.run,
            "epoch": checkpoint.epoch,
            "directory": checkpoint.pin or checkpoint.directory,
            "graph": checkpoint.graph,
            "spark": checkpoint.spark_version,
        }
    )
    console.print_table(
        ("QUERY", "BATCH", "FILES", "SINK", "SINK HAS"),
        (
            [name, query.batch, len(query.files), query.sink.path or query.sink.kind.value, query.sink.max_batch]
            for name, query in checkpoint.queries.items()
        ),
        empty="the checkpoint holds no query",
    )
