"""``spark-ha job``: submit, stop, cancel, move and release a job."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from airflow_provider_ha.api.documents.job import (
    QuarantineReleaseView,
)
from airflow_provider_ha.api.documents.operation import MoveView
from airflow_provider_ha.api.documents.submission import (
    JobSubmittedView,
    SubmittedRunView,
    job_submitted,
)
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.argument_secrets import secret_names
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit
from airflow_provider_ha.cli.job_requests import (
    RequestId,
    WaitFor,
    WaitSeconds,
    asking,
    await_operation,
    await_run,
    await_takeover,
    who,
)
from airflow_provider_ha.cli.savepoint_target import assigned
from airflow_provider_ha.cli.session import (
    AsJson,
    ClusterTarget,
    DryRun,
    Force,
    JobId,
    Yes,
    answer,
    cluster,
    confirm,
    help_examples,
    other_cluster,
    reported,
)
from airflow_provider_ha.cli.spec_options import spec_of, takes, visible_secrets
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.fleet import observations
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.move.move_records import Move, MoveRequest
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.names import check_job_id


_RUNNING_SECONDS = 600.0
_JOB = Annotated[str, typer.Argument(help="Id of the job.", metavar="JOB", show_default=False)]
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
    "spark-ha job submit orders orders.py -- --input /data/in",
    "spark-ha job submit orders orders.py --properties-file secrets.conf --packages org.example:lib:1.0",
    "spark-ha job submit orders orders.py --request-id release-17 --wait-for finished --json",
)


@takes(JobSpec, job_id=_JOB, application=_SCRIPT, arguments=_ARGUMENTS)
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
            "the run to its end. none: return immediately."
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
            f"interrupted before the answer: the job may be submitted. `spark-ha job show {job_id}` shows it; the same "
            f"command with --request-id {request_id} starts no second run"
        )
        return
    _note(f"detached: run {run.run} of job {job_id} continues")
    _ways_on(job_id)


def _note(text: str) -> None:
    console.err.print(console.escaped(text))


def move(
    context: typer.Context,
    job_id: JobId,
    to: Annotated[
        str,
        typer.Option(
            help="The cluster that the job goes to: an Airflow connection (`airflow ha`), or a path with a slash of a "
            "file with the fields of HaConfig as JSON.",
            metavar="CONNECTION|FILE",
        ),
    ],
    stop: Annotated[bool, typer.Option("--stop", help="Stop a job that runs, with a checkpoint.")] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            help="Spark conf that the job needs there, in addition to its own; KEY= removes one; repeatable.",
            metavar="KEY=VALUE",
        ),
    ] = None,
    packages: Annotated[
        list[str] | None, typer.Option(help="Maven coordinates, in place of the job's; repeatable.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Spark master, in place of the job's.")] = None,
    accept_verdicts: Annotated[
        list[Verdict] | None, typer.Option(help="Accept this verdict in addition to SAFE; repeatable.")
    ] = None,
    accept_unverified: Annotated[
        list[str] | None, typer.Option(help="Accept unverified facts about this query.", metavar="QUERY")
    ] = None,
    wait: Annotated[float, typer.Option(help="Seconds to wait for the end of the run.", min=1)] = 600.0,
    dry_run: DryRun = False,
    abandon: Annotated[
        bool, typer.Option("--abandon", help="Abandon the move, while the job has no run there.")
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Move a job to another cluster by savepoint and restore; its outputs stay in place.

    Repeat it after any failure: it continues where it stopped. Exit 0: the job has its run there; 1: it is refused.
    """
    target: ClusterTarget = context.obj
    acting = CallerIdentity(force=force)
    with cluster(context, as_json=as_json) as client:
        if dry_run and abandon:
            raise ConfigurationError("--dry-run and --abandon exclude each other", next_step="Leave one option out")
        request = MoveRequest(
            requested_by=who(),
            stop=stop,
            wait=wait,
            conf=_changed_conf(conf or []),
            packages=None if packages is None else tuple(packages),
            master=master,
            accept_verdicts=frozenset({Verdict.SAFE, *(accept_verdicts or [])}),
            accept_unverified=frozenset(accept_unverified or []),
        )
        with HaClient.open(other_cluster(target, to)) as there:
            if abandon:
                outcome = client.abandon_move(job_id, there, acting=acting)
            elif dry_run:
                outcome = client.plan_move(job_id, there, request, acting=acting)
            else:
                outcome = client.move_job(job_id, there, request, acting=acting)
    console.show(MoveView.of(outcome), lambda: _print_move(outcome), as_json=as_json)


def _changed_conf(values: list[str]) -> dict[str, str]:
    removed = {value.removesuffix("="): "" for value in values if value.endswith("=") and value.count("=") == 1}
    return assigned([value for value in values if value.removesuffix("=") not in removed], "--conf") | removed


def _print_move(outcome: Move) -> None:
    console.print_fields(
        {
            "job": outcome.job_id,
            "from": outcome.origin,
            "to": outcome.destination,
            "works in": outcome.place,
            "state": outcome.state,
            "source": outcome.source,
            "cut": console.cut_text(dict(outcome.cut)) if outcome.cut else None,
            "replayed": console.cut_text(dict(outcome.replayed)) if outcome.replayed else None,
            "files": outcome.files,
            "bytes": outcome.bytes,
            "verdict": outcome.verdict.value if outcome.verdict else None,
            "run": outcome.run,
        }
    )
    for number, step in enumerate(outcome.steps, start=1):
        console.out.print(f"{number}. {step}", markup=False)


class StopMode(str, Enum):
    """Mode of a stop."""

    SUSPEND = "suspend"
    TERMINATE = "terminate"


def stop(
    context: typer.Context,
    job_id: JobId,
    mode: Annotated[StopMode, typer.Option(help="suspend: stop with a checkpoint; terminate: drain first.")] = (
        StopMode.SUSPEND
    ),
    savepoint: Annotated[bool, typer.Option("--savepoint", help="Also take a savepoint.")] = False,
    wait: WaitSeconds = 600.0,
    request_id: RequestId = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Stop a job at a batch boundary. Exit 0: its run is FINISHED; 1: it could not be stopped, with the reason.

    A job that has lost its driver ends immediately, with its newest retained checkpoint as the result.

    Ctrl-C ends the wait, not the stop (exit 130): the same command with `--request-id` shows its outcome.
    """
    with asking(job_id, "stop", request_id) as asked, cluster(context, as_json=as_json) as client:
        job, by = client.job(job_id, acting=CallerIdentity(force=force)), who()
        operation = job.request_stop(
            operation_id=asked.request_id, requested_by=by, mode=mode.value, savepoint=savepoint
        )
        await_operation(job, asked.made(operation, by=by), seconds=wait, as_json=as_json)


def cancel(
    context: typer.Context,
    job_id: JobId,
    savepoint: Annotated[
        bool, typer.Option("--savepoint", help="Take a savepoint first; if it fails, the job continues.")
    ] = False,
    wait: WaitSeconds = 120.0,
    request_id: RequestId = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Cancel a job immediately; its latest checkpoint stays. Exit 0: its run is CANCELED; 1: its savepoint failed.

    With `--savepoint` both are one operation: once the savepoint is taken the run ends CANCELED, even if the driver or
    this command dies in between. `job stop --savepoint` ends at a batch boundary instead, so no batch is read again.

    Ctrl-C ends the wait, not the cancel (exit 130): the same command with `--request-id` shows its outcome.
    """
    with asking(job_id, "cancel", request_id) as asked, cluster(context, as_json=as_json) as client:
        job, by = client.job(job_id, acting=CallerIdentity(force=force)), who()
        operation = job.request_cancel(operation_id=asked.request_id, requested_by=by, savepoint=savepoint)
        await_operation(job, asked.made(operation, by=by), seconds=wait, as_json=as_json)


def hand_over(
    context: typer.Context,
    job_id: JobId,
    wait: WaitSeconds = 120.0,
    request_id: RequestId = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Let a ready standby driver continue a job, between two batches: none is repeated. Exit 1: none is ready.

    Prints the phases of the takeover. Ctrl-C ends the wait, not the hand-over (exit 130).
    """
    with asking(job_id, "hand-over", request_id) as asked, cluster(context, as_json=as_json) as client:
        job, by = client.job(job_id, acting=CallerIdentity(force=force)), who()
        operation = job.request_hand_over(operation_id=asked.request_id, requested_by=by)
        await_takeover(client, job, asked.made(operation, by=by), seconds=wait, as_json=as_json)


def fail_over(
    context: typer.Context,
    job_id: JobId,
    wait: WaitSeconds = 120.0,
    request_id: RequestId = None,
    yes: Yes = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Rehearse the loss of a driver: it kills its JVM and itself, and another driver continues. Exit 0: it is RUNNING.

    Prints the phases of the recovery, with or without a standby driver. The batch in flight is repeated. Ctrl-C ends
    the wait, not the kill (exit 130).
    """
    confirm(f"the driver of job {job_id!r} is not killed", "Kill it?", yes=yes, as_json=as_json)
    with asking(job_id, "fail-over", request_id) as asked, cluster(context, as_json=as_json) as client:
        job, by = client.job(job_id, acting=CallerIdentity(force=force)), who()
        operation = job.request_fail_over(operation_id=asked.request_id, requested_by=by)
        await_takeover(client, job, asked.made(operation, by=by), seconds=wait, as_json=as_json)


def release(context: typer.Context, job_id: JobId, as_json: AsJson = False) -> None:
    """Release a job from quarantine, after repairing its cause. Exit 1: it is not in quarantine."""
    with cluster(context, as_json=as_json) as client:
        reason = observations.release_quarantine(client.coordinator, client.paths, check_job_id(job_id))
    if as_json:
        console.print_json(QuarantineReleaseView(job_id=job_id, reason=reason))
    else:
        console.out.print(f"{job_id} may be recovered again; it was in quarantine, because {console.escaped(reason)}")
