"""``spark-ha checkpoint``: list, show and verify checkpoints; verify works on any Spark checkpoint directory."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.directories.places import directory_at
from airflow_provider_ha.checkpoints.verification.verify import verify
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.session import AsJson, JobId, cluster, reported
from airflow_provider_ha.cli.verification_report import print_report
from airflow_provider_ha.errors import CheckpointMissingError


app = typer.Typer(help="List, show and verify checkpoints.", no_args_is_help=True)


class Depth(str, Enum):
    """How closely to look."""

    QUICK = "quick"
    FULL = "full"


@app.command("list")
def list_checkpoints(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the completed checkpoints of a job, newest first. Exit 1: the job has none."""
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        job.snapshot()  # an unknown job is an error, not an empty list
        listing = job.checkpoints.list()
    if as_json:
        console.print_json(
            {"job_id": job_id, "checkpoints": list(listing.pointers), "unreadable": list(listing.unreadable)}
        )
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
        console.print_json(checkpoint)
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


@app.command("verify")
def verify_directory(
    path: Annotated[
        str,
        typer.Argument(
            help="A Spark checkpoint directory (one query), managed or not: a path, or s3://bucket/prefix.",
            metavar="PATH",
        ),
    ],
    depth: Annotated[
        Depth, typer.Option(help="quick: names, sizes, logs and chains; full: every byte is decoded.")
    ] = Depth.QUICK,
    spark_version: Annotated[
        str | None, typer.Option(help="Judge for this release, X.Y.Z; default: the installed one.", metavar="X.Y.Z")
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            help="Output directory of the query's file sink, a path or s3://bucket/prefix: its log is judged together "
            "with the checkpoint.",
            metavar="PATH",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say whether Spark can start from a checkpoint directory as it stands, and which batches it could be restored to.

    Exit 0: it can start and goes on with the right state; 1: it cannot; 2: it could not be read or is not there.
    """
    with reported(as_json=as_json):
        output = None if sink is None else directory_at(sink)
        with console.progress("looking into the state") as tell:
            report = verify(directory_at(path), depth=depth.value, spark_version=spark_version, sink=output, tell=tell)
    if as_json:
        console.print_json(report.to_json())
    else:
        print_report(path, report)
    raise typer.Exit({True: Exit.YES, False: Exit.NO, None: Exit.UNKNOWN}[report.startable])
