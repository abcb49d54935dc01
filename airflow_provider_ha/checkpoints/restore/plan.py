"""What a restore will do to each query and its output: decided before anything is changed, from facts alone.

Invariant: SAFE means that every batch that a sink has is executed again with the boundaries that it had, or not at all.
A boundary that is lost is LOSS_POSSIBLE, never SAFE: rows that Spark puts into a batch that the sink has are skipped
silently (design, section 5; spark-facts section 2).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from types import MappingProxyType

from airflow_provider_ha.checkpoints.connectors.delta import DELTA
from airflow_provider_ha.checkpoints.connectors.foreach_batch import summary
from airflow_provider_ha.checkpoints.connectors.inputs import SourceFacts, inputs_of
from airflow_provider_ha.checkpoints.model import (
    BatchEntry,
    Candidate,
    QueryPlan,
    QuerySink,
    RestorePlan,
    SinkKind,
    Verdict,
)
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts
from airflow_provider_ha.checkpoints.restore.judgement import Judgement, worst
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.restore.sink_judgement import (
    judge_file_sink,
    judge_other_sink,
    judge_table,
    judge_timeline,
)
from airflow_provider_ha.checkpoints.restore.source_judgement import judge_files, judge_inputs
from airflow_provider_ha.checkpoints.restore.timeline import following
from airflow_provider_ha.checkpoints.working.unfinished_drain import Drained, is_drained


def plan_restore(
    chosen: Chosen,
    facts: Mapping[str, QueryFacts],
    *,
    job_id: str,
    source_job: str,
    now: datetime,
    drained: Mapping[str, Drained] | None = None,
    candidates: Iterable[Candidate] = (),
    same_output: bool = True,
    accept_unverified: Collection[str] = (),
    reset_query_ids: Mapping[str, str] = MappingProxyType({}),
) -> RestorePlan:
    """Return what restoring *chosen* would do.

    :param facts: Query -> what is known (``facts.gather_facts``).
    :param job_id: Job that will run.
    :param source_job: Job that the cut belongs to.
    :param drained: Query -> what the drain wrote that ended the source job's last run.
    :param candidates: What was looked at before, for the record.
    :param same_output: Whether the job goes on with the outputs of the source. If not, nothing is replayed: it starts
        at the cut, plans the batches after it afresh, and its driver seeds the logs of new file sinks.
    :param accept_unverified: Queries for which unverified facts are accepted; it is judged all the same.
    :param reset_query_ids: Query -> fresh query id, so that a table skips none of its batches.
    """
    queries, judgements = {}, []
    for name, known in facts.items():
        judgement = Judgement(name)
        if same_output:
            # The result of a drain says more than the fork of an earlier, unfinished one.
            drain = (drained or {}).get(name) or known.unfinished_drain
            queries[name] = _continue_output(known, drain, judgement, reset_query_ids.get(name))
        else:
            queries[name] = _other_output(known, judgement, reset_query_ids.get(name))
        judgements.append(judgement)
    findings = tuple(finding for item in judgements for finding in item.findings)
    return RestorePlan(
        job_id=job_id,
        source_job=source_job,
        source=chosen.source,
        source_id=chosen.source_id,
        directory=chosen.directory,
        verdict=worst(findings),
        reasons=tuple(finding.reason for finding in findings),
        queries=queries,
        candidates=tuple(candidates),
        age_seconds=(now - chosen.created_at).total_seconds(),
        created_at=now,
        same_output=same_output,
        findings=findings,
        unknown={
            item.query: tuple(item.unknown)
            for item in judgements
            if item.unknown and item.query not in accept_unverified
        },
    )


def _other_output(facts: QueryFacts, judgement: Judgement, reset_query_id: str | None) -> QueryPlan:
    if facts.cut.sink.kind is SinkKind.FILE and facts.cut.batch >= 0 and not facts.sink_log_kept:
        judgement.add(
            Verdict.IMPOSSIBLE,
            f"the sink's log up to batch {facts.cut.batch} is not kept with the cut",
            "restore a cut that was taken while the sink had its log",
            "restore the job under its own id: then the log of its own output is used",
        )
    inputs = inputs_of(facts.own_entry, (), _known(facts))
    _judge_drained(facts, (), judgement)
    _judge_unknown(facts, judgement)
    judge_inputs(inputs, judgement)
    return QueryPlan(batch=facts.cut.batch, sink=facts.cut.sink, inputs=inputs, query_id=reset_query_id)


def _continue_output(
    facts: QueryFacts, drained: Drained | None, judgement: Judgement, reset_query_id: str | None
) -> QueryPlan:
    cut = facts.cut
    if drained is not None and drained.batch <= cut.batch:
        drained = None
    # The drain's own batch is never replayed: its watermark would drop every later row as late.
    history = {batch: entry for batch, entry in facts.history.items() if drained is None or batch < drained.batch}
    replay = following(history, cut.batch)
    inputs = inputs_of(facts.own_entry, replay, _known(facts))
    _judge_drained(facts, replay, judgement)
    _judge_unknown(facts, judgement)
    judge_timeline(facts, judgement)
    judge_files(facts.missing_inputs, replay, judgement)
    judge_inputs(inputs, judgement)
    set_aside: dict[int, str] = {}
    top = cut.batch + len(replay)
    if cut.sink.kind is SinkKind.FILE:
        set_aside = judge_file_sink(facts, drained, top, judgement)
    elif _remembers(cut.sink):
        judge_table(facts, top, reset_query_id=reset_query_id is not None, judgement=judgement)
    else:
        judge_other_sink(facts, drained, top, judgement)
    return QueryPlan(
        batch=cut.batch,
        replay=replay,
        sink=cut.sink.model_copy(update={"max_batch": facts.sink_max}),
        set_aside=set_aside,
        input_files=sum(len(lines) for entry in replay for lines in entry.sources.values()),
        inputs=inputs,
        sink_gone=facts.sink_gone,
        given=summary(facts.notes),
        query_id=reset_query_id,
    )


def _remembers(sink: QuerySink) -> bool:
    return (sink.format or "").lower() == DELTA


def _known(facts: QueryFacts) -> SourceFacts:
    if facts.around is None:
        return SourceFacts()
    return SourceFacts(facts.around.initial, facts.around.kafka, facts.around.missing, facts.around.asked)


def _judge_drained(facts: QueryFacts, replay: Iterable[BatchEntry], judgement: Judgement) -> None:
    own = () if facts.own_entry is None else (facts.own_entry,)
    drained = next((entry for entry in (*own, *replay) if is_drained(entry)), None)
    if drained is not None:
        judgement.add(
            Verdict.IMPOSSIBLE,
            f"batch {drained.batch} has the watermark of a drain, which is an end: every later row would be late",
            "restore the checkpoint that the stop took before it drained",
        )


def _judge_unknown(facts: QueryFacts, judgement: Judgement) -> None:
    for each in facts.around.unknown if facts.around is not None else ():
        name = f"name the query (--accept-unverified {judgement.query}) and LOSS_POSSIBLE to go on without knowing"
        judgement.add_unknown(each.reason, *filter(None, (each.next_step, name)))
