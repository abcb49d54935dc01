"""What a restore would do, decided from facts alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.drain import write_drain_entry
from airflow_provider_ha.checkpoints.areas.working_records import readable
from airflow_provider_ha.checkpoints.model import BatchEntry, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.ownership import AdoptedCheckpoint, ClaimMode, Owner
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import (
    ExternalState,
    QueryFacts,
    RestoreCase,
    RestoreFacts,
    UnknownFact,
)
from airflow_provider_ha.checkpoints.restore.plan import RestoreChoices, not_accepted, plan_restore
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.sinks.sink_type import SinkState
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchRecord
from airflow_provider_ha.checkpoints.sources.kafka_offsets import PartitionOffsets
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.jobs.model import DrainedQuery
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint


NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
FILE = QuerySink(kind=SinkKind.FILE, format="json", path="/out")
TABLE = QuerySink(kind=SinkKind.FOREACH_BATCH, repeatable=True)
DELTA = QuerySink(kind=SinkKind.OTHER, format="delta", table="/table")
KAFKA_CUT, KAFKA_REPLAY = '{"orders":{"0":100}}', '{"orders":{"0":110}}'


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
        sink=SinkState(sink_max, {batch: f"digest {batch}" for batch in range(5, sink_max + 1)}),
    )


def plan(
    known: QueryFacts, drained: DrainedQuery | None = None, *, same_output: bool = True, **options: Any
) -> RestorePlan:
    chosen = RestoreSource(
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
    known = replace(known, drain=drained) if drained else known
    choices = RestoreChoices(job_id="target", source_job="source", same_output=same_output, **options)
    return plan_restore(RestoreFacts(RestoreCase(chosen=chosen, at=NOW), {"q": known}), choices)


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


def test_a_query_whose_boundaries_are_written_after_its_rows_reads_on_from_the_cut() -> None:
    made = plan(facts(QuerySink(kind=SinkKind.OTHER, format="kafka", unplanned=True), 5, 6, planned_to=7))

    assert (made.verdict, replayed(made)) == (Verdict.DUPLICATES_POSSIBLE, [])


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


@pytest.mark.parametrize("same_output", [True, False])
@pytest.mark.parametrize(("cut", "verdict"), [(4, Verdict.SAFE), (5, Verdict.IMPOSSIBLE)])
def test_a_drained_state_is_an_end(tmp_path: Path, cut: int, verdict: Verdict, same_output: bool) -> None:
    """The user names the fork of a drain, or a copy of it: its watermark would drop every later row as late."""
    fork = checkpoint(tmp_path / QUERY, range(5))
    write_drain_entry(LocalTree(fork))
    recorded = {entry.batch: entry for entry in readable(LocalTree(fork))}
    known = QueryFacts(
        cut=QueryCut(batch=cut, sink=DELTA.model_copy(update={"format": "noop"}), entries=(recorded[cut],)),
        history={cut: recorded[cut]},
        planned_to=cut,
        complete=True,
    )

    made = plan(known, same_output=same_output)

    assert made.verdict is verdict
    assert not_accepted(made, set(Verdict)) == ([] if verdict is Verdict.SAFE else [Verdict.IMPOSSIBLE])


def test_the_batch_of_a_drain_that_was_planned_only_is_not_replayed(tmp_path: Path) -> None:
    fork = checkpoint(tmp_path / QUERY, range(5))
    write_drain_entry(LocalTree(fork))
    recorded = {entry.batch: entry for entry in readable(LocalTree(fork))}
    known = replace(facts(TABLE, 5), history={batch: recorded[batch] for batch in (4, 5)})
    known = replace(known, cut=known.cut.model_copy(update={"entries": (recorded[4],)}))

    assert plan(known).verdict is Verdict.IMPOSSIBLE


def test_a_cut_of_a_timeline_that_was_given_up_may_lose_rows() -> None:
    known = facts(FILE, 5, sink_max=5)
    turned = {4: entry(4, "other"), 5: entry(5, "other")}

    assert plan(replace(known, history=turned)).verdict is Verdict.LOSS_POSSIBLE


@pytest.mark.parametrize("sink", [FILE, TABLE, DELTA])
def test_a_cut_that_a_later_run_has_left_may_lose_rows(sink: QuerySink) -> None:
    made = plan(replace(facts(sink, sink_max=4), left_by=7))

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert any("run 7 did not continue from this cut" in reason for reason in made.reasons)


@pytest.mark.parametrize("sink", [FILE, DELTA])
def test_for_another_output_it_does_not_matter_what_a_later_run_has_written(sink: QuerySink) -> None:
    known = replace(facts(sink), left_by=7)

    assert plan(known, same_output=False).verdict is Verdict.SAFE


def test_a_replay_whose_input_is_gone_is_impossible() -> None:
    known = replace(facts(FILE, 5, sink_max=5), around=ExternalState(missing={5: ("/in/5.json",)}))

    made = plan(known)

    assert (made.verdict, made.reasons) == (
        Verdict.IMPOSSIBLE,
        ("q: batch 5 has to be replayed, but its input /in/5.json is gone",),
    )


def test_an_output_that_was_emptied_may_have_lost_rows() -> None:
    assert plan(facts(FILE, sink_max=-1)).verdict is Verdict.LOSS_POSSIBLE


def test_an_output_that_the_script_has_not_named_yet_has_lost_nothing() -> None:
    """A copy of a job that was stopped while its script waited, before it came to this query."""
    known = facts(QuerySink(kind=SinkKind.FILE, format="json"))

    assert plan(known).verdict is Verdict.SAFE


def test_another_output_starts_at_the_cut_and_replays_nothing() -> None:
    made = plan(facts(FILE, 5, 6, sink_max=9), same_output=False)

    assert (made.verdict, replayed(made), made.queries["q"].set_aside) == (Verdict.SAFE, [], {})


def test_another_output_needs_the_log_of_the_old_one() -> None:
    known = replace(facts(FILE), sink=SinkState(log_kept=False))

    assert plan(known, same_output=False).verdict is Verdict.IMPOSSIBLE


@pytest.mark.parametrize(("wrote", "verdict"), [(False, Verdict.SAFE), (True, Verdict.DUPLICATES_POSSIBLE)])
def test_a_drain_that_gave_a_function_nothing_leaves_nothing_to_take_back(wrote: bool, verdict: Verdict) -> None:
    assert plan(facts(TABLE), DrainedQuery(batch=5, wrote=wrote)).verdict is verdict


def kafka(earliest: int, latest: int = 120) -> QueryFacts:
    """Facts about a query that had read 100 rows at the cut, and 110 with the batch after it."""
    cut = BatchEntry(batch=4, offsets=f"v1\n{{}}\n{KAFKA_CUT}")
    recorded = {4: cut, 5: BatchEntry(batch=5, offsets=f"v1\n{{}}\n{KAFKA_REPLAY}")}
    known = facts(FILE, 5, sink_max=5)
    around = ExternalState(kafka={("orders", 0): PartitionOffsets(earliest, latest)})
    return replace(known, cut=known.cut.model_copy(update={"entries": (cut,)}), history=recorded, around=around)


def test_kafka_that_still_has_every_row_is_safe() -> None:
    made = plan(kafka(earliest=100))

    (source,) = made.queries["q"].inputs
    assert (made.verdict, source.amount, source.gone, source.partitions[0].unread) == (Verdict.SAFE, 10, 0, 10)


@pytest.mark.parametrize("same_output", [True, False])
def test_rows_that_retention_has_removed_are_counted_and_may_be_lost(same_output: bool) -> None:
    made = plan(kafka(earliest=103), same_output=same_output)

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert made.reasons == ("q: source 0: 3 rows after the cut were removed by retention, of orders-0",)
    assert any("failOnDataLoss" in way for way in made.findings[0].ways_out)


def test_a_topic_that_was_made_again_has_other_rows() -> None:
    made = plan(kafka(earliest=0, latest=50))

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert "orders-0 ends before the offsets that were read" in made.reasons[0]


def test_a_partition_that_is_gone_may_be_lost_with_everything_in_it() -> None:
    made = plan(replace(kafka(100), around=ExternalState(kafka={})))

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert made.reasons == (
        "q: source 0: orders-0 is gone, with 10 rows that were read after the cut and all unread rows",
    )


def test_what_is_not_known_is_judged_as_a_loss_and_stops_until_its_query_is_named() -> None:
    known = replace(kafka(100), around=ExternalState(unknown=(UnknownFact("no broker answered", "Start Kafka"),)))

    stopped, named = plan(known), plan(known, accept_unverified={"q"})

    assert (stopped.verdict, stopped.unknown) == (Verdict.LOSS_POSSIBLE, {"q": ("no broker answered",)})
    assert (named.verdict, named.unknown) == (Verdict.LOSS_POSSIBLE, {})
    assert stopped.findings[0].ways_out[0] == "Start Kafka"


def test_a_source_that_forgets_may_lose_rows() -> None:
    known = facts(FILE, sink_max=4)
    cut = BatchEntry(batch=4, offsets="v1\n{}\n17")
    known = replace(
        known, cut=known.cut.model_copy(update={"entries": (cut,)}), history={4: cut}, around=ExternalState()
    )

    assert plan(known).verdict is Verdict.LOSS_POSSIBLE
    assert plan(replace(known, around=ExternalState(initial={"0": "1795307983407"}))).verdict is Verdict.SAFE


def delta(reached: int, *recorded: int, gone: bool = False) -> QueryFacts:
    table = SinkState(reached=reached, gone=gone)
    return replace(facts(DELTA, *recorded), sink=table, around=ExternalState(sink_gone=gone, table_batch=reached))


@pytest.mark.parametrize("reached", [4, 5, 6])
def test_a_table_whose_batches_are_all_recorded_is_safe(reached: int) -> None:
    made = plan(delta(reached, 5, 6))

    assert (made.verdict, made.queries["q"].sink.max_batch, replayed(made)) == (Verdict.SAFE, reached, [5, 6])


def test_a_table_would_skip_what_is_planned_afresh_unless_the_query_gets_another_id() -> None:
    kept, fresh = plan(delta(7, 5)), plan(delta(7, 5), reset_query_ids={"q": "a new id"})

    assert (kept.verdict, kept.queries["q"].query_id) == (Verdict.IMPOSSIBLE, None)
    assert any("--reset-query-ids" in way for way in kept.findings[0].ways_out)
    assert (fresh.verdict, fresh.queries["q"].query_id) == (Verdict.DUPLICATES_POSSIBLE, "a new id")
    assert fresh.reasons == ("q: with a fresh query id batches 6 to 7, which the table has, are written again",)


@pytest.mark.parametrize(("known", "reason"), [(delta(2), "up to 2 only"), (delta(-1, gone=True), "/table is lost")])
def test_a_table_that_lacks_batches_has_lost_rows(known: QueryFacts, reason: str) -> None:
    made = plan(known)

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert reason in made.reasons[0]
    assert made.queries["q"].sink_gone == ("lost" in reason)


@pytest.mark.parametrize(("kept", "verdict"), [(True, Verdict.LOSS_POSSIBLE), (False, Verdict.IMPOSSIBLE)])
def test_an_output_that_is_gone_needs_the_log_that_is_kept_with_the_cut(kept: bool, verdict: Verdict) -> None:
    known = replace(facts(FILE), sink=SinkState(gone=True, log_kept=kept))

    made = plan(known)

    assert (made.verdict, made.queries["q"].sink_gone) == (verdict, True)
    assert ("is lost" if kept else "is gone") in made.reasons[0]


def noted(known: QueryFacts, *begun: int) -> QueryFacts:
    """Add the notes of a fenced function: one epoch for each number."""
    notes = {
        epoch: ForeachBatchRecord(epoch=epoch, begun=batch, finished=batch - 1) for epoch, batch in enumerate(begun, 1)
    }
    return replace(known, around=ExternalState(given=notes))


def test_a_planned_batch_that_the_fenced_function_was_never_given_cannot_be_lost() -> None:
    known = replace(facts(TABLE, 5, planned_to=6), epochs=frozenset({1}))

    made = plan(noted(known, 5))

    assert made.verdict is Verdict.SAFE
    assert made.queries["q"].given is not None
    assert (made.queries["q"].given.begun, made.queries["q"].given.finished) == (5, 4)


def test_notes_outlive_the_last_working_directory() -> None:
    known = replace(facts(TABLE, 5), complete=False, epochs=frozenset({1}))

    assert plan(noted(known, 5)).verdict is Verdict.SAFE
    assert plan(noted(known, 6)).verdict is Verdict.LOSS_POSSIBLE


def test_an_epoch_that_kept_no_notes_may_have_given_what_was_planned() -> None:
    known = replace(facts(TABLE, 5, planned_to=6), epochs=frozenset({1, 2}))

    assert plan(noted(known, 5)).verdict is Verdict.LOSS_POSSIBLE
    assert plan(noted(known, 5, 5)).verdict is Verdict.SAFE


def test_a_batch_that_one_epoch_has_noted_may_be_lost_although_another_one_kept_no_notes() -> None:
    known = replace(facts(TABLE, 5), epochs=frozenset({1, 2}))

    assert plan(noted(known, 6)).verdict is Verdict.LOSS_POSSIBLE
    assert plan(noted(known, 5)).verdict is Verdict.SAFE


BOTH = frozenset({Verdict.DUPLICATES_POSSIBLE, Verdict.LOSS_POSSIBLE})


@pytest.mark.parametrize(
    ("accept_verdicts", "missing"),
    [
        ((), ["LOSS_POSSIBLE", "DUPLICATES_POSSIBLE"]),
        ((Verdict.LOSS_POSSIBLE,), ["DUPLICATES_POSSIBLE"]),
        ((Verdict.DUPLICATES_POSSIBLE,), ["LOSS_POSSIBLE"]),
        (BOTH, []),
    ],
)
def test_each_verdict_is_accepted_by_its_own_name_only(accept_verdicts: frozenset[Verdict], missing: list[str]) -> None:
    made = plan(facts(TABLE, 5, planned_to=9), DrainedQuery(batch=8))

    assert {finding.verdict for finding in made.findings} == BOTH
    assert [verdict.value for verdict in not_accepted(made, {Verdict.SAFE, *accept_verdicts})] == missing


def test_nobody_can_ask_for_what_is_impossible() -> None:
    made = plan(delta(7, 5))

    assert not_accepted(made, set(Verdict)) == [Verdict.IMPOSSIBLE]


def test_everything_but_safe_comes_with_a_way_out() -> None:
    unsafe = [
        plan(facts(FILE, 5, 7, sink_max=7)),
        plan(facts(TABLE, 5, planned_to=6)),
        plan(facts(FILE, sink_max=-1)),
        plan(facts(TABLE, 5, 6), DrainedQuery(batch=6)),
        plan(replace(facts(FILE), sink=SinkState(log_kept=False)), same_output=False),
        plan(kafka(103)),
        plan(delta(7, 5)),
        plan(delta(2)),
    ]

    assert all(finding.ways_out for made in unsafe for finding in made.findings)
    assert all(made.findings for made in unsafe)


def plan_of(
    source: str, *, adopted: bool = False, claimed: bool = False, has_state: bool = False, mode: ClaimMode
) -> RestorePlan:
    known = facts(QuerySink(kind=SinkKind.OTHER))
    directory = AdoptedCheckpoint(path="/elsewhere/q", query_id="id", planned=5, committed=4)
    chosen = RestoreSource(source, "3", "pins/3", {"q": known.cut}, 1, 1, "g", "4.2.0", NOW)
    return plan_restore(
        RestoreFacts(
            RestoreCase(
                chosen=chosen,
                at=NOW,
                adopted={"q": directory} if adopted else {},
                claimed=claimed,
                has_state=has_state,
            ),
            {"q": known},
        ),
        RestoreChoices(job_id="j", source_job="j", claim_mode=mode),
    )


@pytest.mark.parametrize(
    ("source", "claimed", "mode", "owner"),
    [
        ("checkpoint", False, ClaimMode.NO_CLAIM, Owner.JOB),
        ("savepoint", False, ClaimMode.NO_CLAIM, Owner.USER),
        ("savepoint", False, ClaimMode.CLAIM, Owner.JOB),
        ("savepoint", True, ClaimMode.NO_CLAIM, Owner.JOB),
        ("path", False, ClaimMode.NO_CLAIM, Owner.USER),
        ("path", False, ClaimMode.CLAIM, Owner.JOB),
    ],
)
def test_the_owner_follows_from_the_source_and_from_every_claim(
    source: str, claimed: bool, mode: ClaimMode, owner: Owner
) -> None:
    made = plan_of(source, adopted=source == "path", claimed=claimed, mode=mode)

    assert (made.owner, made.claim_mode) == (owner, mode)


def test_an_adoption_by_a_job_with_checkpoints_gives_them_up() -> None:
    mode = ClaimMode.NO_CLAIM

    given_up = [
        plan_of("path", adopted=True, has_state=has_state, mode=mode).verdict is Verdict.DUPLICATES_POSSIBLE
        for has_state in (True, False)
    ]

    assert given_up == [True, False]
    assert plan_of("checkpoint", has_state=True, mode=mode).verdict is Verdict.SAFE


def test_an_adopted_query_in_flight_whose_sink_is_not_named_is_pointed_out() -> None:
    made = plan_of("path", adopted=True, mode=ClaimMode.NO_CLAIM)

    assert made.reasons == (
        "q: its sink is not named; the content of a file sink counts only if its directory is named",
    )
