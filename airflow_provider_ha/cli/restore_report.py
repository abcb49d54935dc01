"""A restore plan for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_ha.checkpoints.connectors.sink_names import name_by_sink
from airflow_provider_ha.checkpoints.model import Candidate, QueryPlan, RestorePlan, SinkKind, SourceInput, Verdict
from airflow_provider_ha.cli import console
from airflow_provider_ha.pointers.ownership import ClaimMode, Owner


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
