"""``spark-ha restore``: bring a job back from a checkpoint, a savepoint or a path, or show what that would do."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from airflow_provider_ha.checkpoints.model import Candidate, QueryPlan, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.adopted import Adopted, From, Sink, adopted
from airflow_provider_ha.cli.outcome import Exit
from airflow_provider_ha.cli.requests import operation_id
from airflow_provider_ha.cli.session import AsJson, JobId, cluster, reported
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.pointers.ownership import ClaimMode, Owner
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

_WAY_OUT = {
    Verdict.SAFE: "no row is lost, none is there twice",
    Verdict.DUPLICATES_POSSIBLE: "rows may be written again: choose another cut, or accept it with --allow",
    Verdict.LOSS_POSSIBLE: "rows may be missing: choose another cut, or accept it with --allow",
    Verdict.IMPOSSIBLE: "choose another cut, or restore as another job with an output of its own",
}

_AFTERWARDS = {
    (Owner.USER, ClaimMode.NO_CLAIM): "the user's: never changed, never removed",
    (Owner.JOB, ClaimMode.NO_CLAIM): "the job's, as it was before",
    (Owner.JOB, ClaimMode.CLAIM): "the job's: removed once newer checkpoints subsume it",
}


def plan(
    context: typer.Context,
    job_id: JobId,
    want: Want = "latest",
    source_job: SourceJob = None,
    no_fallback: NoFallback = False,
    output: Output = OutputMode.CONTINUE,
    allow: Allow = None,
    adopt: From = None,
    sink: Sink = None,
    claim_mode: Claim = ClaimMode.NO_CLAIM,
    as_json: AsJson = False,
) -> None:
    """Show what a restore would do. Changes nothing. Exit 0: it would be carried out; 1: it would be refused."""
    with reported(as_json=as_json):
        named = adopted(adopt or [], sink or [], want, source_job)
    request = _request(job_id, want, source_job, no_fallback, output, allow, named, claim_mode)
    with cluster(context, as_json=as_json) as client:
        made = client.job(job_id).plan_restore(request)
    if as_json:
        console.print_json(_document(made))
    else:
        _print_plan(made)
    accepted = made.verdict in request.allow and made.verdict is not Verdict.IMPOSSIBLE
    raise typer.Exit(Exit.YES if accepted else Exit.NO)


def restore(
    context: typer.Context,
    job_id: JobId,
    want: Want = "latest",
    source_job: SourceJob = None,
    no_fallback: NoFallback = False,
    output: Output = OutputMode.CONTINUE,
    allow: Allow = None,
    adopt: From = None,
    sink: Sink = None,
    claim_mode: Claim = ClaimMode.NO_CLAIM,
    request_id: Annotated[
        str | None,
        typer.Option(help="Who asks: asking again with one id finds the run again instead of making another."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring a job back from a checkpoint, a savepoint or directories that Spark wrote elsewhere, as a new run.

    Nothing of the source is changed.

    Exit 0: the run is submitted, on this host; 1: it is refused, with the reason and the way out, and nothing was
    changed. Nobody follows the run afterwards: `spark-ha recover --watch`, or a DAG, does.
    """
    if dry_run:
        plan(context, job_id, want, source_job, no_fallback, output, allow, adopt, sink, claim_mode, as_json)
    with reported(as_json=as_json):
        named = adopted(adopt or [], sink or [], want, source_job)
    request = _request(job_id, want, source_job, no_fallback, output, allow, named, claim_mode, request_id)
    with cluster(context, as_json=as_json) as client:
        run = client.job(job_id).restore(request)
    if as_json:
        console.print_json({"job_id": job_id, "run": run.run, "attempt": run.attempt, "created": run.created})
    else:
        said = "is submitted" if run.created else "was submitted by an earlier request of this id"
        console.out.print(f"run {run.run} of job {job_id} {said}; see `spark-ha job show {job_id}`")


def _request(
    job_id: str,
    want: str,
    source_job: str | None,
    no_fallback: bool,
    output: OutputMode,
    allow: list[Verdict] | None,
    named: Adopted,
    claim_mode: ClaimMode,
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
    )


def _document(made: RestorePlan) -> dict[str, Any]:
    """Return the plan for programs; of the batches to be replayed their ids, not their recorded boundaries."""
    document = made.model_dump(mode="json")
    for name, query in made.queries.items():
        document["queries"][name]["replay"] = [entry.batch for entry in query.replay]
    return document


def _print_plan(made: RestorePlan) -> None:
    console.print_fields(
        {
            "restore": f"{made.name} as {made.job_id}"
            if made.adopted
            else f"{made.name} of {made.source_job} as {made.job_id}",
            "taken": f"{made.age_seconds:.0f} s ago",
            "afterwards it is": _AFTERWARDS.get((made.owner, made.claim_mode), made.owner.value),
            "verdict": f"{made.verdict.value}: {_WAY_OUT[made.verdict]}",
        }
    )
    for reason in made.reasons:
        console.out.print(f"  {console.escaped(reason)}")
    console.print_table(
        ("QUERY", "CUT", "REPLAYED", "READ AGAIN", "SINK", "SINK HAS", "SET ASIDE"),
        ([name, *_row(query)] for name, query in made.queries.items()),
        empty="the cut holds no query",
    )
    console.print_table(
        ("CANDIDATE", "TAKEN", "CUT", "ANSWER"),
        (
            [item.source, item.created_at if item.cut else None, console.cut_text(item.cut), _answer(item)]
            for item in made.candidates
        ),
        empty="nothing else was looked at",
    )


def _row(query: QueryPlan) -> list[object]:
    replay = [entry.batch for entry in query.replay]
    return [
        query.batch,
        f"{replay[0]} to {replay[-1]}" if replay else "nothing",
        _inputs(query) if replay else "nothing",
        query.sink.path or query.sink.format or query.sink.kind.value,
        query.sink.max_batch if query.sink.kind is SinkKind.FILE else None,
        ", ".join(map(str, sorted(query.set_aside))) or "nothing",
    ]


def _inputs(query: QueryPlan) -> str:
    told = [
        f"{each.amount} {each.unit} of source {each.source}" if each.unit else f"source {each.source} does not tell"
        for each in query.inputs
    ]
    return ", ".join(told) or "not known"


def _answer(item: Candidate) -> str:
    return "chosen" if item.accepted else ": ".join(filter(None, (item.file, item.reason)))
