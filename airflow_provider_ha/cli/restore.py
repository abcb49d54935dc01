"""``spark-ha restore`` and ``checkpoint plan``: restore a job, or print the plan of a restore of a job or a path."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from airflow_provider_ha.api.documents.restore_plan import plan_view
from airflow_provider_ha.api.documents.submission import SubmittedRunView
from airflow_provider_ha.checkpoints.model import (
    Candidate,
    QueryPlan,
    QuerySink,
    RestorePlan,
    SinkKind,
    SourceInput,
    Verdict,
)
from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.restore.directory_plan import plan_directory, sink_at
from airflow_provider_ha.checkpoints.sinks.sink_registry import name_by_sink, sink_named
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets, held_offsets
from airflow_provider_ha.checkpoints.spark.places import directory_at, is_hdfs, is_s3, output_place, s3_uri
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.exit_codes import Exit, exit_code
from airflow_provider_ha.cli.savepoint_target import path_of
from airflow_provider_ha.cli.session import AsJson, Force, cluster, reported
from airflow_provider_ha.cli.spec_options import Batch, JobOrPlace, accepted, request_of, takes
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
        _sink_has(query),
        ", ".join(map(str, sorted(query.set_aside))) or "nothing",
    ]


def _sink_has(query: QueryPlan) -> object:
    if query.sink_gone:
        return "it is gone"
    if query.given is not None:
        return f"begun {query.given.begun}, finished {query.given.finished}"
    return query.sink.max_batch if query.sink.kind is SinkKind.FILE or query.sink.table else None


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
    _show(context, job_id, words, CallerIdentity(force=force), batch, as_json=as_json)


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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the effects.")] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Bring a job back from a checkpoint, a savepoint or directories that Spark wrote elsewhere, as a new run.

    Nothing of the source is changed. With --dry-run it is `checkpoint plan`, also of a place.

    Exit 0: the run is submitted, on this host; 1: it is refused, with the reason and the way out, and nothing was
    changed. This command does not follow the run: `spark-ha recover --watch`, or a DAG, does.
    """
    acting = CallerIdentity(force=force)
    if dry_run:
        _show(context, job_id, words, acting, batch, request_id, as_json=as_json)
    with reported(as_json=as_json):
        if is_place(job_id):
            raise ConfigurationError(
                f"{job_id!r} is a path; 'restore' expects a job id",
                next_step="`spark-ha restore JOB --start-from PATH` starts a job from it, `spark-ha savepoint restore` "
                "creates a directory to start from; --dry-run only shows the effects",
            )
        request = request_of(words, job_id, batch, request_id)
    with cluster(context, as_json=as_json) as client:
        run = client.job(job_id, acting=acting).restore(request)
    if as_json:
        console.print_json(SubmittedRunView.of(run))
    else:
        said = "is submitted" if run.created else "was submitted by an earlier request of this id"
        console.out.print(f"run {run.run} of job {job_id} {said}; see `spark-ha job show {job_id}`")


def _show(
    context: typer.Context,
    target: str,
    words: dict[str, Any],
    acting: CallerIdentity,
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


def is_place(target: str) -> bool:
    """Whether a word names a checkpoint by its place; a word without a slash is a job id.

    :raises ConfigurationError: It is a URI of a file system that this process cannot read.
    """
    return is_s3(target) or is_hdfs(target) or path_of(target) is not None


def plan_of_place(
    target: str,
    *,
    batch: int | None,
    sinks: list[str],
    kafka_bootstrap: list[str],
    kafka_properties: str | None,
    accept_unverified: list[str],
    repeatable: list[str],
) -> RestorePlan:
    """Return the plan to continue from the checkpoint at *target*.

    :raises ConfigurationError: An option names another query, or is repeated.
    :raises HaError: As ``plan_directory``.
    """
    place = _named(target)
    query = place.rpartition("/")[2] or place
    names = {query, own_name(query)} if is_query_directory(query) else {query}
    servers = _one("--kafka-bootstrap", names, kafka_bootstrap)
    for option, named in (("--accept-unverified", accept_unverified), ("--repeatable", repeatable)):
        if strange := sorted(set(named) - names):
            raise ConfigurationError(
                f"{option} names {strange}, but the query is {query}", next_step="Correct the name"
            )

    def ask(_: str, topics: frozenset[str]) -> Mapping[Partition, PartitionOffsets]:
        if servers is None:
            raise ConfigurationError(
                f"the brokers of {', '.join(sorted(topics))} are not configured, and a checkpoint does not name them",
                next_step="Name them (--kafka-bootstrap host:port)",
            )
        return held_offsets(servers, topics, properties=Path(kafka_properties) if kafka_properties else None)

    return plan_directory(
        query,
        directory_at(place),
        sink=_sink(_one("--sink", names, sinks)),
        now=SystemClock().now(),
        ask_kafka=ask,
        batch=batch,
        accept_unverified=(query,) if accept_unverified else (),
        repeatable=bool(repeatable),
    )


def _named(target: str) -> str:
    if is_s3(target):
        return s3_uri(target)
    return output_place(target) if is_hdfs(target) else str((path_of(target) or Path(target)).resolve())


def _sink(said: str | None) -> QuerySink:
    if said is not None and is_s3(said):
        return sink_at(s3_uri(said))
    return sink_named(said)


def _one(option: str, names: Collection[str], values: list[str]) -> str | None:
    if len(values) > 1:
        raise ConfigurationError(f"{option} is given {len(values)} times for one query", next_step="Give it once")
    named = next((name for name in names if values and values[0].startswith(f"{name}=")), None)
    return values[0].removeprefix(f"{named}=") if values else None


# Of the checkpoint at a path, without a job.
_OF_PLACES = frozenset(
    {
        "sinks",
        "kafka_bootstrap",
        "kafka_properties",
        "accept_unverified",
        "repeatable",
        "accept_verdicts",
        "allow_remote_executors",
    }
)


def place_plan(words: Mapping[str, Any], place: str, batch: int | None) -> RestorePlan:
    """Return the restore plan of a checkpoint path without a managed job.

    :raises ConfigurationError: The words do not fit a place.
    :raises HaError: As ``plan_of_place``.
    """
    if of_jobs := sorted(name for name, value in words.items() if value is not None and name not in _OF_PLACES):
        raise ConfigurationError(
            f"{place!r} is a path; {', '.join(of_jobs)} apply only to checkpoints of a job",
            next_step="Remove the option, or name the job",
        )
    return plan_of_place(
        place,
        batch=batch,
        sinks=words["sinks"] or [],
        kafka_bootstrap=words["kafka_bootstrap"] or [],
        kafka_properties=words["kafka_properties"],
        accept_unverified=words["accept_unverified"] or [],
        repeatable=words["repeatable"] or [],
    )
