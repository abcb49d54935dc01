"""``spark-ha storage``: function and cost of storage, and removal of unneeded records, files and blobs."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.api.documents.stores import (
    JobCollectionView,
    JobPruneView,
    OrphansView,
    ProblemView,
    StorageCheckView,
    StorageCleanView,
    job_collection_view,
)
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.store.orphaned_blobs import delete_orphans, find_orphans
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.session import AsJson, DryRun, Yes, cluster, confirm, help_examples
from airflow_provider_ha.errors import ConfigurationError, HaError, UnknownJobError
from airflow_provider_ha.jobs.removal.cleanup import collect_job, needs_collection, prune_job


_SHOWN = 20  # blobs in a table; --json has all
app = typer.Typer(help="Check and clean up storage.", no_args_is_help=True)


@app.command()
def check(context: typer.Context, as_json: AsJson = False) -> None:
    """Write, read and remove a probe in storage and in the work root, and report features that work but are slow.

    Exit 0: they work, at any cost; 2: they do not.
    """
    with cluster(context, as_json=as_json) as client:
        notes = client.check()
        config = client.config
    if as_json:
        console.print_json(StorageCheckView(storage_root=config.storage_root, work_root=config.work_root, notes=notes))
        return
    console.out.print(f"ZooKeeper {config.zookeeper} answers and {config.storage_root} is writable", markup=False)
    for note in notes:
        console.err.print(f"note: {note}", markup=False)


@app.command(
    epilog=help_examples("spark-ha storage clean --dry-run", "spark-ha storage clean --yes"),
)
def clean(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Argument(help="Ids of jobs; by default every job.", metavar="[JOB]...")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Remove the records of old runs, files that no batch and no checkpoint needs, and blobs that no record names.

    Records of a run go according to retained_runs and retained_days of the connection. Drivers remove them too, in
    small steps, and so does the leader of the cluster for jobs without a driver. A job with a live run is left to its
    driver.

    Files go from working directories on S3 and HDFS; elsewhere Spark removes them itself. Drivers remove them too.

    Blobs of the cluster that no run, job graph, checkpoint or savepoint names go after 24 hours: job graphs and
    applications of removed runs. A dry run does not count those of existing runs.

    An unreadable object stops the removal for its job, and the removal of blobs. Exit 2: this happened.
    """
    with cluster(context, as_json=as_json) as client:
        names = jobs or client.list_jobs()
        if dry_run or not yes:
            view = _clean(client, names, dry_run=True)
        if not dry_run:
            confirm(
                "storage is unchanged", "Remove these objects?", yes=yes, as_json=as_json, show=lambda: _print(view)
            )
            view = _clean(client, names, dry_run=False)
    if as_json:
        console.print_json(view)
    else:
        _print(view)
        if dry_run:
            console.err.print("this was a dry run, so no object was removed")
    if view.blobs.problems or _problems(view):
        raise typer.Exit(Exit.UNKNOWN)


def _clean(client: HaClient, names: list[str], *, dry_run: bool) -> StorageCleanView:
    """Remove, or only count with *dry_run*: records first, because files and blobs may then be unneeded."""
    kept = client.config.retention
    return StorageCleanView(
        retained_runs=kept.runs,
        retained_days=kept.days,
        dry_run=dry_run,
        jobs=tuple(_records(client, name, dry_run=dry_run) for name in names),
        files=tuple(_files(client, name, dry_run=dry_run) for name in names if needs_collection(client.context(name))),
        blobs=_blobs(client, dry_run=dry_run),
    )


def _records(client: HaClient, job_id: str, *, dry_run: bool) -> JobPruneView:
    with console.progress(job_id) as show:
        try:
            found = prune_job(client.context(job_id), dry_run=dry_run, progress=lambda done: show(done, 0))
        except (ConfigurationError, UnknownJobError):
            raise
        except HaError as error:
            return JobPruneView(job_id=job_id, problem=str(error))
    return JobPruneView.of(found, job_id=job_id, expendable=len(found.expendable))


def _files(client: HaClient, job_id: str, *, dry_run: bool) -> JobCollectionView:
    with console.progress(job_id) as show:
        try:
            done = collect_job(
                client.context(job_id), dry_run=dry_run, progress=lambda _, done, total: show(done, total)
            )
        except (ConfigurationError, UnknownJobError):
            raise
        except HaError as error:
            return JobCollectionView(job_id=job_id, problem=str(error))
    return job_collection_view(job_id, done.search, len(done.removed))


def _blobs(client: HaClient, *, dry_run: bool) -> OrphansView:
    try:
        found = find_orphans(client.coordinator, client.paths, client.store, client.area, clock=client.clock)
        deleted = [] if dry_run or found.problems else delete_orphans(client.store, found)
    except HaError as error:
        return OrphansView(problems=(ProblemView(where=client.store.uri, reason=str(error)),))
    return OrphansView.of(found, orphans=found.garbage, deleted=[info.key for info in deleted])


def _print(view: StorageCleanView) -> None:
    console.print_table(
        ("JOB", "RUNS", "EXPENDABLE", "SUBMISSIONS", "TASKS", "OUTPUTS", "LEASES", "REMOVED"),
        (
            [row.job_id, row.runs, row.expendable, row.submissions, row.tasks, row.outputs, row.leases, row.removed]
            for row in view.jobs
            if not row.problem
        ),
        empty="no job was inspected",
    )
    if view.files:
        console.print_table(
            ("JOB", "DIRECTORIES", "FILES", "BYTES", "NEEDLESS", "NEEDLESS BYTES", "REMOVED"),
            (
                [row.job_id, row.directories, row.files, row.bytes, row.needless, row.needless_bytes, row.removed]
                for row in view.files
                if not row.problem
            ),
            empty="no working directory was inspected",
        )
    _print_blobs(view.blobs)
    for job_id, problem in _problems(view):
        console.err.print(f"{job_id}: {problem}", markup=False)
    for job in view.jobs:
        if job.left_to:
            console.err.print(f"{job.job_id}: left to {job.left_to}", markup=False)
        for run, reason in job.kept.items():
            console.err.print(f"{job.job_id}: run {run} stays: {reason}", markup=False)
    console.err.print(
        f"the newest {view.retained_runs} runs of a job are kept, and each run for {view.retained_days:g} days"
    )


def _problems(view: StorageCleanView) -> list[tuple[str, str]]:
    """Return job and problem, for each job whose records or files could not be cleaned."""
    found = [(row.job_id, row.problem) for row in view.jobs] + [(row.job_id, row.problem) for row in view.files]
    return [(job_id, problem) for job_id, problem in found if problem]


def _print_blobs(blobs: OrphansView) -> None:
    gone = set(blobs.deleted)
    shown = [blob.to_json() for blob in blobs.orphans[:_SHOWN]]
    console.print_table(
        ("BLOB", "BYTES", "LAST USED", "REMOVED"),
        ([blob["key"], blob["size"], blob["modified"], "yes" if blob["key"] in gone else "no"] for blob in shown),
        empty="no blob is unused",
    )
    if len(blobs.orphans) > len(shown):
        console.out.print(f"... and {len(blobs.orphans) - len(shown)} more; --json lists all")
    console.out.print(f"{blobs.blobs} blobs: {blobs.named} named, {blobs.young} younger than 24 hours")
    for problem in blobs.problems:
        console.err.print(f"no blob is removed: {problem.where} could not be read: {problem.reason}", markup=False)
