"""What a driver goes on from when its run's last working directory cannot be continued: all real but Spark."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.restore.facts import ExternalQueries
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, FileSinkLog
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.sources.input_files import MissingInputFiles
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.checkpointing import fallback
from airflow_provider_ha.driver.checkpointing.origin import OriginKind
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.errors import DecisionNeededError, RestoreUnknownError, StorageUnavailableError
from airflow_provider_ha.jobs.model import Status
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.lost_run import FORGETFUL, LostRun
from tests.support.clusters.coordination_helpers import JOB
from tests.support.spark.recorded_job import QUERY


pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def lost(job: Job) -> LostRun:
    made = LostRun(job)
    made.publish(3)
    return made


def test_a_damaged_directory_is_replaced_by_the_newest_checkpoint(lost: LostRun) -> None:
    lost.publish()
    lost.empty_newest_entry()

    origin = lost.start()

    assert (origin.kind, origin.source) == (OriginKind.FALLBACK, "checkpoint-2")
    assert progress(origin.directory / QUERY) == Progress(3, 3)
    assert origin.fallback is not None
    assert "offsets/3" in origin.fallback.sentence
    assert origin.recorded(QUERY) == ()


def test_a_file_that_has_another_length_is_damage(lost: LostRun) -> None:
    """Nothing of its content is read: the batch before the last is only needed to be there."""
    entry = lost.directory / QUERY / "commits" / "2"
    content = entry.read_bytes()
    entry.unlink()
    entry.write_bytes(content + b" ")

    origin = lost.start()

    assert origin.kind is OriginKind.FALLBACK
    assert origin.fallback is not None
    assert "bytes, and had" in origin.fallback.reason


def test_a_directory_that_is_gone_is_replaced_when_the_sink_can_have_nothing_more(job: Job) -> None:
    lost = LostRun(job, FORGETFUL)
    lost.publish(3)
    shutil.rmtree(lost.directory)

    origin = lost.start()

    assert origin.kind is OriginKind.FALLBACK
    assert origin.fallback is not None
    assert "is gone" in origin.fallback.reason


def test_what_the_run_had_started_outlives_its_directory(job: Job) -> None:
    """Else the end of the script would drop a query that it did not start again."""
    lost = LostRun(job, FORGETFUL)
    lost.publish(3)
    shutil.rmtree(lost.directory)

    before = StartLedger(lost.start().directory).before

    assert (list(before.sinks), before.complete) == ([QUERY], True)


def test_a_directory_that_is_gone_needs_a_decision_when_the_sink_may_have_more(lost: LostRun) -> None:
    """Only the directory knew whether a batch was planned after the checkpoint."""
    shutil.rmtree(lost.directory)

    with pytest.raises(DecisionNeededError) as caught:
        lost.start()

    for word in (JOB, QUERY, "run 1", "is gone", "LOSS_POSSIBLE", "--accept-verdicts LOSS_POSSIBLE", "--dry-run"):
        assert word in str(caught.value)
    assert list((lost.directory.parent).glob("e2-*")) == []


def test_a_directory_that_was_put_back_needs_no_decision_any_more(lost: LostRun) -> None:
    """It says itself what was planned: a restore of the run is SAFE then, whether the directory can be continued."""
    lost.query.commit()
    gone = lost.directory.rename(lost.directory.with_name("away"))
    with pytest.raises(DecisionNeededError):
        lost.start()

    gone.rename(lost.directory)

    _, plan = lost.planner().plan(lost.previous, DecisionNeededError("it was gone"), refused=False)
    assert (plan.verdict, [entry.batch for entry in plan.queries[QUERY].replay]) == (Verdict.SAFE, [3])


def test_a_planned_batch_whose_boundaries_are_lost_needs_a_decision(lost: LostRun) -> None:
    lost.plan_next("")

    with pytest.raises(DecisionNeededError, match="batches up to 3 were planned"):
        lost.start()


@pytest.mark.parametrize("dead", [True, False])
def test_a_drains_entry_on_storage_without_renames_is_set_aside_when_its_writer_is_dead(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dead: bool
) -> None:
    """A request that is on its way would write the entry again, and the next driver skip its own batch."""
    monkeypatch.setattr(FileSink, "needs_proof", True)
    output = tmp_path / "out"
    (output / LOG).mkdir(parents=True)
    for batch in range(3):
        (output / LOG / str(batch)).write_text("v1")
    lost = LostRun(job, SinkSpec(SinkKind.FILE, "json", path=str(output)))
    lost.publish(3)
    lost.begin_to_drain(output)
    lost.empty_newest_entry()

    with nullcontext() if dead else pytest.raises(DecisionNeededError, match="not proven dead"):
        lost.start(writers_dead=dead)

    assert FileSinkLog(output).max_batch() == (2 if dead else 3)


def test_a_work_root_that_is_away_is_not_a_directory_that_is_gone(lost: LostRun) -> None:
    """Storage and ZooKeeper are there: taken for gone, its directory would stop the run until a person comes."""
    lost.area = LinkedWorkArea(lost.job.config.work_path.with_name("not-mounted"))

    with pytest.raises(StorageUnavailableError, match=r"work root .* is not there"):
        lost.start()


def test_storage_that_does_not_answer_is_no_damage(lost: LostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise StorageUnavailableError("Input/output error")

    monkeypatch.setattr(LinkedWorkArea, "fork", fails)

    with pytest.raises(StorageUnavailableError, match="Input/output error"):
        lost.start()


def test_what_could_not_be_found_out_for_the_moment_is_asked_again(
    lost: LostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that does not answer is an outage, and no reason to wake a person."""
    away = MissingInputFiles(missing={}, asked=frozenset(), error=StorageUnavailableError("S3 does not answer"))
    external = ExternalQueries(ask_kafka=lambda *_: {}, ask_inputs=lambda _: away)
    monkeypatch.setattr(fallback, "external_queries", lambda *_: external)
    lost.empty_newest_entry()

    with pytest.raises(RestoreUnknownError, match="S3 does not answer"):
        lost.start()


def test_a_fact_that_can_never_be_known_is_named_with_what_accepts_it(lost: LostRun) -> None:
    note = lost.job.config.work_path / lost.job.keys.given(QUERY) / "e1.json"
    note.parent.mkdir(parents=True)
    note.write_text("damaged")
    lost.empty_newest_entry()

    with pytest.raises(DecisionNeededError, match=f"--accept-verdicts LOSS_POSSIBLE --accept-unverified {QUERY}"):
        lost.start()


def test_a_run_without_a_checkpoint_needs_a_decision(job: Job) -> None:
    lost = LostRun(job)
    lost.query.commit()
    lost.empty_newest_entry()

    with pytest.raises(DecisionNeededError, match="no checkpoint yet"):
        lost.start()


def test_a_checkpoint_of_another_run_is_not_taken(lost: LostRun) -> None:
    """Run 2 was submitted to begin from nothing: its batches are others."""
    lost.previous = lost.previous.model_copy(update={"run": 2})
    lost.empty_newest_entry()

    with pytest.raises(DecisionNeededError, match="it is of run 1, and this is run 2"):
        lost.start(run=2)


def test_a_fallback_executes_nothing_again_that_the_run_before_has_recorded(lost: LostRun) -> None:
    """The run began from nothing: under the next number the run before it had another batch."""
    own = lost.job.checkpoints.load(next(iter(lost.job.checkpoints.list())))
    part = own.queries[QUERY].model_copy(update={"batch": 3, "entries": (BatchEntry(batch=3, offsets="another"),)})
    before = own.model_copy(update={"run": 0, "epoch": 0, "queries": {QUERY: part}})
    lost.job.objects.create(lost.job.keys.payload(before.number, before.epoch), before.to_bytes())
    lost.empty_newest_entry()

    origin = lost.start()

    assert (origin.kind, origin.source) == (OriginKind.FALLBACK, "checkpoint-1")
    assert origin.recorded(QUERY) == ()


def test_a_query_that_the_checkpoint_does_not_hold_needs_a_decision(lost: LostRun) -> None:
    lost.empty_newest_entry()

    with pytest.raises(DecisionNeededError, match="does not hold late"):
        lost.start(known=(QUERY, "late"))


def test_batches_that_a_function_has_finished_are_not_given_to_it_again_without_a_decision(lost: LostRun) -> None:
    lost.publish()
    lost.damage_pin(2)
    lost.empty_newest_entry()

    with pytest.raises(DecisionNeededError, match="batch 3 is given to the function again") as caught:
        lost.start(repeatable=())

    assert "--accept-verdicts DUPLICATES_POSSIBLE" in caught.value.next_step


def test_batches_that_a_fenced_function_has_finished_need_no_decision(lost: LostRun) -> None:
    lost.publish()
    lost.damage_pin(2)
    notes = ForeachBatchLog(lost.area.tree(lost.job.keys.given(QUERY)))
    notes.begin(1, 3)
    notes.finish(1, 3)
    lost.empty_newest_entry()

    origin = lost.start(repeatable=())

    assert (origin.plans[QUERY].discarded_to, [entry.batch for entry in origin.recorded(QUERY)]) == (3, [3])


def test_a_damaged_checkpoint_is_passed_over_and_its_batches_are_executed_again(lost: LostRun) -> None:
    lost.publish(2)
    lost.damage_pin(2)
    lost.empty_newest_entry("commits")

    origin = lost.start()

    assert origin.source == "checkpoint-1"
    assert [entry.batch for entry in origin.recorded(QUERY)] == [3, 4]


def test_a_fallback_that_was_broken_off_is_made_again(lost: LostRun) -> None:
    lost.empty_newest_entry()
    lost.start()  # its driver dies before it makes the directory current

    again = lost.start("third")

    assert again.kind is OriginKind.FALLBACK
    assert progress(again.directory / QUERY) == Progress(2, 2)


def test_the_epoch_after_a_fallback_goes_on_from_it_with_its_replays(lost: LostRun) -> None:
    lost.publish(2)
    lost.damage_pin(2)
    lost.empty_newest_entry()
    lost.begin(lost.start())

    origin = lost.start("third")

    assert origin.kind is OriginKind.RECOVERY
    assert [entry.batch for entry in origin.recorded(QUERY)] == [3, 4]
    assert origin.fallback == lost.previous.fallback


def test_a_fallback_is_told_to_those_who_look_at_the_job(lost: LostRun) -> None:
    lost.empty_newest_entry()

    lost.begin(lost.start())

    status = read_record(lost.job.coordinator, lost.job.paths.status, Status)
    assert status is not None
    assert status[0].message.startswith("fell back to checkpoint-1, because checkpoint file")


def test_a_directory_that_spark_refused_is_not_continued(lost: LostRun) -> None:
    origin = lost.start(refusal="[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED]")

    assert origin.kind is OriginKind.FALLBACK
    assert origin.fallback is not None
    assert "CANNOT_LOAD_STATE_STORE" in origin.fallback.reason


def test_a_query_for_a_look_at_rows_that_spark_refused_begins_anew_and_the_others_go_on(lost: LostRun) -> None:
    lost.look_at_rows()
    before = progress(LocalTree(lost.directory / QUERY))

    origin = lost.start(refusal="EOFException", refused="look")

    assert origin.kind is OriginKind.RECOVERY
    assert progress(origin.directory / QUERY) == before
    assert not origin.directory.has("look/metadata")


def test_another_query_that_spark_refused_is_not_continued_beside_one_for_a_look_at_rows(lost: LostRun) -> None:
    lost.look_at_rows()

    assert lost.start(refusal="EOFException", refused=QUERY).kind is OriginKind.FALLBACK


@pytest.mark.parametrize("damage", ["offsets", "metadata", "listing"])
def test_damage_of_a_query_for_a_look_at_rows_keeps_no_other_one_from_its_recovery(damage: str, lost: LostRun) -> None:
    look = lost.look_at_rows()
    if damage == "listing":
        shutil.rmtree(look / "offsets")
        (look / "offsets").touch()
    else:
        for path in (look / "offsets").iterdir() if damage == "offsets" else [look / "metadata"]:
            path.unlink()
            path.touch()

    assert lost.start().kind is OriginKind.RECOVERY


def test_a_query_for_a_look_at_rows_that_began_later_keeps_no_other_one_from_its_fallback(lost: LostRun) -> None:
    lost.look_at_rows()

    origin = lost.start(refusal="EOFException", refused=QUERY, known=(QUERY, "look"))

    assert origin.kind is OriginKind.FALLBACK


def test_a_checkpoint_that_spark_refused_too_is_not_restored_again(lost: LostRun) -> None:
    lost.publish(2)
    lost.begin(lost.start(refusal="EOFException"))

    origin = lost.start("third", refusal="EOFException")

    assert (lost.previous.fallback and lost.previous.fallback.source, origin.source) == ("checkpoint-2", "checkpoint-1")
    assert [entry.batch for entry in origin.recorded(QUERY)] == [3, 4]
    lost.begin(origin)
    with pytest.raises(DecisionNeededError, match="Spark refused its restored state"):
        lost.start("fourth", refusal="EOFException")


def test_replays_that_were_not_executed_yet_are_not_forgotten_by_the_next_fallback(lost: LostRun) -> None:
    """The new directory ends at the cut: taken for all that there was, the sink would get the batches otherwise."""
    lost.query.commit()
    lost.query.commit()
    lost.begin(lost.start(refusal="EOFException"))
    assert lost.previous.fallback is not None
    assert lost.previous.fallback.again == {QUERY: 4}
    directory = lost.job.config.work_path / lost.previous.directory
    (directory / QUERY / "metadata").unlink()

    origin = lost.start("third")

    assert origin.kind is OriginKind.FALLBACK
    assert [entry.batch for entry in origin.recorded(QUERY)] == [3, 4]
