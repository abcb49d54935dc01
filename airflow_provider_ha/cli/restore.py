"""``spark-ha restore``: bring a job back from a checkpoint, a savepoint or a path, or show what that would do."""

from __future__ import annotations

from typing import Annotated, NoReturn

import typer

from airflow_provider_ha.checkpoints.model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.judgement import not_accepted
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.adopted import Adopted, From, Sink, adopted
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.plan_path import is_place, plan_of_place
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.cli.restore_options import FreshId, KafkaBootstrap, KafkaProperties, Unchecked, by_query
from airflow_provider_ha.cli.restore_report import plan_document, print_plan
from airflow_provider_ha.cli.session import AsJson, cluster, reported
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.pointers.ownership import ClaimMode
from airflow_provider_ha.submit.requests import RestoreRequest


Want = Annotated[
    str,
    typer.Option(
        "--want",
        help="latest, checkpoint-<n>, savepoint-<id> or 'before <time>': 14:05 2026-11-21T14:05, 14:05+00:00.",
    ),
]
SourceJob = Annotated[
    str | None, typer.Option("--from-job", help="Job that the checkpoint belongs to; default: the same.", metavar="JOB")
]
NoFallback = Annotated[
    bool, typer.Option("--no-fallback", help="Refuse, instead of taking an older one when the wanted one is bad.")
]
Allow = Annotated[
    list[Verdict] | None, typer.Option("--allow", help="A verdict besides SAFE that is accepted; may be repeated.")
]
Claim = Annotated[
    ClaimMode,
    typer.Option(
        "--claim-mode",
        help="NO_CLAIM: what is restored from stays its owner's. CLAIM: it becomes the job's, which removes it once "
        "newer checkpoints subsume it.",
    ),
]
Output = Annotated[
    OutputMode, typer.Option("--output", help="Another job's file sinks: continue the old log, or begin a fresh one.")
]


JobOrPlace = Annotated[
    str,
    typer.Argument(
        help="Id of a managed job, or a checkpoint of one query by its place: a directory (what has a slash is a "
        "path: write ./NAME), or s3://bucket/prefix.",
        metavar="JOB|PATH|URI",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(min=0, help="Of a place: the batch to go on from; default: the newest restorable.", metavar="N"),
]


def plan(
    context: typer.Context,
    job_id: JobOrPlace,
    want: Want = "latest",
    source_job: SourceJob = None,
    no_fallback: NoFallback = False,
    output: Output = OutputMode.CONTINUE,
    allow: Allow = None,
    adopt: From = None,
    sink: Sink = None,
    claim_mode: Claim = ClaimMode.NO_CLAIM,
    kafka_bootstrap: KafkaBootstrap = None,
    kafka_properties: KafkaProperties = None,
    unchecked: Unchecked = None,
    fresh_id: FreshId = None,
    batch: Batch = None,
    as_json: AsJson = False,
) -> None:
    """Show what a restore would do. Changes nothing.

    Of a place, what going on from there in the same output would do; it takes --batch, --sink, --kafka-bootstrap,
    --kafka-properties, --unchecked and --allow, needs no cluster, and knows only what lies there.

    Exit 0: it would be carried out; 1: it would be refused; 2: what a source or sink has could not be found out.
    """
    with reported(as_json=as_json):
        place = is_place(job_id)
        if place:
            of_jobs = (want != "latest", source_job, no_fallback, output is not OutputMode.CONTINUE, adopt, fresh_id)
            if any(of_jobs) or claim_mode is not ClaimMode.NO_CLAIM:
                raise ConfigurationError(
                    f"{job_id} is a place, and an option is about checkpoints of a job",
                    next_step="Leave it out, or name the job",
                )
            made = plan_of_place(
                job_id,
                batch=batch,
                sinks=sink or [],
                kafka_bootstrap=kafka_bootstrap or [],
                kafka_properties=kafka_properties,
                unchecked=unchecked or [],
            )
        else:
            _refuse_batch(batch)
    if place:
        _print(made, frozenset({Verdict.SAFE, *(allow or ())}), as_json=as_json)
    with reported(as_json=as_json):
        request = _request(
            job_id,
            want=want,
            source_job=source_job,
            no_fallback=no_fallback,
            output=output,
            allow=allow,
            named=adopted(adopt or [], sink or [], want, source_job),
            claim_mode=claim_mode,
            kafka_bootstrap=kafka_bootstrap,
            kafka_properties=kafka_properties,
            unchecked=unchecked,
            fresh_id=fresh_id,
        )
    _show(context, request, as_json=as_json)


def restore(
    context: typer.Context,
    job_id: JobOrPlace,
    want: Want = "latest",
    source_job: SourceJob = None,
    no_fallback: NoFallback = False,
    output: Output = OutputMode.CONTINUE,
    allow: Allow = None,
    adopt: From = None,
    sink: Sink = None,
    claim_mode: Claim = ClaimMode.NO_CLAIM,
    kafka_bootstrap: KafkaBootstrap = None,
    kafka_properties: KafkaProperties = None,
    unchecked: Unchecked = None,
    fresh_id: FreshId = None,
    batch: Batch = None,
    request_id: Annotated[
        str | None,
        typer.Option(help="Who asks: asking again with one id finds the run again instead of making another."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a job back from a checkpoint, a savepoint or directories that Spark wrote elsewhere, as a new run.

    Nothing of the source is changed. With --dry-run it is `checkpoint plan`, also of a place.

    Exit 0: the run is submitted, on this host; 1: it is refused, with the reason and the way out, and nothing was
    changed. Nobody follows the run afterwards: `spark-ha recover --watch`, or a DAG, does.
    """
    with reported(as_json=as_json):
        place = is_place(job_id)
        if place and not dry_run:
            raise ConfigurationError(
                f"{job_id} is a place, and restored is a job",
                next_step="`spark-ha restore JOB --from PATH` starts a job from it, `spark-ha savepoint restore` makes "
                "a directory to start from; --dry-run only shows what that would do",
            )
        _refuse_batch(None if place else batch)
    if place:
        plan(
            context,
            job_id,
            want=want,
            source_job=source_job,
            no_fallback=no_fallback,
            output=output,
            allow=allow,
            adopt=adopt,
            sink=sink,
            claim_mode=claim_mode,
            kafka_bootstrap=kafka_bootstrap,
            kafka_properties=kafka_properties,
            unchecked=unchecked,
            fresh_id=fresh_id,
            batch=batch,
            as_json=as_json,
        )
    with reported(as_json=as_json):
        request = _request(
            job_id,
            want=want,
            source_job=source_job,
            no_fallback=no_fallback,
            output=output,
            allow=allow,
            named=adopted(adopt or [], sink or [], want, source_job),
            claim_mode=claim_mode,
            kafka_bootstrap=kafka_bootstrap,
            kafka_properties=kafka_properties,
            unchecked=unchecked,
            fresh_id=fresh_id,
            request_id=request_id,
        )
    if dry_run:
        _show(context, request, as_json=as_json)
    with cluster(context, as_json=as_json) as client:
        run = client.job(job_id).restore(request)
    if as_json:
        console.print_json({"job_id": job_id, "run": run.run, "attempt": run.attempt, "created": run.created})
    else:
        said = "is submitted" if run.created else "was submitted by an earlier request of this id"
        console.out.print(f"run {run.run} of job {job_id} {said}; see `spark-ha job show {job_id}`")


def _refuse_batch(batch: int | None) -> None:
    if batch is not None:
        raise ConfigurationError(
            "--batch is about a checkpoint by its place, and a job's are numbered",
            next_step="Name one with --want checkpoint-<n>",
        )


def _show(context: typer.Context, request: RestoreRequest, *, as_json: bool) -> NoReturn:
    """Print the plan of a restore, and end with its answer."""
    with cluster(context, as_json=as_json) as client:
        made = client.job(request.job_id).plan_restore(request)
    _print(made, request.allow, as_json=as_json)


def _print(made: RestorePlan, allow: frozenset[Verdict], *, as_json: bool) -> NoReturn:
    if as_json:
        console.print_json(plan_document(made))
    else:
        print_plan(made)
    refused = not_accepted(made, allow)
    if made.unknown and Verdict.IMPOSSIBLE not in refused:
        raise typer.Exit(Exit.UNKNOWN)
    raise typer.Exit(Exit.NO if refused else Exit.YES)


def _request(
    job_id: str,
    *,
    want: str,
    source_job: str | None,
    no_fallback: bool,
    output: OutputMode,
    allow: list[Verdict] | None,
    named: Adopted,
    claim_mode: ClaimMode,
    kafka_bootstrap: list[str] | None,
    kafka_properties: str | None,
    unchecked: list[str] | None,
    fresh_id: list[str] | None,
    request_id: str | None = None,
) -> RestoreRequest:
    return RestoreRequest(
        job_id=job_id,
        request_id=request_id or operation_id("restore"),
        source_job=source_job,
        want=want,
        fallback=not no_fallback,
        output=output,
        allow=frozenset({Verdict.SAFE, *(allow or ())}),
        claim_mode=claim_mode,
        adopt=named.directories,
        sinks=named.sinks,
        kafka_bootstrap=by_query("--kafka-bootstrap", kafka_bootstrap),
        kafka_properties=kafka_properties,
        unchecked=frozenset(unchecked or ()),
        fresh_ids=frozenset(fresh_id or ()),
    )
