"""Plan of a restore's effects on queries and outputs, decided from facts before any change.

Invariant: SAFE means that every batch of a sink is executed again with its previous boundaries, or not at all. A lost
boundary is LOSS_POSSIBLE, never SAFE: Spark silently skips rows that it puts into a batch that the sink already has
(design, section 5; spark-facts section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from airflow_provider_ha.checkpoints.areas.drain import is_drained
from airflow_provider_ha.checkpoints.model import BatchEntry, QuerySources, SinkKind
from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import PlanFinding, QueryPlan, RestorePlan, SourceInput, Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalState, QueryFacts, RestoreFacts
from airflow_provider_ha.checkpoints.restore.query_records import following
from airflow_provider_ha.checkpoints.restore.restore_point import CHECKPOINT
from airflow_provider_ha.checkpoints.sinks.sink_registry import type_of
from airflow_provider_ha.checkpoints.sinks.sink_type import OWN_OUTPUT, RestoreFindings, SinkCase
from airflow_provider_ha.checkpoints.sources.input_files import judge_files, judge_unasked
from airflow_provider_ha.checkpoints.sources.source_registry import inputs_of, judge_inputs


_SEVERITY = (Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE, Verdict.LOSS_POSSIBLE, Verdict.IMPOSSIBLE)


def worst(findings: Iterable[PlanFinding]) -> Verdict:
    """Return the verdict of a plan: that of its worst finding."""
    return max((finding.verdict for finding in findings), key=_SEVERITY.index, default=Verdict.SAFE)


def not_accepted(plan: RestorePlan, allow: Collection[Verdict]) -> list[Verdict]:
    """Return the verdicts of *plan* that still need to be accepted by name, worst first.

    Each verdict is accepted separately: accepting possible loss does not accept repeated writes. IMPOSSIBLE cannot be
    accepted.
    """
    found = {finding.verdict for finding in plan.findings} | {plan.verdict}
    refused = found - set(allow) - {Verdict.SAFE} | found & {Verdict.IMPOSSIBLE}  # guard: impossible-can-be-asked-for
    return sorted(refused, key=_SEVERITY.index, reverse=True)


def judge_timeline(facts: QueryFacts, judgement: RestoreFindings) -> None:
    """Judge whether the cut is on the sinks' timeline."""
    if facts.left_by is not None:  # guard: cuts-that-a-later-run-has-left-are-safe
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"run {facts.left_by} did not continue from this cut: its batches up to {facts.cut.batch}, which the sink "
            "may have, differ from those of this cut",
            "restore a cut that was taken after that",
            OWN_OUTPUT,
        )
        return
    own, last = facts.own_entry, facts.history.get(facts.cut.batch)
    if own is not None and last is not None and own.offsets != last.offsets:
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"batch {facts.cut.batch} was given to the sinks with other boundaries since this cut was taken",
            "restore a cut that was taken after that",
            OWN_OUTPUT,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreChoices:
    """Choices of the request for a restore.

    :param same_output: Whether the job continues the outputs of the source. If not, nothing is replayed: it starts at
        the cut, plans the batches after it afresh, and its driver seeds the logs of new file sinks.
    :param accept_unverified: Queries for which unverified facts are accepted; they are still judged.
    :param reset_query_ids: Query -> fresh query id, so that a table skips none of its batches.
    :param claim_mode: Whether the job becomes the owner of its restore source.
    :param repeatable: Queries whose output a repeated batch leaves unchanged, as declared by the job.
    """

    job_id: str
    source_job: str
    same_output: bool = True
    accept_unverified: Collection[str] = ()
    reset_query_ids: Mapping[str, str] = field(default_factory=dict)
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    repeatable: Collection[str] = ()


def plan_restore(facts: RestoreFacts, choices: RestoreChoices) -> RestorePlan:
    """Return the plan of a restore. Pure: the plan is complete, and is never changed afterwards."""
    case, queries, judgements = facts.case, {}, []
    for name, known in facts.queries.items():
        judgement = RestoreFindings(name)
        decide = _continue_output if choices.same_output else _other_output
        declared = _declared(known) if name in choices.repeatable else known
        queries[name] = decide(declared, judgement, choices.reset_query_ids.get(name))
        judgements.append(judgement)
    judgements += [_begun_later(name, batch) for name, batch in case.begun_later.items()]
    given_up = _given_up(facts, choices)
    findings = (*(finding for item in judgements for finding in item.findings), *given_up)
    return RestorePlan(
        job_id=choices.job_id,
        source_job=choices.source_job,
        source=case.chosen.source,
        source_id=case.chosen.source_id,
        directory=case.chosen.directory,
        verdict=worst(findings),
        reasons=(*(finding.reason for finding in findings), *_unnamed_sinks(facts)),
        queries=queries,
        candidates=case.candidates,
        age_seconds=(case.at - case.chosen.created_at).total_seconds(),
        created_at=case.at,
        same_output=choices.same_output,
        findings=findings,
        unknown={
            item.query: tuple(item.unknown)  # guard: unknown-is-silent
            for item in judgements
            if item.unknown and item.query not in choices.accept_unverified
        },
        claim_mode=choices.claim_mode,
        owner=_owner(facts, choices),
        adopted=dict(case.adopted),
    )


def _declared(known: QueryFacts) -> QueryFacts:
    sink = known.cut.sink.model_copy(update={"repeatable": True})
    return replace(known, cut=known.cut.model_copy(update={"sink": sink}))


def _begun_later(query: str, batch: int) -> RestoreFindings:
    judgement = RestoreFindings(query)
    judgement.add(
        Verdict.LOSS_POSSIBLE,
        f"the cut does not have it, so it begins anew, and its sink was given batches up to {batch}: a sink "
        "that ignores numbers which it knows skips rows, and any other sink receives the replayed rows of its source "
        "again",
        "restore a cut that has it",
        "accept LOSS_POSSIBLE by name, when its sink is empty, or the script no longer starts it",
    )
    return judgement


def _owner(facts: RestoreFacts, choices: RestoreChoices) -> Owner:
    """Return the owner of the restore source, once the restore is done."""
    if facts.case.chosen.source == CHECKPOINT:
        return Owner.JOB  # in either mode: it is subsumed like every checkpoint
    return Owner.JOB if facts.case.claimed or choices.claim_mode is ClaimMode.CLAIM else Owner.USER


def _given_up(facts: RestoreFacts, choices: RestoreChoices) -> tuple[PlanFinding, ...]:
    if not facts.case.adopted or not facts.case.has_state:
        return ()
    return (
        PlanFinding(
            query="",
            verdict=Verdict.DUPLICATES_POSSIBLE,
            reason=f"job {choices.job_id} gives up its own checkpoints: the rows that it wrote since may be written "
            "again",
            ways_out=("adopt it as a job of another id", "restore the job from its own checkpoint"),
        ),
    )


def _unnamed_sinks(facts: RestoreFacts) -> list[str]:
    return [
        f"{query}: its sink is not named; the content of a file sink counts only if its directory is named"
        for query, known in facts.queries.items()
        if (adopted := facts.case.adopted.get(query)) is not None
        and known.cut.sink.kind is SinkKind.OTHER
        and known.cut.sink.format is None
        and adopted.planned > known.cut.batch
    ]


def _other_output(facts: QueryFacts, judgement: RestoreFindings, reset_query_id: str | None) -> QueryPlan:
    type_of(facts.cut.sink).judge(facts.cut.sink, SinkCase(facts.cut.batch, facts.sink, top=None), judgement)
    _judge_drained(facts, (), judgement)
    _judge_unknown(facts, judgement)
    _judge_shared(facts, judgement, has_fresh_id=reset_query_id is not None)  # guard: shared-outputs-are-safe
    inputs = judge_sources(facts.cut.sources, facts.around, facts.own_entry, (), judgement)
    return QueryPlan(batch=facts.cut.batch, sink=facts.cut.sink, inputs=inputs, query_id=reset_query_id)


def _judge_shared(facts: QueryFacts, judgement: RestoreFindings, *, has_fresh_id: bool) -> None:
    """Judge a sink of unknown location, like a function: the other job may write to the same place.

    The driver itself compares directories of files, and reads a table's batches by the query's previous id.
    """
    cut, drained = facts.cut, facts.drain
    looked_at = cut.sink.table is not None and not has_fresh_id
    if looked_at or not type_of(cut.sink).remembers_unseen(cut.sink):
        return
    wrote = drained is not None and drained.wrote and drained.batch > cut.batch
    later = wrote or facts.planned_at_least > cut.batch or facts.left_by is not None
    if later or not (facts.complete and facts.writers_dead):
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"nothing shows whether its {cut.sink.format or 'sink'} writes to the output of the job that it is "
            f"restored from, which was given batches after {cut.batch}, or may be given them: a sink that ignores "
            "numbers which it knows skips rows, and any other one gets rows twice",
            "write to another place, as by context.current().job_id, then accept LOSS_POSSIBLE by name",
        )


def _continue_output(facts: QueryFacts, judgement: RestoreFindings, reset_query_id: str | None) -> QueryPlan:
    cut, drained = facts.cut, facts.drain
    if drained is not None and drained.batch <= cut.batch:
        drained = None
    # The drain's own batch is never replayed: its watermark would drop every later row as late.
    # guard: drains-are-replayed
    history = {batch: entry for batch, entry in facts.history.items() if drained is None or batch < drained.batch}
    # Spark itself reads on from the cut there: the records differ from the batches that the sink was given under those
    # numbers.
    replay = () if cut.sink.unplanned else following(history, cut.batch)
    _judge_drained(facts, replay, judgement)
    _judge_unknown(facts, judgement)
    judge_timeline(facts, judgement)
    inputs = judge_sources(cut.sources, facts.around, facts.own_entry, replay, judgement)
    given = facts.given
    case = SinkCase(
        cut.batch,
        facts.sink,
        top=cut.batch + len(replay),
        drained=(drained.batch, drained.sink_entry_sha256) if drained is not None else None,
        writers_dead=facts.writers_dead,
        is_known=facts.around is not None and facts.around.table_batch is not None,
        has_fresh_id=reset_query_id is not None,
        planned_to=facts.planned_at_least,
        complete=facts.complete,
        noted_to=facts.given_to,
        finished_to=given.finished if given is not None else -1,
        drain_wrote=drained is not None and drained.wrote,
    )
    set_aside = type_of(cut.sink).judge(cut.sink, case, judgement)
    return QueryPlan(
        batch=cut.batch,
        replay=replay,
        sink=cut.sink.model_copy(update={"max_batch": facts.sink.reached}),
        set_aside=set_aside,
        input_files=sum(len(lines) for entry in replay for lines in entry.sources.values()),
        inputs=inputs,
        sink_gone=facts.sink.gone,
        given=given,
        query_id=reset_query_id,
    )


def judge_sources(
    sources: QuerySources,
    around: ExternalState | None,
    cut: BatchEntry | None,
    replay: Sequence[BatchEntry],
    findings: RestoreFindings,
    *,
    is_due: Callable[[SourceInput], bool] = lambda _: True,
) -> tuple[SourceInput, ...]:
    """Judge the availability of the sources after a cut, for a restore and for a recovery. Pure.

    :param sources: Records of the sources in addition to their offsets.
    :param around: External facts; ``None`` when they were not collected.
    :param cut: Entry of the cut's batch; ``None`` without a record.
    :param replay: The batches that are executed again, ascending.
    :returns: Inputs that the sources must provide again.
    """
    found = around or ExternalState()
    inputs = inputs_of(cut, replay, replace(around, topics=sources.topics) if around is not None else None)
    judge_files(found.missing, replay, findings, found.replaced)
    if found.asked is not None:
        judge_unasked(replay, found.asked, findings)
    judge_inputs([each for each in inputs if is_due(each)], findings)
    return inputs


def _judge_drained(facts: QueryFacts, replay: Iterable[BatchEntry], judgement: RestoreFindings) -> None:
    own = () if facts.own_entry is None else (facts.own_entry,)  # guard: drained-states-go-on
    drained = next((entry for entry in (*own, *replay) if is_drained(entry)), None)
    if drained is not None:
        judgement.add(
            Verdict.IMPOSSIBLE,
            f"batch {drained.batch} has the watermark of a drain, which is an end: every later row would be late",
            "restore the checkpoint that the stop took before it drained",
        )


def _judge_unknown(facts: QueryFacts, judgement: RestoreFindings) -> None:
    for each in facts.around.unknown if facts.around is not None else ():
        judgement.add_unknown(each.reason, *filter(None, (each.next_step,)))
