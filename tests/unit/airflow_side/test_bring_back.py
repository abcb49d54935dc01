"""Requests of the page to bring a job back, and their outcome."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.page.actions import ACT_SECONDS, RequestState, send
from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, OverTimeError
from airflow_provider_ha.airflow_side.page.recovery import (
    RecoveryMethod,
    RestoreChoice,
    effects_on_sinks,
    recovery_outcome,
    restore_command,
    restore_conf,
    same_job,
)
from airflow_provider_ha.api.documents.checkpoints import CheckpointListView, CheckpointRow
from airflow_provider_ha.api.documents.history import EpochView, HistoryView, RunHistoryView
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.errors import HaError, JobStateError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.jobs.recovery.lost_runs import SUPERVISOR_SECONDS
from airflow_provider_ha.jobs.recovery.transactions import LOCK_SECONDS
from airflow_provider_ha.timings import Timings
from tests.support.clusters.jobs_helpers import NOON


ASKED = "disaster_recovery-page-restore-1-restore-abc"


def epoch(
    number: int | None, attempt: int = 1, *, end: Any = "leads", by: str = f"{ASKED} on host (pid 1)"
) -> EpochView:
    return EpochView(
        run=2,
        attempt=attempt,
        engine="local",
        requested_by=by,
        submitted_at=NOON,
        epoch=number,
        host="worker-1" if number else None,
        pid=7 if number else None,
        led_at=NOON if number else None,
        ended_at=None,
        end=end,
        reason="killed" if end == "lost" else "",
        recovered_by=None,
        recovered_at=None,
    )


def history(*epochs: EpochView, state: str | None = None) -> HistoryView:
    run = RunHistoryView(
        run=2,
        started_from=StartKind.CHECKPOINT,
        source="checkpoint-7",
        owner=None,
        created_at=NOON,
        state=state,
        reason="an error" if state else "",
        ended_at=None,
        checkpoint=None,
        epochs=epochs,
        left_out=0,
    )
    return HistoryView(job_id="flights", runs=(run,) if epochs else (), left_out=0, unreadable=())


def checkpoints(*taken: tuple[int, int]) -> CheckpointListView:
    """Return checkpoints, each with its epoch."""
    rows = tuple(
        CheckpointRow(
            number=number,
            epoch=by,
            run=2,
            reason=CheckpointKind.PERIODIC,
            payload="p",
            sha256="0" * 64,
            size=1,
            cut={},
            created_at=NOON + timedelta(seconds=number),
        )
        for number, by in taken
    )
    return CheckpointListView(job_id="flights", checkpoints=rows, unreadable=())


@pytest.mark.parametrize(
    ("state", "found", "taken", "sentence", "final"),
    [
        ("queued", history(), (), "The DAG run is queued. The job has not been started yet.", False),
        ("running", history(epoch(5, by="another")), (), "The job has not been started yet", False),
        ("failed", history(), (), "The DAG run has failed: task restore did", True),
        ("running", history(epoch(None, end="starting")), (), "Run 2 is submitted, and waits", False),
        ("running", history(epoch(5)), ((7, 4),), "led by worker-1, epoch 5. Its first new checkpoint is not", False),
        ("running", history(epoch(5)), ((9, 5), (8, 5), (7, 4)), "Its first new checkpoint is number 8", True),
        ("running", history(epoch(5, end="lost")), ((8, 5),), "has lost its driver again: killed", False),
        ("running", history(epoch(6, 2, by="x"), epoch(5, end="lost")), ((8, 6),), "epoch 6. Its first new", True),
        ("success", history(epoch(5), state="FAILED"), (), "Run 2 has ended: FAILED (an error)", True),
        ("success", history(epoch(5, by="another")), ((8, 5),), "Its first new checkpoint is number 8", True),
    ],
)
def test_the_outcome_says_how_far_the_job_is_and_whether_to_wait(
    state: str, found: HistoryView, taken: tuple[tuple[int, int], ...], sentence: str, final: bool
) -> None:
    made = recovery_outcome(state, ["restore"], [ASKED], found, checkpoints(*taken))

    assert sentence in made.sentence
    assert made.final is final


def test_the_failure_of_the_dag_or_of_the_run_is_a_failure() -> None:
    assert recovery_outcome("failed", [], [ASKED], history(), checkpoints()).failed
    assert recovery_outcome("success", [], [ASKED], history(epoch(5), state="FAILED"), checkpoints()).failed
    assert not recovery_outcome("success", [], [ASKED], history(epoch(5), state="FINISHED"), checkpoints()).failed


@pytest.mark.parametrize(
    ("found", "taken", "sentence"),
    [
        (history(epoch(5, end="finished"), state="CANCELED"), (), "Run 2 has ended: CANCELED"),
        (history(epoch(5, end="finished"), state="FAILED"), ((8, 5),), "Run 2 has ended: FAILED"),
        (history(epoch(5)), ((8, 5),), "Its first new checkpoint is number 8"),
        (history(epoch(5, end="lost")), ((8, 5),), "has lost its driver again"),
    ],
)
def test_a_restore_that_worked_did_so_also_when_the_task_that_follows_it_fails_later(
    found: HistoryView, taken: tuple[tuple[int, int], ...], sentence: str
) -> None:
    made = recovery_outcome("failed", ["follow"], [ASKED], found, checkpoints(*taken))

    assert sentence in made.sentence
    assert "The DAG run has failed since: task follow; the restore itself worked." in made.sentence
    assert (made.final, made.failed, made.run) == (True, False, 2)
    assert made.epoch is not None
    assert made.epoch.host == "worker-1"
    assert made.checkpoint == (8 if taken else None)


def test_a_recovery_that_worked_is_called_one() -> None:
    made = recovery_outcome("failed", [], [ASKED], history(epoch(5)), checkpoints((8, 5)), way=RecoveryMethod.RECOVER)

    assert "The DAG run has failed since: it; the recovery itself worked." in made.sentence


@pytest.mark.parametrize(
    ("found", "final", "failed"),
    [
        (history(epoch(None, end="starting")), False, False),
        (history(epoch(5)), False, False),
        (history(epoch(5, end="lost")), True, True),
        (history(epoch(5, end="finished"), state="FAILED"), True, True),
    ],
)
def test_a_run_of_a_dag_that_failed_is_waited_for_while_it_may_still_come_up(
    found: HistoryView, final: bool, failed: bool
) -> None:
    made = recovery_outcome("failed", ["restore"], [ASKED], found, checkpoints())

    assert made.sentence.endswith("The DAG run has failed: task restore.")
    assert (made.final, made.failed, made.run) == (final, failed, 2)


def later_runs(oldest: int) -> HistoryView:
    """Return the history of a job whose runs that are read begin with one that another request has led to."""
    found = history(epoch(5, by="another"))
    return found.model_copy(update={"runs": (found.runs[0].model_copy(update={"run": oldest}),)})


@pytest.mark.parametrize(
    ("state", "how"),
    [("failed", "has failed: task restore did"), ("success", "is success"), ("running", "is running")],
)
def test_what_came_before_all_runs_that_are_read_is_not_known_any_more(state: str, how: str) -> None:
    asked_at = NOON - timedelta(days=1)

    made = recovery_outcome(state, ["restore"], [ASKED], later_runs(30), checkpoints((8, 5)), asked_at=asked_at)

    assert made.sentence.startswith(f"The DAG run {how}. It is no longer known whether it started a run of the job: ")
    assert "run 30" in made.sentence
    assert (made.final, made.failed, made.run) == (True, False, None)


@pytest.mark.parametrize(
    ("oldest", "asked_at"), [(1, NOON - timedelta(days=1)), (30, NOON + timedelta(seconds=1)), (30, None)]
)
def test_a_request_that_would_be_among_the_runs_that_are_read_has_led_to_none(oldest: int, asked_at: Any) -> None:
    made = recovery_outcome("failed", ["restore"], [ASKED], later_runs(oldest), checkpoints(), asked_at=asked_at)

    assert made.sentence == "The DAG run has failed: task restore did. Its log has the reason."
    assert made.failed


def test_another_run_whose_request_begins_alike_is_not_taken_for_it() -> None:
    made = recovery_outcome("running", [], [ASKED[:-1]], history(epoch(5)), checkpoints((8, 5)))

    assert made.run is None


def test_the_dag_and_the_command_get_what_was_chosen() -> None:
    choice = RestoreChoice("latest", (Verdict.LOSS_POSSIBLE, Verdict.DUPLICATES_POSSIBLE), "restart")

    conf = restore_conf("prod", "flights", 3, choice, "checkpoint-7", "team")

    assert (conf["start_from"], conf["fallback"], conf["if_lost"]) == ("checkpoint-7", False, "restart")
    assert conf["accept_verdicts"] == ["SAFE", "DUPLICATES_POSSIBLE", "LOSS_POSSIBLE"]
    assert (conf["force"], conf["seen_run"], conf["spark_ha_conn_id"]) == (True, 3, "prod")
    assert restore_command("flights", choice, "checkpoint-7", "team") == (
        "spark-ha job restore flights --start-from checkpoint-7 --accept-verdicts DUPLICATES_POSSIBLE "
        "--accept-verdicts LOSS_POSSIBLE --if-lost restart --force"
    )
    assert restore_conf("prod", "flights", 3, RestoreChoice(), "checkpoint-7", None)["if_lost"] is None


def test_only_the_latest_may_be_replaced_by_an_older_one() -> None:
    assert RestoreChoice().request("flights", "r").fallback
    assert not RestoreChoice("checkpoint-7").request("flights", "r").fallback


def test_a_dag_run_belongs_to_the_job_of_its_cluster() -> None:
    conf = restore_conf("prod", "flights", 3, RestoreChoice(), "checkpoint-7", None)

    assert same_job(conf, "prod", "flights")
    assert not same_job(conf, "test", "flights")
    assert not same_job(conf, "prod", "other")
    assert not same_job({}, "prod", "other")


def test_a_recovery_says_for_each_sink_what_a_batch_that_comes_again_does_to_it() -> None:
    sinks = {"files": "/data/out", "function": "foreachBatch", "topic": "kafka", "table": "delta", "hudi": "hudi"}
    queries = {name: SimpleNamespace(sink=sink) for name, sink in sinks.items()}
    snapshot: Any = SimpleNamespace(status=SimpleNamespace(queries=queries, not_started={}))

    said = dict(zip(sinks, effects_on_sinks(snapshot), strict=True))

    assert said["files"] == "files (/data/out): its sink has each row once: it skips a batch that it has."
    assert "each row once" in said["table"]
    assert "called again" in said["function"]
    assert "may be duplicated" in said["function"]
    assert "twice" in said["topic"]
    assert "unknown" in said["hudi"]


def test_a_job_whose_queries_nothing_has_seen_is_promised_nothing() -> None:
    snapshot: Any = SimpleNamespace(status=None)

    assert "are unknown" in effects_on_sinks(snapshot)[0]


@pytest.mark.parametrize(
    ("way", "replayed", "begins"),
    [
        (RecoveryMethod.RESTORE, 1, "Restored. 1 batch was executed again. Run 2 is led by worker-1"),
        (RecoveryMethod.RESTORE, 0, "Restored. No batches were executed again. Run 2"),
        (RecoveryMethod.RECOVER, 3, "Recovered. 3 batches were executed again. Run 2"),
        (RecoveryMethod.RECOVER, None, "Recovered. Run 2"),
    ],
)
def test_a_job_that_is_back_is_told_so_first(way: RecoveryMethod, replayed: int | None, begins: str) -> None:
    made = recovery_outcome("running", [], [ASKED], history(epoch(5)), checkpoints((8, 5)), way=way, replayed=replayed)

    assert (made.done, made.sentence.startswith(begins)) == (True, True), made.sentence


@pytest.mark.parametrize(
    ("found", "taken"),
    [
        (history(epoch(5)), ()),
        (history(epoch(5, end="lost")), ((8, 5),)),
        (history(epoch(5), state="FAILED"), ((8, 5),)),
    ],
)
def test_a_job_without_a_leader_or_a_new_checkpoint_is_not_back(
    found: HistoryView, taken: tuple[tuple[int, int], ...]
) -> None:
    made = recovery_outcome("running", [], [ASKED], found, checkpoints(*taken))

    assert (made.done, "Restored" in made.sentence) == (False, False)


@pytest.mark.parametrize(
    ("state", "found"),
    [("running", history(epoch(5, 2))), ("success", history(epoch(5, by="another")))],
    ids=["the lost run goes on", "another process was faster"],
)
def test_a_job_that_is_back_by_other_means_than_the_plan_is_not_called_restored(state: str, found: HistoryView) -> None:
    """What the plan has promised of rows is not said of it."""
    made = recovery_outcome(state, [], [ASKED], found, checkpoints((8, 5)), way=RecoveryMethod.RESTORE)
    planned = recovery_outcome(
        "running", [], [ASKED], history(epoch(5)), checkpoints((8, 5)), way=RecoveryMethod.RESTORE
    )

    assert (made.done, made.restored, planned.restored) == (True, False, True)
    assert made.sentence.startswith("Recovered. ")


@pytest.fixture
def hangs() -> Iterator[Event]:
    """What a call waits for that hangs, until the test is over."""
    over = Event()
    yield over
    over.set()


def failing(error: HaError) -> None:
    raise error


def test_a_request_that_is_answered_is_known() -> None:
    done = Event()

    assert send(BoundedCalls("ZooKeeper", next_step=""), done.set, seconds=30) is RequestState.ANSWERED
    assert done.is_set()


def test_a_request_that_takes_longer_is_not_known_and_goes_on(hangs: Event) -> None:
    done = Event()

    def ask() -> None:
        hangs.wait(60)
        done.set()

    assert send(BoundedCalls("ZooKeeper", next_step=""), ask, seconds=0.1) is RequestState.UNKNOWN
    hangs.set()
    assert done.wait(30)


@pytest.mark.parametrize("error", [OutcomeUnknownError("no answer"), NotConnectedError("no server")])
def test_a_request_whose_connection_breaks_is_not_known(error: HaError) -> None:
    assert send(BoundedCalls("ZooKeeper", next_step=""), lambda: failing(error), seconds=30) is RequestState.UNKNOWN


def test_a_request_that_is_refused_says_why() -> None:
    with pytest.raises(JobStateError, match="no run"):
        send(BoundedCalls("ZooKeeper", next_step=""), lambda: failing(JobStateError("no run")), seconds=30)


def test_a_request_that_found_no_free_thread_was_not_sent(hangs: Event) -> None:
    bounded, sent = BoundedCalls("ZooKeeper", next_step="", seconds=0.1, at_once=1), Event()
    with pytest.raises(OverTimeError):
        bounded.call(lambda: hangs.wait(60))

    with pytest.raises(OverTimeError, match="earlier reads"):
        send(bounded, sent.set, seconds=30)

    assert not sent.is_set()


def test_a_form_waits_for_the_end_of_a_run_whose_driver_has_just_died() -> None:
    assert Timings().session_timeout + LOCK_SECONDS + SUPERVISOR_SECONDS < ACT_SECONDS
