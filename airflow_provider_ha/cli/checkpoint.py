"""``spark-ha checkpoint``: list, show and request the checkpoints of a job."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.api.documents.checkpoints import CheckpointView, checkpoint_list
from airflow_provider_ha.api.documents.history import history_view
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import checkpoint_numbers
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import RequestId, WaitSeconds, asking, await_operation, who
from airflow_provider_ha.cli.session import AsJson, Force, JobId, cluster
from airflow_provider_ha.errors import CheckpointMissingError
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.run_history import read_history


app = typer.Typer(help="List, show, request and verify checkpoints.", no_args_is_help=True)


@app.command("list")
def list_checkpoints(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the completed checkpoints of a job, newest first: duration, size of the state, and cut.

    Below the list: the number of completed and failed checkpoints, and of restarts from one. Exit 1: the job has none.
    """
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        snapshot = job.snapshot()  # an unknown job is an error, not an empty list
        listing = job.checkpoints.list()
        history = history_view(read_history(client.coordinator, client.paths.job(job_id)))
    shown = checkpoint_list(job_id, listing, snapshot=snapshot, history=history)
    if as_json:
        console.print_json(shown)
    else:
        console.print_table(
            ("CHECKPOINT", "TAKEN", "SECONDS", "BYTES", "WHY", "RUN", "EPOCH", "CUT"),
            (
                [
                    row.number,
                    row.created_at,
                    row.seconds,
                    row.state_size,
                    row.reason.value,
                    row.run,
                    row.epoch,
                    console.cut_text(row.cut),
                ]
                for row in shown.checkpoints
            ),
            empty=f"job {job_id} has no completed checkpoint",
        )
        console.out.print(f"{shown.counts}.")
        console.print_unreadable(listing.unreadable)
    raise typer.Exit(Exit.YES if listing.pointers else Exit.NO)


@app.command()
def show(
    context: typer.Context,
    job_id: JobId,
    number: Annotated[
        int, typer.Argument(help="Number of the checkpoint.", metavar="NUMBER", autocompletion=checkpoint_numbers)
    ],
    as_json: AsJson = False,
) -> None:
    """Show one checkpoint: its cut, its files, the state of the sinks. Exit 1: the checkpoint does not exist."""
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
        empty="the checkpoint has no query",
    )


@app.command()
def trigger(
    context: typer.Context,
    job_id: JobId,
    wait: WaitSeconds = 600.0,
    request_id: RequestId = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Take a checkpoint of a running job now, even before its interval is over. Exit 0: it is complete; 1: it failed.

    It counts like the periodic ones, and is removed when newer ones replace it: use `savepoint trigger` for a lasting
    copy. If no batch was committed since the newest checkpoint, that one is the answer, with `new` false.

    Ctrl-C ends the wait, not the checkpoint (exit 130): the same command with `--request-id` shows its outcome.
    """
    with asking(job_id, "checkpoint", request_id) as asked, cluster(context, as_json=as_json) as client:
        job, by = client.job(job_id, acting=CallerIdentity(force=force)), who()
        job.snapshot()  # an unknown job is refused with the list of known jobs
        operation = job.request_checkpoint(operation_id=asked.request_id, requested_by=by)
        await_operation(job, asked.made(operation, by=by), seconds=wait, as_json=as_json)
