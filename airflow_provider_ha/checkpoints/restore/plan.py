"""What a restore will do to each query and its output: decided before anything is changed, from facts alone.

Invariant: SAFE means that every batch that a sink has is executed again with the boundaries that it had, or not at all.
A boundary that is lost is LOSS_POSSIBLE, never SAFE: rows that Spark puts into a batch that the sink has are skipped
silently (design, section 5; spark-facts section 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from airflow_provider_ha.checkpoints.model import BatchEntry, Candidate, QueryPlan, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts
from airflow_provider_ha.checkpoints.restore.inputs import inputs_of
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.checkpoints.retained.timeline import following


# What is written there is gone with the driver.
_TRANSIENT_FORMATS = frozenset({"noop", "console", "memory"})
SEVERITY = (Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE, Verdict.LOSS_POSSIBLE, Verdict.IMPOSSIBLE)


class Drained(Protocol):
    """What a drain wrote beyond the sharp checkpoint before it: finished (``jobs.model.DrainedQuery``) or not."""

    @property
    def batch(self) -> int:
        """The drain's batch."""

    @property
    def sink_path(self) -> str | None:
        """Directory of the file sink."""

    @property
    def sink_entry_sha256(self) -> str | None:
        """Digest of the sink's log entry of that batch."""

    @property
    def wrote(self) -> bool:
        """Whether the sink may have been given anything."""


@dataclass(slots=True)
class _Judgement:
    """What was decided about one query so far."""

    query: str
    verdict: Verdict = Verdict.SAFE
    reasons: list[str] = field(default_factory=list)

    def add(self, verdict: Verdict, reason: str) -> None:
        self.verdict = max(self.verdict, verdict, key=SEVERITY.index)
        self.reasons.append(f"{self.query}: {reason}")


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
) -> RestorePlan:
    """Return what restoring *chosen* would do.

    :param facts: Query -> what is known (``facts.gather_facts``).
    :param job_id: Job that will run.
    :param source_job: Job that the cut belongs to.
    :param drained: Query -> what the drain wrote that ended the source job's last run.
    :param candidates: What was looked at before, for the record.
    :param same_output: Whether the job goes on with the outputs of the source. If not, nothing is replayed: it starts
        at the cut, plans the batches after it afresh, and its driver seeds the logs of new file sinks.
    """
    queries, judgements = {}, []
    for name, known in facts.items():
        judgement = _Judgement(name)
        if same_output:
            # What a result says of a drain is more than what the fork of an earlier, unfinished one shows.
            queries[name] = _continue_output(known, (drained or {}).get(name) or known.unfinished_drain, judgement)
        else:
            queries[name] = _other_output(known, judgement)
        judgements.append(judgement)
    return RestorePlan(
        job_id=job_id,
        source_job=source_job,
        source=chosen.source,
        source_id=chosen.source_id,
        directory=chosen.directory,
        verdict=max((item.verdict for item in judgements), key=SEVERITY.index, default=Verdict.SAFE),
        reasons=tuple(reason for item in judgements for reason in item.reasons),
        queries=queries,
        candidates=tuple(candidates),
        age_seconds=(now - chosen.created_at).total_seconds(),
        created_at=now,
        same_output=same_output,
    )


def _other_output(facts: QueryFacts, judgement: _Judgement) -> QueryPlan:
    if facts.cut.sink.kind is SinkKind.FILE and facts.cut.batch >= 0 and not facts.sink_log_kept:
        judgement.add(Verdict.IMPOSSIBLE, f"the sink's log up to batch {facts.cut.batch} is not kept with the cut")
    return QueryPlan(batch=facts.cut.batch, sink=facts.cut.sink)


def _continue_output(facts: QueryFacts, drained: Drained | None, judgement: _Judgement) -> QueryPlan:
    cut = facts.cut
    if drained is not None and drained.batch <= cut.batch:
        drained = None
    # The drain's own batch is never replayed: its watermark would drop every later row as late.
    history = {batch: entry for batch, entry in facts.history.items() if drained is None or batch < drained.batch}
    replay = following(history, cut.batch)
    _judge_timeline(facts, judgement)
    _judge_inputs(facts, replay, judgement)
    set_aside: dict[int, str] = {}
    top = cut.batch + len(replay)
    if cut.sink.kind is SinkKind.FILE:
        set_aside = _judge_file_sink(facts, drained, top, judgement)
    else:
        _judge_other_sink(facts, drained, top, judgement)
    return QueryPlan(
        batch=cut.batch,
        replay=replay,
        sink=cut.sink.model_copy(update={"max_batch": facts.sink_max}),
        set_aside=set_aside,
        input_files=sum(len(lines) for entry in replay for lines in entry.sources.values()),
        inputs=inputs_of(_own_entry(facts), replay),
    )


def _judge_timeline(facts: QueryFacts, judgement: _Judgement) -> None:
    own = _own_entry(facts)
    last = facts.history.get(facts.cut.batch)
    if own is not None and last is not None and own.offsets != last.offsets:
        reason = f"batch {facts.cut.batch} was given to the sinks with other boundaries since this cut was taken"
        judgement.add(Verdict.LOSS_POSSIBLE, reason)


def _own_entry(facts: QueryFacts) -> BatchEntry | None:
    return next((entry for entry in facts.cut.entries if entry.batch == facts.cut.batch), None)


def _judge_inputs(facts: QueryFacts, replay: tuple[BatchEntry, ...], judgement: _Judgement) -> None:
    for entry in replay:
        gone = facts.missing_inputs.get(entry.batch)
        if gone:
            judgement.add(
                Verdict.IMPOSSIBLE, f"batch {entry.batch} has to be replayed, but its input {gone[0]} is gone"
            )
            return


def _judge_file_sink(facts: QueryFacts, drained: Drained | None, top: int, judgement: _Judgement) -> dict[int, str]:
    """Judge a sink that skips the batches that it has; return what has to be taken out of its log."""
    set_aside: dict[int, str] = {}
    reached = facts.sink_max
    digest = facts.sink_digests.get(reached)
    if drained is not None and drained.batch == reached and digest and digest == drained.sink_entry_sha256:
        set_aside[reached] = digest
        reached -= 1
    if reached > top:
        reason = f"the file sink has batches up to {reached}, but boundaries are recorded up to {top} only"
        judgement.add(Verdict.LOSS_POSSIBLE, reason)
        # Who allows this gets these batches planned and written afresh, instead of skipped.
        lost = range(top + 1, reached + 1)
        set_aside |= {batch: facts.sink_digests[batch] for batch in lost if batch in facts.sink_digests}
    if reached < facts.cut.batch:
        reason = f"the file sink has batches up to {reached} only, but the cut is at {facts.cut.batch}"
        judgement.add(Verdict.LOSS_POSSIBLE, reason)
    return set_aside


def _judge_other_sink(facts: QueryFacts, drained: Drained | None, top: int, judgement: _Judgement) -> None:
    """Judge a sink that executes every batch it is given: it may have all that were ever planned."""
    sink = facts.cut.sink
    if sink.kind is SinkKind.OTHER and sink.format in _TRANSIENT_FORMATS:
        return
    planned_to = facts.planned_to if drained is None else min(facts.planned_to, drained.batch - 1)
    if planned_to > top:
        reason = f"batches up to {planned_to} were planned, but boundaries are recorded up to {top} only"
        judgement.add(Verdict.LOSS_POSSIBLE, reason)
    elif not facts.complete:
        reason = f"the last working directory is gone, so batches after {top} may have reached the sink unrecorded"
        judgement.add(Verdict.LOSS_POSSIBLE, reason)
    if drained is not None and drained.wrote:
        reason = f"the sink may have the rows of the drain's batch {drained.batch}, which cannot be taken back"
        judgement.add(Verdict.DUPLICATES_POSSIBLE, reason)
    if sink.kind is SinkKind.OTHER and top > facts.cut.batch:
        reason = f"batches {facts.cut.batch + 1} to {top} are written again to a {sink.format or 'custom'} sink"
        judgement.add(Verdict.DUPLICATES_POSSIBLE, reason)
