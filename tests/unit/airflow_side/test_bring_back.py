"""What the page asks a DAG for to bring a job back, and what it says has come of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import CheckpointKind, Verdict
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.plugins._bring_back import Choice, brought_back, restore_command, restore_conf, same_job
from airflow_provider_ha.views.checkpoints import CheckpointListView, CheckpointRow
from airflow_provider_ha.views.history import EpochView, HistoryView, RunHistoryView
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
        ("queued", history(), (), "The DAG run is queued. No run of the job has come of it yet.", False),
        ("running", history(epoch(5, by="another")), (), "No run of the job has come of it yet", False),
        ("failed", history(epoch(5)), ((8, 5),), "The DAG run has failed: task restore did", True),
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
    made = brought_back(state, ["restore"], [ASKED], found, checkpoints(*taken))

    assert sentence in made.sentence
    assert made.final is final


def test_the_failure_of_the_dag_or_of_the_run_is_a_failure() -> None:
    assert brought_back("failed", [], [ASKED], history(), checkpoints()).failed
    assert brought_back("success", [], [ASKED], history(epoch(5), state="FAILED"), checkpoints()).failed
    assert not brought_back("success", [], [ASKED], history(epoch(5), state="FINISHED"), checkpoints()).failed


def test_another_run_whose_request_begins_alike_is_not_taken_for_it() -> None:
    made = brought_back("running", [], [ASKED[:-1]], history(epoch(5)), checkpoints((8, 5)))

    assert made.run is None


def test_the_dag_and_the_command_get_what_was_chosen() -> None:
    choice = Choice("latest", (Verdict.LOSS_POSSIBLE, Verdict.DUPLICATES_POSSIBLE), "restart")

    conf = restore_conf("prod", "flights", choice, "checkpoint-7", "team")

    assert (conf["start_from"], conf["fallback"], conf["if_lost"]) == ("checkpoint-7", False, "restart")
    assert conf["accept_verdicts"] == ["SAFE", "DUPLICATES_POSSIBLE", "LOSS_POSSIBLE"]
    assert (conf["force"], conf["spark_ha_conn_id"]) == (True, "prod")
    assert restore_command("flights", choice, "checkpoint-7", "team") == (
        "spark-ha restore flights --start-from checkpoint-7 --accept-verdict DUPLICATES_POSSIBLE "
        "--accept-verdict LOSS_POSSIBLE --if-lost restart --force"
    )
    assert restore_conf("prod", "flights", Choice(), "checkpoint-7", None)["if_lost"] is None


def test_only_the_latest_may_be_replaced_by_an_older_one() -> None:
    assert Choice().request("flights", "r").fallback
    assert not Choice("checkpoint-7").request("flights", "r").fallback


def test_a_dag_run_belongs_to_the_job_of_its_cluster() -> None:
    conf = restore_conf("prod", "flights", Choice(), "checkpoint-7", None)

    assert same_job(conf, "prod", "flights")
    assert not same_job(conf, "test", "flights")
    assert not same_job(conf, "prod", "other")
    assert not same_job({}, "prod", "other")
