"""What a plan says of finished batches that come again: SAFE only where it is declared, or where they are discarded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalState, QueryFacts
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchRecord
from airflow_provider_ha.jobs.model import DrainedQuery
from tests.unit.checkpoints.test_plan import facts, plan


FUNCTION = QuerySink(kind=SinkKind.FOREACH_BATCH, format="foreachBatch")
FORMATS = ("kafka", "foreach", "jdbc", "org.example.Custom")
NO_RECORD = [FUNCTION, *(QuerySink(kind=SinkKind.OTHER, format=each) for each in FORMATS)]


def noted(known: QueryFacts, *epochs: tuple[int, int]) -> QueryFacts:
    """Facts with notes of a fenced function: begun and finished, from epoch 1 on. The cut is at batch 4."""
    notes = {
        epoch: ForeachBatchRecord(epoch=epoch, run=1, begun=begun, finished=finished)
        for epoch, (begun, finished) in enumerate(epochs, 1)
    }
    return replace(known, epochs=frozenset(notes), around=ExternalState(given=notes))


def discarded(made: RestorePlan) -> list[int]:
    part = made.queries["q"]
    return [entry.batch for entry in part.replay if entry.batch <= part.discarded_to]


@pytest.mark.parametrize("sink", NO_RECORD, ids=lambda sink: sink.format)
def test_batches_that_a_sink_without_a_record_has_are_not_given_again_as_safe(sink: QuerySink) -> None:
    made = plan(facts(sink, 5, 6, 7))

    assert made.verdict is Verdict.DUPLICATES_POSSIBLE
    assert "batches 5 to 7 are" in made.reasons[0]
    assert "repeatable" in made.findings[0].ways_out[0]


@pytest.mark.parametrize("sink", NO_RECORD, ids=lambda sink: sink.format)
def test_a_query_without_repeated_batches_needs_no_declaration(sink: QuerySink) -> None:
    assert plan(facts(sink)).verdict is Verdict.SAFE


@pytest.mark.parametrize("sink", NO_RECORD, ids=lambda sink: sink.format)
def test_a_query_that_the_job_or_its_script_declares_repeatable_gets_them_again(sink: QuerySink) -> None:
    by_the_job = plan(facts(sink, 5, 6), repeatable=("q",))
    by_the_script = plan(facts(sink.model_copy(update={"repeatable": True}), 5, 6))

    assert {by_the_job.verdict, by_the_script.verdict} == {Verdict.SAFE}
    assert by_the_job.queries["q"].sink.repeatable


def test_the_declaration_of_one_query_is_not_that_of_another() -> None:
    assert plan(facts(FUNCTION, 5), repeatable=("other",)).verdict is Verdict.DUPLICATES_POSSIBLE


def test_a_declaration_does_not_cover_batches_with_lost_boundaries() -> None:
    assert plan(facts(FUNCTION, 5, planned_to=6), repeatable=("q",)).verdict is Verdict.LOSS_POSSIBLE


def test_what_a_fenced_function_has_finished_is_discarded_and_safe() -> None:
    made = plan(noted(facts(FUNCTION, 5, 6, 7), (7, 7)))

    assert made.verdict is Verdict.SAFE
    assert discarded(made) == [5, 6, 7]


def test_only_the_batch_in_flight_of_a_fenced_function_is_uncertain() -> None:
    made = plan(noted(facts(FUNCTION, 5, 6, 7), (6, 5)))

    assert made.verdict is Verdict.DUPLICATES_POSSIBLE
    assert "batch 6 is given to the function again" in made.reasons[0]
    assert discarded(made) == [5]


def test_a_batch_that_was_planned_and_never_given_is_not_given_again() -> None:
    assert plan(noted(facts(FUNCTION, 5, 6, 7), (6, 6))).verdict is Verdict.SAFE


def test_a_repeatable_fenced_function_gets_finished_batches_again() -> None:
    made = plan(noted(facts(FUNCTION, 5, 6), (6, 6)), repeatable=("q",))

    assert (made.verdict, discarded(made)) == (Verdict.SAFE, [])


def test_where_an_epoch_kept_no_notes_what_it_was_given_is_uncertain() -> None:
    known = noted(facts(FUNCTION, 5, 6), (5, 5))

    made = plan(replace(known, epochs=frozenset({1, 2})))

    assert made.verdict is Verdict.DUPLICATES_POSSIBLE
    assert "batch 6 is" in made.reasons[0]
    assert discarded(made) == [5]


def test_a_batch_that_was_planned_anew_is_not_the_one_that_was_finished_under_its_number() -> None:
    """Epoch 1 finished up to 7; the run of epoch 2 planned its own batches from 6 on, and died in its 6."""
    known = noted(facts(FUNCTION, 5, 6), (7, 7), (6, 5))

    made = plan(replace(known, turns={2: 6}))

    assert discarded(made) == [5]
    assert Verdict.DUPLICATES_POSSIBLE in {finding.verdict for finding in made.findings}


def test_a_restore_that_accepts_a_loss_discards_no_batch_that_is_planned_anew() -> None:
    made = plan(noted(facts(FUNCTION, 5, planned_to=9), (9, 9)))

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert made.queries["q"].discarded_to == 5


def test_another_job_with_its_own_output_discards_nothing() -> None:
    made = plan(noted(facts(FUNCTION, 5, 6), (6, 6)), same_output=False)

    assert made.queries["q"].discarded_to == -1


HIDDEN = [*NO_RECORD, QuerySink(kind=SinkKind.OTHER, format="delta"), QuerySink(kind=SinkKind.OTHER, format="iceberg")]


@pytest.mark.parametrize("sink", HIDDEN, ids=lambda sink: sink.format)
@pytest.mark.parametrize(
    "later",
    [
        facts(FUNCTION, 5),
        facts(FUNCTION, planned_to=5),
        replace(facts(FUNCTION), complete=False),
        replace(facts(FUNCTION), writers_dead=False),
        replace(facts(FUNCTION), left_by=7),
        replace(facts(FUNCTION), drain=DrainedQuery(batch=5, wrote=True)),
    ],
    ids=["recorded", "planned", "unrecorded", "running", "another run", "drained"],
)
def test_another_job_whose_sink_may_be_the_same_is_not_safe(sink: QuerySink, later: QueryFacts) -> None:
    """A declaration does not help: it is about a batch with its own rows, and the numbers get other ones."""
    known = replace(later, cut=later.cut.model_copy(update={"sink": sink}))

    made = plan(known, same_output=False, repeatable=("q",))

    assert made.verdict is Verdict.LOSS_POSSIBLE
    assert "nothing shows whether its" in made.reasons[0]
    assert "job_id" in made.findings[0].ways_out[0]


@pytest.mark.parametrize(
    "sink", [*HIDDEN, QuerySink(kind=SinkKind.OTHER, format="console")], ids=lambda sink: sink.format
)
def test_a_job_that_continues_an_ended_job_shares_no_output_with_it(sink: QuerySink) -> None:
    assert plan(facts(sink), same_output=False).verdict is Verdict.SAFE


@pytest.mark.parametrize(("fresh", "verdict"), [({}, Verdict.SAFE), ({"q": "new"}, Verdict.LOSS_POSSIBLE)])
def test_a_table_that_the_driver_looks_at_is_shared_in_silence_under_a_fresh_id_only(
    fresh: dict[str, str], verdict: Verdict
) -> None:
    table = QuerySink(kind=SinkKind.OTHER, format="delta", table="/table")

    assert plan(facts(table, 5), same_output=False, reset_query_ids=fresh).verdict is verdict


def test_a_sink_for_a_look_at_rows_is_shared_with_no_job() -> None:
    known = replace(facts(QuerySink(kind=SinkKind.OTHER, format="console"), 5), complete=False)

    assert plan(known, same_output=False).verdict is Verdict.SAFE
