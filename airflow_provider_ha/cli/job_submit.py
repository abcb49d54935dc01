"""``spark-ha job submit``: run a script as a highly available job, from a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from airflow_provider_ha.api.documents.submission import JobSubmittedView, SubmittedRunView, job_submitted
from airflow_provider_ha.argument_secrets import secret_names
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import WaitFor, await_run, who
from airflow_provider_ha.cli.option_group import takes
from airflow_provider_ha.cli.session import AsJson, ClusterTarget, Force, answer, cluster, help_examples, reported
from airflow_provider_ha.cli.spec_options import spec_of, visible_secrets
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.submit.requests import SubmittedRun


_RUNNING_SECONDS = 600.0
_SCRIPT = Annotated[str, typer.Argument(help="The PySpark script.", metavar="SCRIPT", show_default=False)]
_ARGUMENTS = Annotated[
    list[str] | None,
    typer.Argument(
        help="The script's arguments, after `--`; no place for secrets.",
        metavar="[-- ARGUMENT...]",
        show_default=False,
    ),
]

SUBMIT_EXAMPLES = help_examples(
    "spark-ha job submit orders.py --job-id orders -- --input /data/in",
    "spark-ha job submit orders.py --job-id orders --properties-file secrets.conf --packages org.example:lib:1.0",
    "spark-ha job submit orders.py --job-id orders --request-id release-17 --wait-for finished --json",
)


@takes(JobSpec, application=_SCRIPT, arguments=_ARGUMENTS)
def submit(
    context: typer.Context,
    words: dict[str, Any],
    request_id: Annotated[
        str | None,
        typer.Option(
            help="Id of the request: a repeated id finds the run again instead of making another. Default: a new id."
        ),
    ] = None,
    properties_file: Annotated[
        Path | None,
        typer.Option(
            help="File of Spark conf in the form of spark-defaults.conf. Its values are not in the process list; "
            "--conf counts over it.",
            metavar="FILE",
            rich_help_panel="Application",
        ),
    ] = None,
    spark_conn_id: Annotated[
        str | None,
        typer.Option(
            help="With `airflow ha`: a connection of type spark that names master and engine.",
            rich_help_panel="Where it runs",
        ),
    ] = None,
    wait_for: Annotated[
        WaitFor,
        typer.Option(
            help="running: each query that the script starts has committed a batch, or found no data. finished: follow "
            "the run to its end. none: return at once."
        ),
    ] = WaitFor.RUNNING,
    wait: Annotated[
        float | None,
        typer.Option(
            help="Seconds to wait for that; default: 600 for running, no limit for finished.", min=0, metavar="SECONDS"
        ),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Run a PySpark streaming script as a job that survives the loss of its driver.

    With engine local the driver runs on this host, in a separate session: it outlives this command, its shell and
    Ctrl-C, which only ends the wait. While the command waits it submits a lost driver again.

    Refused before any change: a missing script, a live run of the job, storage that cannot be written, another owner.
    Exit 0: the run is in the state of --wait-for; 1: it is refused, or ended in another way, with the reason;
    2: unknown, or Ctrl-C came first.
    """
    with reported(as_json=as_json):
        target: ClusterTarget = context.obj
        request = spec_of(
            words, target, request_id=request_id, properties_file=properties_file, spark_conn_id=spark_conn_id
        )
    for name in visible_secrets(words["conf"] or [], words["env"] or []):
        _note(f"the value of {name} is in the process list; --properties-file and `--env NAME` keep it out")
    for name in secret_names(words["arguments"] or []):
        _note(
            f"the value of {name} is in the process list, and is stored in the job graph; give it as `--env NAME`, and "
            "let the script read that variable"
        )
    run: SubmittedRun | None = None
    try:
        with cluster(context, as_json=as_json) as client:
            job = client.job(request.job_id, acting=CallerIdentity(force=force))
            run = job.submit(request)
            _note(_found(run))
            seconds = wait if wait is not None or wait_for is WaitFor.FINISHED else _RUNNING_SECONDS
            if wait_for is WaitFor.NONE:
                snapshot = job.snapshot()
            else:
                with console.phases(quiet=as_json) as tell:
                    snapshot = await_run(job, run.run, wait_for, seconds=seconds, by=who(), tell=tell)
        shown = job_submitted(SubmittedRunView.of(run), request.request_id, snapshot)
    except KeyboardInterrupt:
        _detached(request.job_id, request.request_id, run)
        raise typer.Exit(Exit.UNKNOWN) from None
    _print(shown, as_json=as_json)
    wanted = wait_for is WaitFor.NONE or shown.state in (JobState.RUNNING, JobState.FINISHED)
    answer(yes=wanted)


def _found(run: SubmittedRun) -> str:
    made = "is submitted" if run.created else "was submitted by an earlier request of this id"
    return f"run {run.run} of job {run.job_id} {made} (attempt {run.attempt})"


def _print(shown: JobSubmittedView, *, as_json: bool) -> None:
    if as_json:
        console.print_json(shown)
        return
    console.print_fields({name: value for name, value in shown.to_json().items() if value is not None})
    if not shown.state.terminal:
        _ways_on(shown.job_id)
    else:
        console.out.print(f"its log: spark-ha job logs {shown.job_id} --run {shown.run}")


def _ways_on(job_id: str) -> None:
    for what, command in (("follow", f"job logs {job_id} --follow"), ("look", f"job show {job_id}")):
        console.out.print(f"{what}: spark-ha {command}")
    console.out.print(f"stop: spark-ha job stop {job_id}")


def _detached(job_id: str, request_id: str, run: SubmittedRun | None) -> None:
    if run is None:
        _note(
            "interrupted before the answer: the job may be submitted. "
            f"`spark-ha job show {job_id}` says it; the same command with --request-id {request_id} makes no second run"
        )
        return
    _note(f"detached: run {run.run} of job {job_id} continues")
    _ways_on(job_id)


def _note(text: str) -> None:
    console.err.print(console.escaped(text))
