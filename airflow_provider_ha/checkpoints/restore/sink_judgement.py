"""Judgement whether a cut is on the sinks' timeline, for sinks of any type."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.connectors.sink_connector import OWN_OUTPUT
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts
from airflow_provider_ha.checkpoints.restore.judgement import Judgement


def judge_timeline(facts: QueryFacts, judgement: Judgement) -> None:
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
