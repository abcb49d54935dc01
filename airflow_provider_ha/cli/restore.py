"""``spark-ha job restore`` and ``checkpoint plan``: restore a job, or print the plan of a restore."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from airflow_provider_ha.api.documents.restore_plan import plan_view
from airflow_provider_ha.api.documents.submission import SubmittedRunView
from airflow_provider_ha.checkpoints.model import QuerySink
from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import Candidate, QueryPlan, RestorePlan, SourceInput, Verdict
from airflow_provider_ha.checkpoints.restore.directory_plan import plan_directory, sink_at
from airflow_provider_ha.checkpoints.sinks.sink_registry import name_by_sink, sink_named
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets, held_offsets
from airflow_provider_ha.checkpoints.spark.places import directory_at, is_hdfs, is_s3, output_place, s3_uri
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit, exit_code
from airflow_provider_ha.cli.savepoint_target import path_of
from airflow_provider_ha.cli.session import AsJson, DryRun, Force, JobId, cluster, reported
from airflow_provider_ha.cli.spec_options import accepted, request_of, takes
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError, HaError
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import refusal_of
from airflow_provider_ha.query_names import is_query_directory, own_name


_MEANING = {
    Verdict.SAFE: "no row is lost or duplicated",
    Verdict.DUPLICATES_POSSIBLE: "rows may be written again",
    Verdict.LOSS_POSSIBLE: "rows may be missing",
    Verdict.IMPOSSIBLE: "it cannot be executed",
}


_AFTERWARDS = {
    (Owner.USER, ClaimMode.NO_CLAIM): "the user's: never changed, never removed",
    (Owner.JOB, ClaimMode.NO_CLAIM): "the job's, as it was before",
    (Owner.JOB, ClaimMode.CLAIM): "the job's: removed once newer checkpoints subsume it",
}


def print_plan(made: RestorePlan) -> None:
    """Print all known effects of the restore."""
    console.print_fields(
        {
            "restore": _what(made),
            "taken": f"{made.age_seconds:.0f} s ago",
            "afterwards it is": _AFTERWARDS.get((made.owner, made.claim_mode), made.owner.value),
            "verdict": f"{made.verdict.value}: {_MEANING[made.verdict]}",
        }
    )
    for line in _findings(made):
        console.out.print(f"  {console.escaped(line)}")
    console.print_table(
        ("QUERY", "CUT", "REPLAYED", "READ AGAIN", "SINK", "SINK HAS", "SET ASIDE"),
        ([name, *_row(query)] for name, query in made.queries.items()),
        empty="the cut holds no query",
    )
    for line in (*_again(made), *_names(made)):
        console.out.print(console.escaped(line))
    partitions = list(_partitions(made))
    if partitions:
        console.print_table(
            ("QUERY", "SOURCE", "PARTITION", "FROM", "TO", "EARLIEST", "LATEST", "READ AGAIN", "GONE", "UNREAD"),
            partitions,
            empty="",
        )
    console.print_table(
        ("CANDIDATE", "TAKEN", "CUT", "ANSWER"),
        (
            [item.source, item.created_at if item.cut else None, console.cut_text(item.cut), _answer(item)]
            for item in made.candidates
        ),
        empty="no other candidate was read",
    )


def _what(made: RestorePlan) -> str:
    job = f" as {made.job_id}" if made.job_id else ""
    return f"{made.name}{job}" if made.adopted else f"{made.name} of {made.source_job}{job}"


def _findings(made: RestorePlan) -> Iterator[str]:
    for finding in made.findings:
        yield f"{finding.verdict.value}: {finding.reason}"
        yield from (f"  way out: {way}" for way in finding.ways_out)
    if made.unknown:
        yield f"Refused until this is known, or {', '.join(made.unknown)} named with --accept-unverified"


def _again(made: RestorePlan) -> Iterator[str]:
    """Print the recorded batches that a sink receives again, or not, because of a declaration or a note."""
    for name, query in made.queries.items():
        batches = [entry.batch for entry in query.replay]
        if discarded := [batch for batch in batches if batch <= query.discarded_to]:
            what = "its function has finished them, so their output is discarded"
            yield f"{name}: batches {discarded[0]} to {discarded[-1]} are executed again; {what}"
        if batches and query.sink.repeatable:
            yield f"{name}: batches {batches[0]} to {batches[-1]} are given again; it is declared repeatable"


def _names(made: RestorePlan) -> Iterator[str]:
    """Print the required query names for adopted checkpoints: another name is not found."""
    for query in made.adopted:
        name = name_by_sink(made.queries[query].sink)
        if name is not None and name != query:
            adopt = f"adopt it as that (--start-from {name}=...)"
            yield f"{query}: a script that gives it no name starts it as {name}; {adopt}"


def _row(query: QueryPlan) -> list[object]:
    replay = [entry.batch for entry in query.replay]
    return [
        query.batch,
        f"{replay[0]} to {replay[-1]}" if replay else "nothing",
        ", ".join(map(_input, query.inputs)) or ("not known" if replay else "nothing"),
        query.sink.path or query.sink.table or query.sink.format or query.sink.kind.value,
        query.sink_progress,
        ", ".join(map(str, sorted(query.set_aside))) or "nothing",
    ]


def _input(source: SourceInput) -> str:
    if source.lost:
        return f"source {source.source}: {source.lost}"
    if source.amount is None and source.unit is not None:
        return f"{source.unit} of source {source.source}"
    if source.unit is None:
        return f"source {source.source} does not report it"
    gone = f" ({source.gone} gone)" if source.gone else ""
    return f"{source.amount} {source.unit} of source {source.source}{gone}"


def _partitions(made: RestorePlan) -> Iterator[Sequence[object]]:
    for name, query in made.queries.items():
        for source in query.inputs:
            for each in source.partitions:
                place = f"{each.topic}-{each.partition}"
                has = [each.earliest, each.latest] if each.earliest is not None else ["gone", "gone"]
                counts = [each.replayed, each.gone, each.unread]
                yield [name, source.source, place, each.start, each.end, *has, *counts]


def _answer(item: Candidate) -> str:
    return "chosen" if item.accepted else ": ".join(filter(None, (item.file, item.reason)))


_OF_PLACES = frozenset(
    {"sinks", "kafka_bootstrap", "kafka_properties", "accept_unverified", "repeatable", "accept_verdicts"}
)


@takes(RestoreRequest, only=_OF_PLACES)
def plan(
    context: typer.Context,  # noqa: ARG001  # first parameter of each command with derived options
    words: dict[str, Any],
    place: Annotated[
        str,
        typer.Argument(
            help="Checkpoint of one query: a directory (write ./NAME for a relative path), s3://bucket/prefix or "
            "hdfs://namenode:8020/path.",
            metavar="PATH|URI",
        ),
    ],
    batch: Annotated[
        int | None,
        typer.Option(min=0, help="The batch to continue from; default: the newest restorable.", metavar="N"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what going on from a checkpoint directory in the same output would do. Needs no cluster, changes nothing.

    `job restore --dry-run` shows the same for a job. Exit 0: it would be carried out; 1: it would be refused, because
    of its verdict; 2: what a source or sink has is unknown.
    """
    with reported(as_json=as_json):
        if not (is_s3(place) or is_hdfs(place) or path_of(place) is not None):
            raise ConfigurationError(
                f"{place!r} is a job id, because it has no slash",
                next_step=f"Write ./{place} for a directory; `spark-ha job restore {place} --dry-run` plans for a job",
            )
        made = _plan_of_place(place, words, batch)
    refusal = refusal_of(made, accepted(words))
    _print(made, refusal, as_json=as_json)
    raise typer.Exit(_code(refusal))


@takes(RestoreRequest)
def restore(
    context: typer.Context,
    words: dict[str, Any],
    job_id: JobId,
    request_id: Annotated[
        str | None,
        typer.Option(help="Id of the request: a repeated id finds the run again instead of making another."),
    ] = None,
    dry_run: DryRun = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Bring a job back from a checkpoint, a savepoint or directories that Spark wrote elsewhere, as a new run.

    Nothing of the source is changed. With --dry-run it prints the plan, and exits as the restore would at this moment.

    Exit 0: the run is submitted, on this host; 1: it is refused, with the reason and the way out, and nothing was
    changed; 2: what a source or sink has is unknown. This command does not follow the run: `spark-ha cluster recover
    --watch`, or a DAG, does.
    """
    with reported(as_json=as_json):
        if "/" in job_id:
            raise ConfigurationError(
                f"{job_id!r} is a path; 'job restore' expects a job id",
                next_step="`spark-ha job restore JOB --start-from PATH` starts a job from it, `spark-ha checkpoint "
                "plan PATH` shows what that would do, `spark-ha savepoint restore` creates a directory to start from",
            )
        request = request_of(words, job_id, request_id)
    with cluster(context, as_json=as_json) as client:
        job = client.job(job_id, acting=CallerIdentity(force=force))
        if dry_run:
            shown = job.dry_run(request)
        else:
            run = job.restore(request)
    if dry_run:
        _print(shown.plan, shown.refusal, as_json=as_json)
        raise typer.Exit(_code(shown.refusal))
    if as_json:
        console.print_json(SubmittedRunView.of(run))
    else:
        said = "is submitted" if run.created else "was submitted by an earlier request of this id"
        console.out.print(f"run {run.run} of job {job_id} {said}; see `spark-ha job show {job_id}`")


def _print(made: RestorePlan, refusal: HaError | None, *, as_json: bool) -> None:
    if as_json:
        console.print_json(plan_view(made, refusal))
    else:
        print_plan(made)
        if refusal is not None:
            console.print_error(refusal, as_json=False)


def _code(refusal: HaError | None) -> Exit:
    return Exit.YES if refusal is None else exit_code(refusal)


def _plan_of_place(target: str, words: dict[str, Any], batch: int | None) -> RestorePlan:
    place = _named(target)
    query = place.rpartition("/")[2] or place
    names = {query, own_name(query)} if is_query_directory(query) else {query}
    servers, properties = _one("kafka_bootstrap", names, words), words["kafka_properties"]
    for option in ("accept_unverified", "repeatable"):
        if strange := sorted(set(words[option] or ()) - names):
            raise ConfigurationError(
                f"{console.option_word(option)} names {strange}, but the query is {query}", next_step="Correct the name"
            )

    def ask(_: str, topics: frozenset[str]) -> Mapping[Partition, PartitionOffsets]:
        if servers is None:
            raise ConfigurationError(
                f"the brokers of {', '.join(sorted(topics))} are not configured, and a checkpoint does not name them",
                next_step="Name them (--kafka-bootstrap host:port)",
            )
        return held_offsets(servers, topics, properties=Path(properties) if properties else None)

    return plan_directory(
        query,
        directory_at(place),
        sink=_sink(_one("sinks", names, words)),
        now=SystemClock().now(),
        ask_kafka=ask,
        batch=batch,
        accept_unverified=(query,) if words["accept_unverified"] else (),
        repeatable=bool(words["repeatable"]),
    )


def _named(target: str) -> str:
    if is_s3(target):
        return s3_uri(target)
    return output_place(target) if is_hdfs(target) else str((path_of(target) or Path(target)).resolve())


def _sink(said: str | None) -> QuerySink:
    if said is not None and is_s3(said):
        return sink_at(s3_uri(said))
    return sink_named(said)


def _one(option: str, names: Collection[str], words: dict[str, Any]) -> str | None:
    values = words[option] or []
    if len(values) > 1:
        raise ConfigurationError(
            f"{console.option_word(option)} is given {len(values)} times for one query", next_step="Give it once"
        )
    named = next((name for name in names if values and values[0].startswith(f"{name}=")), None)
    return values[0].removeprefix(f"{named}=") if values else None
