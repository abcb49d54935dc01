"""``spark-ha job delete``: remove all data of a job, or all but its savepoints."""

from __future__ import annotations

from typing import Annotated

import typer

from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.confirmation import confirm
from airflow_provider_ha.cli.help_examples import examples
from airflow_provider_ha.cli.requests import who
from airflow_provider_ha.cli.session import AsJson, Force, JobId, answer, cluster
from airflow_provider_ha.control.job.job_owner import Acting
from airflow_provider_ha.views.deletion import DeletionView


DELETE_EXAMPLES = examples(
    "spark-ha job delete orders --dry-run",
    "spark-ha job delete orders --keep-savepoints --yes",
)


def delete(
    context: typer.Context,
    job_id: JobId,
    keep_savepoints: Annotated[
        bool,
        typer.Option("--keep-savepoints", help="Its savepoints stay: a later run of the same id starts from them."),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
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
        job = client.job(job_id, acting=Acting(force=force))
        planned = job.delete(requested_by=who(), keep_savepoints=keep_savepoints, dry_run=True)
        if dry_run:
            shown = DeletionView.of(planned)
        else:
            _confirm(DeletionView.of(planned), yes=yes, as_json=as_json)
            shown = DeletionView.of(job.delete(requested_by=who(), keep_savepoints=keep_savepoints))
    if as_json:
        console.print_json(shown)
    else:
        _print(shown)
    answer(yes=shown.state != "waiting")


def _confirm(planned: DeletionView, *, yes: bool, as_json: bool) -> None:
    if yes or planned.state == "deleted":
        return
    stays = f"job {planned.job_id!r} is not deleted"
    confirm(stays, "Delete it?", as_json=as_json, show=lambda: _print(planned))


def _print(shown: DeletionView) -> None:
    fields = shown.to_json()
    if not shown.waiting:
        del fields["waiting"]
    console.print_fields(fields)
    if shown.waiting:
        kept = " --keep-savepoints" if shown.keep_savepoints else ""
        again = f"`spark-ha job delete {shown.job_id}{kept}`"
        console.out.print(f"the job is gone; repeat {again} once nothing reads its files")
