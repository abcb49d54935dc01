"""``spark-ha delete``: a job, a checkpoint, a savepoint, or all data of a cluster.

Each command makes its plan first, prints it and asks. ``--dry-run`` ends there, ``--yes`` does not ask.
"""

from __future__ import annotations

import time
from typing import Annotated

import typer

from airflow_provider_ha.api.documents.checkpoints import CheckpointDeletedView, SavepointDeletedView
from airflow_provider_ha.api.documents.operation import ClusterDeletionView, DeletionView
from airflow_provider_ha.checkpoints.spark.places import is_s3
from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
from airflow_provider_ha.checkpoints.store.savepoints import savepoint_prefix
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_lookup import named_savepoint
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.completion import checkpoint_names
from airflow_provider_ha.cli.job_requests import who
from airflow_provider_ha.cli.savepoint_target import SavepointOf
from airflow_provider_ha.cli.session import (
    AsJson,
    DryRun,
    Force,
    JobId,
    Yes,
    answer,
    cluster,
    confirm,
    help_examples,
    reported,
)
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.cluster_removal import erase_cluster, plan_erase
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.removal.checkpoint_deletion import CheckpointRemoval


app = typer.Typer(help="Delete a job, a checkpoint, a savepoint, or all data of a cluster.", no_args_is_help=True)


@app.command(
    "job",
    epilog=help_examples("spark-ha delete job orders --dry-run", "spark-ha delete job orders --keep-savepoints --yes"),
)
def delete_job(
    context: typer.Context,
    job_id: JobId,
    keep_savepoints: Annotated[
        bool,
        typer.Option("--keep-savepoints", help="Its savepoints stay: a later run of the same id starts from them."),
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Delete an ended job: runs, checkpoints, working directories, logs of this host, and its savepoints.

    Refused while the job lives, while its files are read, and while it is moved. The job is removed completely or stays
    unchanged; after a crash the same command completes the rest. Its epoch stays, so that no process that was suspended
    in the meantime can write, and a new submission of the id has the next one.

    Exit 0: it is deleted, also when it was before; 1: it is refused, the job does not exist, or a reader still holds
    files of the job, which the same command removes later.
    """
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id, acting=CallerIdentity(force=force))
        shown = DeletionView.of(job.delete(requested_by=who(), keep_savepoints=keep_savepoints, dry_run=True))
        if not dry_run:
            confirm(
                f"job {job_id!r} is not deleted",
                "Delete it?",
                yes=yes or shown.state == "deleted",
                as_json=as_json,
                show=lambda: _print_job(shown),
            )
            shown = DeletionView.of(job.delete(requested_by=who(), keep_savepoints=keep_savepoints))
    console.show(shown, lambda: _print_job(shown), as_json=as_json)
    answer(yes=shown.state != "waiting")


def _print_job(shown: DeletionView) -> None:
    fields = shown.to_json()
    if not shown.waiting:
        del fields["waiting"]
    console.print_fields(fields)
    if shown.waiting:
        kept = " --keep-savepoints" if shown.keep_savepoints else ""
        again = f"`spark-ha delete job {shown.job_id}{kept}`"
        console.out.print(f"the job is deleted; repeat {again} once its files have no reader")


@app.command("checkpoint", epilog=help_examples("spark-ha delete checkpoint orders checkpoint-7 --yes"))
def delete_checkpoint(
    context: typer.Context,
    job_id: JobId,
    checkpoint: Annotated[
        str, typer.Argument(help="checkpoint-7, or 7.", metavar="CHECKPOINT", autocompletion=checkpoint_names)
    ],
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Delete a retained checkpoint, with the files that only it needs. Exit 1: it is refused, or does not exist.

    The command refuses the newest checkpoint, the newest proven one, one that a restore, drill or copy reads, and the
    start of a live run without a proven checkpoint. It reads the newest checkpoint completely, to prove it. If a
    pointer cannot be read, only the pointer is removed; the command prints where its bytes are kept.
    """
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id, acting=CallerIdentity(force=force))
        begin = time.monotonic()
        with console.phases(quiet=as_json) as tell:
            removal = job.plan_checkpoint_deletion(checkpoint, tell=lambda step: tell(step, time.monotonic() - begin))
        what = f"checkpoint {removal.number} of job {job_id}"
        if not dry_run:
            confirm(
                f"{what} is not deleted",
                f"Delete {what} ({_taken(removal)}) for good?",
                yes=yes,
                as_json=as_json,
                show=lambda: _print_unreadable(removal),
            )
            job.delete_checkpoint(removal, requested_by=who())
    if as_json:
        console.print_json(
            CheckpointDeletedView(
                job_id=job_id,
                checkpoint=removal.number,
                proven=removal.proven,
                kept=removal.kept,
                deleted=not dry_run,
            )
        )
        return
    if dry_run:
        _print_unreadable(removal)
        console.out.print(f"{what} ({_taken(removal)}) can be deleted; {removal.proven} is proven and stays")
        return
    console.out.print(f"{what} is deleted; {removal.proven} is proven and stays")
    if removal.kept:
        console.out.print(f"its pointer could not be read; its bytes are kept in {removal.kept}", soft_wrap=True)


def _taken(removal: CheckpointRemoval) -> str:
    if removal.created_at is None:
        return "it cannot be read"
    return f"taken {removal.created_at:%Y-%m-%d %H:%M} UTC, {console.cut_text(removal.cut)}"


def _print_unreadable(removal: CheckpointRemoval) -> None:
    if removal.unreadable is None:
        return
    console.print_unreadable([UnreadableRecord(f"checkpoint-{removal.number}", removal.unreadable.reason)])
    console.err.print(
        f"only its pointer is removed, and its bytes are kept in {removal.kept}; its files stay until the driver of "
        "the job collects unused files",
        soft_wrap=True,
    )


@app.command("savepoint", epilog=help_examples("spark-ha delete savepoint orders before-upgrade --yes"))
def delete_savepoint(
    context: typer.Context,
    target: Annotated[
        str, typer.Argument(help="Id of the job, or s3://bucket/prefix/NAME of a savepoint.", metavar="JOB|URI")
    ],
    savepoint_id: SavepointOf = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Delete a savepoint permanently. At a URI also the files that interrupted attempts left three days ago.

    Exit 1: it does not exist, or a live run or a reader needs it.
    """
    if is_s3(target):
        with reported(as_json=as_json):
            place = savepoint_prefix.SavepointPrefix(target)
            what, name, job_id = f"savepoint {target}", str(place), ""
            if dry_run:
                savepoint_prefix.open_savepoint(place)
            else:
                _confirm_savepoint(what, yes=yes, as_json=as_json)
                savepoint_prefix.dispose(place)
    else:
        if savepoint_id is None:
            raise typer.BadParameter("name the savepoint of the job", param_hint="SAVEPOINT")
        with cluster(context, as_json=as_json) as client:
            job = client.job(target, acting=CallerIdentity(force=force))
            found = named_savepoint(job.savepoints, savepoint_id)
            job.savepoints.load(found)
            label = f" ({found.label})" if found.label else ""
            what, name, job_id = f"savepoint {found.savepoint_id}{label} of job {target}", found.savepoint_id, target
            if not dry_run:
                _confirm_savepoint(what, yes=yes, as_json=as_json)
            job.delete_savepoint(name, requested_by=who(), dry_run=dry_run)
    if as_json:
        console.print_json(SavepointDeletedView(job_id=job_id, savepoint_id=name, deleted=not dry_run))
    else:
        console.out.print(f"{what} {'can be' if dry_run else 'is'} deleted", markup=False)


def _confirm_savepoint(what: str, *, yes: bool, as_json: bool) -> None:
    confirm(f"{what} is not deleted", f"Delete {what} for good?", yes=yes, as_json=as_json)


@app.command("cluster", epilog=help_examples("spark-ha delete cluster --dry-run", "spark-ha delete cluster --yes"))
def delete_cluster(context: typer.Context, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete the data of all jobs of the cluster: records, checkpoints, working directories, files.

    Refused while any job lives, is read or is moved, and while another process recovers jobs: first end
    `spark-ha cluster recover --watch` and pause the DAG recover_jobs. Submit no job during that time. Savepoints stay,
    with the files that a restore from them needs: they belong to their users. Epochs stay too, so that no process that
    was suspended in the meantime can write. Outputs of the jobs, and directories outside the cluster that they have
    claimed, are not touched.

    Each job is removed completely or stays unchanged. After a crash the same command completes the rest.

    Exit 0: it is deleted, also when it was before; 1: it is refused, or another process leads the cluster.
    """
    with cluster(context, as_json=as_json) as client:
        shown = ClusterDeletionView.of(plan_erase(client))
        if not dry_run:
            confirm(
                f"cluster {shown.cluster!r} is not deleted",
                "Delete it?",
                yes=yes,
                as_json=as_json,
                show=lambda: console.print_fields(shown.to_json()),
            )
            with ClusterLeader(client, by=who(), address="the deletion of the cluster") as leader:
                leader.lead(timeout=0)
                erase_cluster(client, leader.leadership, by=who())
            shown = shown.model_copy(update={"state": "deleted"})
    console.show(shown, as_json=as_json)
