"""What sinks without a connector may have already, and what that makes of the batches that come after the cut."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.file_sink import OWN_OUTPUT, RECORDED_CUT
from airflow_provider_ha.checkpoints.model import SinkKind, Verdict
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts
from airflow_provider_ha.checkpoints.restore.judgement import Judgement
from airflow_provider_ha.checkpoints.working.unfinished_drain import Drained


# What is written there is gone with the driver.
_TRANSIENT_FORMATS = frozenset({"noop", "console", "memory"})


def judge_timeline(facts: QueryFacts, judgement: Judgement) -> None:
    """Judge whether the cut is part of what the sinks were given."""
    own, last = facts.own_entry, facts.history.get(facts.cut.batch)
    if own is not None and last is not None and own.offsets != last.offsets:
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"batch {facts.cut.batch} was given to the sinks with other boundaries since this cut was taken",
            "restore a cut that was taken after that",
            OWN_OUTPUT,
        )


def judge_table(facts: QueryFacts, top: int, *, reset_query_id: bool, judgement: Judgement) -> None:
    """Judge a table that remembers the query's id and its highest batch, and skips what is not above that."""
    cut, reached = facts.cut.batch, facts.sink.reached
    if facts.around is None or facts.around.table_batch is None:
        return  # it is not known, and that is a separate finding
    if facts.sink.gone:
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"the table {facts.cut.sink.table} is gone, and with it what was written up to batch {cut}",
            "put the table back, its log included",
            "accept LOSS_POSSIBLE by name: the next batch makes a new table, which holds what comes after the cut",
            OWN_OUTPUT,
        )
    elif reached > top and reset_query_id:
        judgement.add(
            Verdict.DUPLICATES_POSSIBLE,
            f"with a fresh query id batches {top + 1} to {reached}, which the table has, are written again",
            f"remove their rows from the table first: it was last right at batch {top}",
        )
    elif reached > top:
        judgement.add(
            Verdict.IMPOSSIBLE,  # guard: tables-skip-what-comes-next
            f"the table has batches of this query up to {reached}, but boundaries are recorded up to {top} only; it "
            f"would skip batches {top + 1} to {reached}, also with new content",
            RECORDED_CUT,
            "give the query a fresh id (--reset-query-id): then nothing is skipped, and these batches are written "
            "again (DUPLICATES_POSSIBLE)",
            OWN_OUTPUT,
        )
    elif reached < cut and not (reset_query_id and reached < 0):
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"the table has batches of this query up to {reached} only, but the cut is at {cut}",
            "bring the table back to a version that has them",
            f"restore a cut at batch {reached} or before" if reached >= 0 else OWN_OUTPUT,
        )


def judge_other_sink(facts: QueryFacts, drained: Drained | None, top: int, judgement: Judgement) -> None:
    """Judge a sink that executes every batch it is given: it may have all that were ever planned."""
    sink = facts.cut.sink
    if sink.kind is SinkKind.OTHER and sink.format in _TRANSIENT_FORMATS:
        return
    _judge_given(facts, drained, top, judgement)
    if drained is not None and drained.wrote:
        judgement.add(
            Verdict.DUPLICATES_POSSIBLE,
            f"the sink may have the rows of the drain's batch {drained.batch}, which cannot be taken back",
            f"remove what batch {drained.batch} wrote, or write by key so that it is written over",
            OWN_OUTPUT,
        )
    if sink.kind is SinkKind.OTHER and top > facts.cut.batch:
        judgement.add(
            Verdict.DUPLICATES_POSSIBLE,
            f"batches {facts.cut.batch + 1} to {top} are written again to a {sink.format or 'custom'} sink",
            "restore the newest cut: the fewest batches come again",
            f"remove from the sink what came after batch {facts.cut.batch}",
            OWN_OUTPUT,
        )


def _judge_given(facts: QueryFacts, drained: Drained | None, top: int, judgement: Judgement) -> None:
    """Judge what the sink may have beyond the recorded batches; a fenced function's notes say what it has at most."""
    last = drained.batch - 1 if drained is not None else None
    planned_to = facts.planned_to if last is None else min(facts.planned_to, last)
    noted = facts.given_to
    if noted is not None:
        reached = noted if last is None else min(noted, last)
        if reached > top:
            judgement.add(
                Verdict.LOSS_POSSIBLE,
                f"the fenced function was given batches up to {reached}, but boundaries are recorded up to {top} only",
                RECORDED_CUT,
                f"accept LOSS_POSSIBLE by name, once what came after batch {top} is removed from the sink",
            )
    elif planned_to > top:
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"batches up to {planned_to} were planned, but boundaries are recorded up to {top} only",
            RECORDED_CUT,
            f"look whether the sink has anything after batch {top}; if not, accept LOSS_POSSIBLE by name",
        )
    elif not facts.complete:
        judgement.add(
            Verdict.LOSS_POSSIBLE,
            f"the last working directory is gone, so batches after {top} may have reached the sink unrecorded",
            f"look whether the sink has anything after batch {top}; if not, accept LOSS_POSSIBLE by name",
            "wrap the function with fenced(): its notes outlive the working directory",
        )
