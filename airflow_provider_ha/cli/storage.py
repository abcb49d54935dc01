"""``spark-ha storage``: function and cost of storage, and removal of unneeded objects."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.api.documents.stores import (
    BlobPruneView,
    CollectionView,
    JobCollectionView,
    JobPruneView,
    OrphansView,
    ProblemView,
    PruneView,
    StorageCheckView,
    blob_prune_view,
    job_collection_view,
)
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanedBlobs, delete_orphans, find_orphans
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.session import AsJson, cluster
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError, HaError, UnknownJobError
from airflow_provider_ha.jobs.removal.cleanup import collect_job, prune_job, require_files
from airflow_provider_ha.storage.object_store import ObjectInfo


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


@app.command()
def orphans(
    context: typer.Context,
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; without it they are only shown.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show unnamed blobs older than 24 hours: no run, job graph, checkpoint or savepoint refers to them.

    With --delete they are removed, unless an object that may name blobs could not be read. Exit 2: this happened.
    """
    with cluster(context, as_json=as_json) as client:
        paths = ClusterPaths(client.config.root, client.config.cluster_id)
        found = find_orphans(client.coordinator, paths, client.store, client.area, clock=client.clock)
        deleted = delete_orphans(client.store, found) if delete and not found.problems else []
    if as_json:
        console.print_json(OrphansView.of(found, orphans=found.garbage, deleted=[info.key for info in deleted]))
    else:
        _print(found, deleted, delete=delete)
    if found.problems:
        raise typer.Exit(Exit.UNKNOWN)


def _print(found: OrphanedBlobs, deleted: list[ObjectInfo], *, delete: bool) -> None:
    gone = {info.key for info in deleted}
    console.print_table(
        ("BLOB", "BYTES", "LAST USED", "DELETED"),
        ([info.key, info.size, info.modified, "yes" if info.key in gone else "no"] for info in found.garbage),
        empty="no blob is needless",
    )
    console.out.print(f"{found.blobs} blobs: {found.named} named, {found.young} younger than 24 hours")
    for problem in found.problems:
        console.err.print(f"could not be read: {problem.where}: {problem.reason}", markup=False)
    if delete and found.problems:
        console.err.print("no blob was deleted, because unreadable objects may name blobs")


@app.command()
def collect(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Argument(help="Ids of jobs; by default every job.", metavar="[JOB]...")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the objects to remove.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove files of working directories on S3 or HDFS that no batch and no checkpoint needs.

    Drivers remove them too, in small steps.

    An unreadable object stops the collection of its job, and no file of that job is removed. Exit 2: this happened.
    """
    with cluster(context, as_json=as_json) as client:
        rows = [_collect(client, job_id, dry_run=dry_run) for job_id in jobs or client.list_jobs()]
    view = CollectionView(dry_run=dry_run, jobs=tuple(rows))
    if as_json:
        console.print_json(view)
    else:
        _print_collection(view)
    if any(row.problem for row in rows):
        raise typer.Exit(Exit.UNKNOWN)


def _collect(client: HaClient, job_id: str, *, dry_run: bool) -> JobCollectionView:
    with console.progress(job_id) as show:
        job = client.context(job_id)
        require_files(job)
        try:
            done = collect_job(job, dry_run=dry_run, progress=lambda _, done, total: show(done, total))
        except (ConfigurationError, UnknownJobError):
            raise
        except HaError as error:
            return JobCollectionView(job_id=job_id, problem=str(error))
    return job_collection_view(job_id, done.search, len(done.removed))


@app.command()
def prune(
    context: typer.Context,
    jobs: Annotated[
        list[str] | None, typer.Argument(help="Ids of jobs; by default every job.", metavar="[JOB]...")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the objects to remove.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove the records of old runs, according to retained_runs and retained_days of the connection.

    Drivers remove them too, in small steps, and so does the leader of the cluster for jobs without a driver. A job with
    a
    live run is left to its driver.

    Then unnamed blobs of the cluster older than 24 hours are removed: job graphs and applications of removed runs. A
    dry
    run does not count those of existing runs.

    An unreadable object stops the removal for its job, and the removal of blobs. Exit 2: this happened.
    """
    with cluster(context, as_json=as_json) as client:
        rows = [_prune(client, job_id, dry_run=dry_run) for job_id in jobs or client.list_jobs()]
        kept = client.config.retention
        blobs = _prune_blobs(client, dry_run=dry_run)
    view = PruneView(retained_runs=kept.runs, retained_days=kept.days, dry_run=dry_run, jobs=tuple(rows), blobs=blobs)
    if as_json:
        console.print_json(view)
    else:
        _print_pruned(view)
    if blobs.problems or any(row.problem for row in rows):
        raise typer.Exit(Exit.UNKNOWN)


def _prune(client: HaClient, job_id: str, *, dry_run: bool) -> JobPruneView:
    with console.progress(job_id) as show:
        try:
            found = prune_job(client.context(job_id), dry_run=dry_run, progress=lambda done: show(done, 0))
        except (ConfigurationError, UnknownJobError):
            raise
        except HaError as error:
            return JobPruneView(job_id=job_id, problem=str(error))
    return JobPruneView.of(found, job_id=job_id, expendable=len(found.expendable))


def _prune_blobs(client: HaClient, *, dry_run: bool) -> BlobPruneView:
    try:
        found = find_orphans(client.coordinator, client.paths, client.store, client.area, clock=client.clock)
        removed = [] if dry_run or found.problems else delete_orphans(client.store, found)
    except HaError as error:
        return BlobPruneView(problems=(ProblemView(where=client.store.uri, reason=str(error)),))
    return blob_prune_view(found, len(removed))


def _print_pruned(view: PruneView) -> None:
    console.print_table(
        ("JOB", "RUNS", "EXPENDABLE", "SUBMISSIONS", "TASKS", "OUTPUTS", "LEASES", "REMOVED"),
        (
            [row.job_id, row.runs, row.expendable, row.submissions, row.tasks, row.outputs, row.leases, row.removed]
            for row in view.jobs
            if not row.problem
        ),
        empty="no job was inspected",
    )
    for row in view.jobs:
        if row.problem:
            console.err.print(f"{row.job_id}: {row.problem}", markup=False)
        if row.left_to and not view.dry_run:
            console.err.print(f"{row.job_id}: left to {row.left_to}", markup=False)
        for run, reason in row.kept.items():
            console.err.print(f"{row.job_id}: run {run} stays: {reason}", markup=False)
    blobs = view.blobs
    console.out.print(f"blobs that nothing names: {blobs.needless} of {blobs.bytes} bytes, {blobs.removed} removed")
    for problem in blobs.problems:
        console.err.print(f"no blob is removed: {problem.where}: {problem.reason}", markup=False)
    console.err.print(
        f"the newest {view.retained_runs} runs of a job are kept, and each run for {view.retained_days:g} days"
    )
    if view.dry_run:
        console.err.print("this was a dry run, so no file was removed")


def _print_collection(view: CollectionView) -> None:
    console.print_table(
        ("JOB", "DIRECTORIES", "FILES", "BYTES", "NEEDLESS", "NEEDLESS BYTES", "REMOVED"),
        (
            [row.job_id, row.directories, row.files, row.bytes, row.needless, row.needless_bytes, row.removed]
            for row in view.jobs
            if not row.problem
        ),
        empty="no job was inspected",
    )
    for row in view.jobs:
        if row.problem:
            console.err.print(f"{row.job_id}: {row.problem}", markup=False)
    if view.dry_run:
        console.err.print("this was a dry run, so no file was removed")
