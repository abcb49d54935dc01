"""``spark-ha savepoint`` and ``drill``: savepoints of a job, and rehearsals of its restore."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.checkpoints import SavepointView, savepoint_list
from airflow_provider_ha.api.documents.history import DrillView, drill_list
from airflow_provider_ha.checkpoints.store.payload_collector import MANY
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import named_savepoint
from airflow_provider_ha.cli import console, savepoint_files
from airflow_provider_ha.cli.completion import savepoint_ids
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import RequestId, WaitSeconds, asking, await_operation, operation_id, who
from airflow_provider_ha.cli.savepoint_target import SAVEPOINT_HELP
from airflow_provider_ha.cli.session import AsJson, Force, JobId, cluster
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.verification.job_drill import DrillLimits, DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import ProofOptions
from airflow_provider_ha.jobs.verification.spark_proof import DEFAULT_DEADLINE, DEFAULT_HEAP
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillStore, DrillVerdict


_ANSWER = {DrillVerdict.PASSED: Exit.YES, DrillVerdict.FAILED: Exit.NO, DrillVerdict.UNKNOWN: Exit.UNKNOWN}


def run_drill(
    context: typer.Context,
    job_id: JobId,
    start_from: Annotated[
        str, typer.Option(help="savepoint (the newest), latest, checkpoint-<n>, savepoint-<id> or 'before <time>'.")
    ] = "savepoint",
    max_age: Annotated[
        float | None, typer.Option(help="Fail when it is older than this many seconds.", metavar="SECONDS")
    ] = None,
    max_duration: Annotated[
        float | None, typer.Option(help="Fail when all steps together take longer.", metavar="SECONDS")
    ] = None,
    load_only: Annotated[
        bool, typer.Option("--load-only", help="Load the state, and do not start the job's application.")
    ] = False,
    heap: Annotated[str, typer.Option(help="Memory of Spark's JVM.", metavar="SIZE")] = DEFAULT_HEAP,
    deadline: Annotated[
        float, typer.Option(help="Seconds that Spark may take for each query.", metavar="SECONDS")
    ] = DEFAULT_DEADLINE,
    as_json: AsJson = False,
) -> None:
    """Rehearse a restore on this host: verify, copy, load and start the newest savepoint, with no sink.

    The job is not affected. Each phase prints a line on stderr when it begins.

    Exit 0: Spark continues from it, within the limits; 1: it does not; 2: it gave no answer.
    """
    with cluster(context, as_json=as_json) as client:
        request = DrillRequest(
            drill_id=operation_id("drill"),
            requested_by=who(),
            start_from=start_from,
            limits=DrillLimits(max_age=max_age, max_duration=max_duration),
            options=ProofOptions(start=not load_only, heap=heap, deadline=deadline),
        )
        done = drill(client.context(job_id), request, lambda line: console.err.print(line, markup=False))
    console.show(DrillView.of(done), lambda: _print(done), as_json=as_json)
    raise typer.Exit(_ANSWER[done.verdict])


def list_drills(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """List the restore drills of a job, newest first. Exit 0 for any verdict."""
    with cluster(context, as_json=as_json) as client:
        job = client.context(job_id)
        job.snapshot()  # an unknown job is an error, not an empty list
        drills, unreadable = DrillStore(job.store, job.keys).list()
    if as_json:
        console.print_json(drill_list(job_id, drills, unreadable))
        return
    console.print_table(
        ("BEGUN", "SOURCE", "VERDICT", "AGE", "TOOK", "BYTES", "SPARK", "REASON"),
        (
            [
                f"{one.started_at:%Y-%m-%d %H:%M}",
                one.source,
                one.verdict.value,
                f"{one.age_seconds:.0f} s",
                f"{one.total_seconds:.1f} s",
                one.size,
                one.spark_version,
                "; ".join(one.reasons) or None,
            ]
            for one in drills
        ),
        empty=f"the restore of job {job_id} was never drilled",
    )
    for broken in unreadable:
        console.err.print(f"unreadable {broken.name}: {broken.reason}", markup=False)


def _print(done: Drill) -> None:
    console.print_fields(
        {
            "verdict": done.verdict.value,
            "source": done.source,
            "age": f"{done.age_seconds:.0f} s",
            "bytes": done.size,
            "cut": console.cut_text(done.cut),
            "spark": done.spark_version,
        }
    )
    for reason in done.reasons:
        console.out.print(f"- {reason}", markup=False)
    console.print_table(("STEP", "SECONDS"), [*done.seconds.items(), ("total", done.total_seconds)], empty="")
    console.print_table(
        ("QUERY", "BATCH", "LOADED", "STARTED", "PARTITIONS", "ROWS"), _queries(done), empty="Spark did not check it"
    )


def _queries(done: Drill) -> Iterator[tuple[object, ...]]:
    for name, query in done.queries.items():
        yield name, query.batch, query.loaded, query.started, query.partitions, query.state_rows


app = typer.Typer(
    help=(
        "Savepoints of managed jobs (list, show, trigger), and savepoints as directories and archives, which need "
        "neither ZooKeeper nor Airflow (create, verify, export, import, restore). A word with a slash is a path, a "
        "word without one is a job id."
    ),
    no_args_is_help=True,
)
app.command()(savepoint_files.create)
app.command()(savepoint_files.verify)
app.command()(savepoint_files.export)
app.command("import")(savepoint_files.import_archive)
app.command()(savepoint_files.restore)
drill_app = typer.Typer(help="Rehearse the restore of a job, and list earlier rehearsals.", no_args_is_help=True)
drill_app.command("run")(run_drill)
drill_app.command("list")(list_drills)

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
            f"{oldest.savepoint_id} above all: delete savepoints that you no longer need"
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

    Only `delete savepoint` removes a savepoint without a schedule.

    Ctrl-C ends the wait, not the savepoint of a driver (exit 130): the same command with `--request-id` shows its
    outcome. A copy that this command makes itself ends with it, and its files are removed.
    """
    with asking(job_id, "savepoint", request_id) as asked, cluster(context, as_json=as_json) as client:
        if retain is not None and schedule is None:
            raise ConfigurationError(
                "--retain requires --schedule: only savepoints of a schedule are ever removed",
                next_step="Name the schedule that the savepoint belongs to",
            )
        job, by = client.job(job_id, acting=CallerIdentity(force=force)), who()
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
