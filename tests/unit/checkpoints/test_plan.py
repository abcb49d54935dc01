"""What a restore would do, decided from facts alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, RestorePlan, SinkKind, Verdict
from airflow_provider_ha.checkpoints.restore.facts import QueryFacts
from airflow_provider_ha.checkpoints.restore.plan import plan_restore
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.jobs.model import DrainedQuery


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
FILE = QuerySink(kind=SinkKind.FILE, format="json", path="/out")
TABLE = QuerySink(kind=SinkKind.FOREACH_BATCH)


def entry(batch: int, offsets: str = "same") -> BatchEntry:
    return BatchEntry(batch=batch, offsets=f"{offsets} {batch}", sources={"0": ("a line", "another")})


def history(*batches: int) -> dict[int, BatchEntry]:
    return {batch: entry(batch) for batch in batches}


def facts(sink: QuerySink, *recorded: int, sink_max: int = -1, planned_to: int | None = None) -> QueryFacts:
    """Facts about a query that is cut at batch 4."""
    return QueryFacts(
        cut=QueryCut(batch=4, sink=sink, entries=(entry(4),)),
        history=history(4, *recorded),
        planned_to=planned_to if planned_to is not None else max((4, *recorded)),
        complete=True,
        sink_max=sink_max,
        sink_digests={batch: f"digest {batch}" for batch in range(5, sink_max + 1)},
    )


def plan(known: QueryFacts, drained: DrainedQuery | None = None, *, same_output: bool = True) -> RestorePlan:
    chosen = Chosen(
        source="checkpoint",
        source_id="3",
        directory="pins/3",
        queries={"q": known.cut},
        run=1,
        epoch=1,
        graph="g",
        spark_version="4.2.0",
        created_at=NOW - timedelta(seconds=90),
    )
    return plan_restore(
        chosen,
        {"q": known},
        job_id="target",
        source_job="source",
        now=NOW,
        drained={"q": drained} if drained else {},
        same_output=same_output,
    )


def replayed(made: RestorePlan) -> list[int]:
    return [entry.batch for entry in made.queries["q"].replay]


@pytest.mark.parametrize("sink", [FILE, TABLE])
def test_recorded_without_a_gap_is_safe(sink: QuerySink) -> None:
    made = plan(facts(sink, 5, 6, 7, sink_max=6))

    assert (made.verdict, replayed(made), made.queries["q"].input_files) == (Verdict.SAFE, [5, 6, 7], 6)
    assert made.age_seconds == 90


def test_a_file_sink_that_is_ahead_of_the_records_may_lose_rows() -> None:
    made = plan(facts(FILE, 5, 7, sink_max=7))

    assert (made.verdict, replayed(made)) == (Verdict.LOSS_POSSIBLE, [5])
    assert made.queries["q"].set_aside == {6: "digest 6", 7: "digest 7"}
    assert made.reasons == ("q: the file sink has batches up to 7, but boundaries are recorded up to 5 only",)


def test_a_gap_above_what_the_file_sink_has_loses_nothing() -> None:
    assert plan(facts(FILE, 5, 7, sink_max=5)).verdict is Verdict.SAFE


def test_a_planned_batch_that_is_not_recorded_may_be_lost_in_a_sink_without_a_log() -> None:
    assert plan(facts(TABLE, 5, planned_to=6)).verdict is Verdict.LOSS_POSSIBLE


def test_without_the_last_directory_nobody_knows_what_a_sink_without_a_log_has() -> None:
    known = facts(TABLE, 5)

    assert plan(replace(known, complete=False)).verdict is Verdict.LOSS_POSSIBLE
    assert plan(replace(facts(FILE, 5, sink_max=5), complete=False)).verdict is Verdict.SAFE


def test_the_entry_of_a_drain_is_set_aside_and_its_batch_is_not_replayed() -> None:
    drained = DrainedQuery(batch=6, sink_path="/out", sink_entry_sha256="digest 6")

    made = plan(facts(FILE, 5, 6, sink_max=6), drained)

    assert (made.verdict, replayed(made), made.queries["q"].set_aside) == (Verdict.SAFE, [5], {6: "digest 6"})


def test_an_entry_that_is_not_the_drains_is_not_taken_for_it() -> None:
    drained = DrainedQuery(batch=6, sink_path="/out", sink_entry_sha256="another digest")

    assert plan(facts(FILE, 5, sink_max=6), drained).verdict is Verdict.LOSS_POSSIBLE


def test_a_drain_into_a_sink_without_a_log_may_have_written_rows_that_come_again() -> None:
    assert plan(facts(TABLE, 5, 6), DrainedQuery(batch=6)).verdict is Verdict.DUPLICATES_POSSIBLE


def test_a_cut_of_a_timeline_that_was_given_up_may_lose_rows() -> None:
    known = facts(FILE, 5, sink_max=5)
    turned = {4: entry(4, "other"), 5: entry(5, "other")}

    assert plan(replace(known, history=turned)).verdict is Verdict.LOSS_POSSIBLE


def test_a_replay_whose_input_is_gone_is_impossible() -> None:
    known = replace(facts(FILE, 5, sink_max=5), missing_inputs={5: ("/in/5.json",)})

    made = plan(known)

    assert (made.verdict, made.reasons) == (
        Verdict.IMPOSSIBLE,
        ("q: batch 5 has to be replayed, but its input /in/5.json is gone",),
    )


def test_an_output_that_was_emptied_may_have_lost_rows() -> None:
    assert plan(facts(FILE, sink_max=-1)).verdict is Verdict.LOSS_POSSIBLE


def test_another_output_starts_at_the_cut_and_replays_nothing() -> None:
    made = plan(facts(FILE, 5, 6, sink_max=9), same_output=False)

    assert (made.verdict, replayed(made), made.queries["q"].set_aside) == (Verdict.SAFE, [], {})


def test_another_output_needs_the_log_of_the_old_one() -> None:
    known = replace(facts(FILE), sink_log_kept=False)

    assert plan(known, same_output=False).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(("wrote", "verdict"), [(False, Verdict.SAFE), (True, Verdict.DUPLICATES_POSSIBLE)])
def test_a_drain_that_gave_a_function_nothing_leaves_nothing_to_take_back(wrote: bool, verdict: Verdict) -> None:
    assert plan(facts(TABLE), DrainedQuery(batch=5, wrote=wrote)).verdict is verdict
