"""``spark-ha savepoint``: the savepoints of a job, and savepoints as directories and archives."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from airflow_provider_ha.checkpoints.connectors.places import is_s3
from airflow_provider_ha.checkpoints.retention.collector import MANY
from airflow_provider_ha.checkpoints.savepoints.named import named_savepoint
from airflow_provider_ha.cli import console, drill, savepoint_files, savepoint_import, savepoint_s3
from airflow_provider_ha.cli.asked import RequestId, asking
from airflow_provider_ha.cli.completion import savepoint_ids
from airflow_provider_ha.cli.confirmation import confirm
from airflow_provider_ha.cli.requests import WaitSeconds, await_operation, who
from airflow_provider_ha.cli.savepoint_target import SAVEPOINT_HELP, SavepointOf
from airflow_provider_ha.cli.session import AsJson, Force, JobId, cluster
from airflow_provider_ha.control.job.job_owner import Acting
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.views.savepoints import DisposedView, SavepointView, savepoint_list


app = typer.Typer(
    help=(
        "Savepoints of managed jobs (list, show, trigger, dispose, drill, drills), and savepoints as directories and "
        "archives, which need neither ZooKeeper nor Airflow (create, verify, export, import, restore; on S3 also "
        "dispose and sweep). A word with a slash is a path, a word without one is a job id."
    ),
    no_args_is_help=True,
)
app.command()(savepoint_files.create)
app.command()(savepoint_files.verify)
app.command()(savepoint_files.export)
app.command("import")(savepoint_import.import_archive)
app.command()(savepoint_files.restore)
app.command()(savepoint_s3.sweep)
app.command("drill")(drill.run_drill)
app.command("drills")(drill.list_drills)

SavepointId = Annotated[str, typer.Argument(help=SAVEPOINT_HELP, metavar="SAVEPOINT", autocompletion=savepoint_ids)]


@app.command("list")
def list_savepoints(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the savepoints of a job, newest first."""
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id)
        listing = job.savepoints.list()
        if not listing.pointers and not listing.unreadable:  # a deleted job may have kept some
            job.snapshot()  # an unknown job is an error, not an empty list
        recorded = job.checkpoints.recorded() if listing.pointers else 0
    if as_json:
        console.print_json(savepoint_list(job_id, listing))
        return
    console.print_table(
        ("SAVEPOINT", "TAKEN", "CUT", "BYTES", "SCHEDULE", "CLAIMED BY", "LABEL"),
        (
            [
                point.savepoint_id,
                point.created_at,
                console.cut_text(point.cut),
                point.size,
                point.schedule,
                f"run {point.claimed_by}" if point.claimed_by else None,
                point.label,
            ]
            for point in listing.pointers
        ),
        empty=f"job {job_id} has no savepoint",
    )
    if recorded > MANY:
        oldest = min(listing.pointers, key=lambda pointer: pointer.created_at)
        console.err.print(
            f"warning: the records of {recorded} checkpoints are kept for exact replay, by savepoint "
            f"{oldest.savepoint_id} above all: dispose of savepoints that you no longer need"
        )
    console.print_unreadable(listing.unreadable)


@app.command()
def show(context: typer.Context, job_id: JobId, savepoint_id: SavepointId, as_json: AsJson = False) -> None:
    """Show one savepoint with its cut and its files. Exit 1: the savepoint does not exist."""
    with cluster(context, as_json=as_json) as client:
        store = client.job(job_id).savepoints
        savepoint = store.load(named_savepoint(store, savepoint_id))
    if as_json:
        console.print_json(SavepointView.of(savepoint))
        return
    console.print_fields(
        {
            "savepoint": savepoint.savepoint_id,
            "job": savepoint.job_id,
            "taken": savepoint.created_at,
            "epoch": savepoint.epoch,
            "cut": console.cut_text({name: query.batch for name, query in savepoint.queries.items()}),
            "files": len(savepoint.files),
            "bytes": sum(file.size for file in savepoint.files.values()),
            "shares inodes": savepoint.shares_inodes,
            "digested": savepoint.digested,
            "schedule": savepoint.schedule,
            "label": savepoint.label,
        }
    )


@app.command()
def trigger(
    context: typer.Context,
    job_id: JobId,
    label: Annotated[str, typer.Option(help="A word for people, for example the ticket.")] = "",
    schedule: Annotated[
        str | None, typer.Option(help="Schedule that the savepoint belongs to, and that may remove its own.")
    ] = None,
    retain: Annotated[
        int | None, typer.Option(min=1, help="With --schedule: how many of its savepoints are kept.", metavar="COUNT")
    ] = None,
    retain_days: Annotated[
        float | None, typer.Option(help="With --schedule: how old they may become; the newest stays.", metavar="DAYS")
    ] = None,
    wait: WaitSeconds = 600.0,
    request_id: RequestId = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Take a savepoint of a job, even while it runs. Exit 0: it is complete and verified; 1: it failed.

    For an ended job no driver is needed: this command copies its newest proven checkpoint, which `--wait` does not
    shorten. With a schedule whose newest savepoint already has that checkpoint, that savepoint is the answer.

    Only `savepoint dispose` removes a savepoint without a schedule.

    Ctrl-C ends the wait, not the savepoint of a driver (exit 130): the same command with `--request-id` shows its
    outcome. A copy that this command makes itself ends with it, and its files are removed.
    """
    with asking(job_id, "savepoint", request_id) as asked, cluster(context, as_json=as_json) as client:
        if retain is not None and schedule is None:
            raise ConfigurationError(
                "--retain requires --schedule: only savepoints of a schedule are ever removed",
                next_step="Name the schedule that the savepoint belongs to",
            )
        job, by = client.job(job_id, acting=Acting(force=force)), who()
        begin = time.monotonic()
        with console.phases(quiet=as_json) as tell:
            operation = job.take_savepoint(
                operation_id=asked.request_id,
                requested_by=by,
                schedule=schedule,
                retain=retain,
                retain_days=retain_days,
                label=label,
                tell=lambda step: tell(step, time.monotonic() - begin),
            )
        await_operation(job, asked.made(operation, by=by), seconds=wait, as_json=as_json)


@app.command()
def dispose(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="Id of the job, or s3://bucket/prefix/NAME of a savepoint.", metavar="JOB|URI")
    ],
    savepoint_id: SavepointOf = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    grace_hours: savepoint_s3.GraceHours = savepoint_s3.GRACE_HOURS,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Remove a savepoint permanently. On S3 the files that other savepoints use stay.

    Exit 1: it does not exist, or a live run or a reader needs it. Exit 64: without --yes there is no terminal to ask
    at.
    """
    if is_s3(target):
        savepoint_s3.dispose(target, yes=yes, grace_hours=grace_hours, as_json=as_json)
        return
    if savepoint_id is None:
        raise typer.BadParameter("name the savepoint of the job", param_hint="SAVEPOINT")
    with cluster(context, as_json=as_json) as client:
        job = client.job(target, acting=Acting(force=force))
        found = named_savepoint(job.savepoints, savepoint_id)
        savepoint_id = found.savepoint_id
        job.savepoints.load(found)
        if not yes:
            label = f" ({found.label})" if found.label else ""
            what = f"savepoint {savepoint_id}{label} of job {target}"
            confirm(f"{what} is not removed", f"Remove {what} for good?", as_json=as_json)
        job.dispose_savepoint(savepoint_id, requested_by=who())
    if as_json:
        console.print_json(DisposedView(job_id=target, savepoint_id=savepoint_id))
    else:
        console.out.print(f"savepoint {savepoint_id} of job {target} is removed")
