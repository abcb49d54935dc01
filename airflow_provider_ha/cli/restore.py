"""``spark-ha restore``: bring a job back from a checkpoint, a savepoint or a path, or show what that would do."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

import typer

from airflow_provider_ha.checkpoints.model import RestorePlan
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.option_group import takes
from airflow_provider_ha.cli.outcome import Exit, exit_code
from airflow_provider_ha.cli.plan_path import is_place
from airflow_provider_ha.cli.restore_options import Batch, JobOrPlace, accepted, place_plan, request_of
from airflow_provider_ha.cli.restore_report import print_plan
from airflow_provider_ha.cli.session import AsJson, Force, cluster, reported
from airflow_provider_ha.control.job.job_owner import Acting
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.control.restore.restore import refusal_of
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.views.plan import plan_view
from airflow_provider_ha.views.submitted import SubmittedView


@takes(RestoreRequest)
def plan(
    context: typer.Context,
    words: dict[str, Any],
    job_id: JobOrPlace,
    batch: Batch = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Show what a restore would do. Changes nothing.

    Of a place, what going on from there in the same output would do; it takes --batch, --sink, --kafka-bootstrap,
    --kafka-properties, --repeatable, --accept-unverified and --accept-verdict, needs no cluster, and knows only what
    lies there.

    Exits as `restore` with the same options would at this moment: 0: it would be carried out; 1: it would be refused,
    because of its verdict, a live run or an owner; 2: what a source or sink has is unknown.
    """
    _show(context, job_id, words, Acting(force=force), batch, as_json=as_json)


@takes(RestoreRequest)
def restore(
    context: typer.Context,
    words: dict[str, Any],
    job_id: JobOrPlace,
    batch: Batch = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="Id of the request: a repeated id finds the run again instead of making another."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Bring a job back from a checkpoint, a savepoint or directories that Spark wrote elsewhere, as a new run.

    Nothing of the source is changed. With --dry-run it is `checkpoint plan`, also of a place.

    Exit 0: the run is submitted, on this host; 1: it is refused, with the reason and the way out, and nothing was
    changed. This command does not follow the run: `spark-ha recover --watch`, or a DAG, does.
    """
    acting = Acting(force=force)
    if dry_run:
        _show(context, job_id, words, acting, batch, request_id, as_json=as_json)
    with reported(as_json=as_json):
        if is_place(job_id):
            raise ConfigurationError(
                f"{job_id!r} is a path; 'restore' expects a job id",
                next_step="`spark-ha restore JOB --start-from PATH` starts a job from it, `spark-ha savepoint restore` "
                "makes a directory to start from; --dry-run only shows what that would do",
            )
        request = request_of(words, job_id, batch, request_id)
    with cluster(context, as_json=as_json) as client:
        run = client.job(job_id, acting=acting).restore(request)
    if as_json:
        console.print_json(SubmittedView.of(run))
    else:
        said = "is submitted" if run.created else "was submitted by an earlier request of this id"
        console.out.print(f"run {run.run} of job {job_id} {said}; see `spark-ha job show {job_id}`")


def _show(
    context: typer.Context,
    target: str,
    words: dict[str, Any],
    acting: Acting,
    batch: int | None,
    request_id: str | None = None,
    *,
    as_json: bool,
) -> NoReturn:
    """Print the plan of a restore, and end as the restore itself would at this moment."""
    with reported(as_json=as_json):
        if is_place(target):
            made = place_plan(words, target, batch)
            _print(made, None, as_json=as_json)
            raise typer.Exit(_code(refusal_of(made, accepted(words))))
        request = request_of(words, target, batch, request_id)
    with cluster(context, as_json=as_json) as client:
        shown = client.job(request.job_id, acting=acting).dry_run(request)
    _print(shown.plan, shown.refusal, as_json=as_json)
    raise typer.Exit(_code(shown.refusal))


def _print(made: RestorePlan, refusal: HaError | None, *, as_json: bool) -> None:
    if as_json:
        console.print_json(plan_view(made, refusal))
    else:
        print_plan(made)
        if refusal is not None:
            console.print_error(refusal, as_json=False)


def _code(refusal: HaError | None) -> Exit:
    return Exit.YES if refusal is None else exit_code(refusal)
