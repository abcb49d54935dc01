"""The restart strategy decides from a snapshot alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_ha.jobs import condition
from airflow_provider_ha.jobs.job_graph import Blob, GraphPointer
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, Recovery, Run, RunResult, StartPoint
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import failure_of
from airflow_provider_ha.jobs.recovery.restart_policy import (
    GiveUp,
    NeedsDecision,
    RestartDecision,
    Resubmit,
    attempts_used,
    decision_of,
    delay,
    failures_in_a_row,
    outage_of,
)
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import (
    STALLED,
    DriverHandle,
    Failure,
    FailureKind,
    Submission,
    SubmissionExit,
    SubmissionStarted,
)
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import MISTAKE


NOW = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)
OPTIONS = HaOptions(restart_attempts=2, restart_delay=1, restart_delay_max=60, restart_reset_after=600)
AWAY = Failure(kind=FailureKind.OUTAGE, error_class="TimeoutException", query="rows", batches={"rows": 4})
UNKNOWN = Failure(error_class="SystemExit")
RUN = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="r", created_at=NOW)


def submission(
    attempt: int, *, lived: float = 5, ended: bool = True, zxid: int = 10, died: float = 0
) -> SubmissionView:
    """A submission that lived for *lived* seconds and ended *died* seconds ago."""
    end = NOW - timedelta(seconds=died)
    made = Submission(
        attempt=attempt,
        submission_id=f"s{attempt}",
        requested_by="test",
        engine="local",
        created_at=end - timedelta(seconds=lived),
    )
    return SubmissionView(
        submission=made,
        started=SubmissionStarted(handle=DriverHandle(engine="local", log_uri="file://h/log")),
        exit=SubmissionExit(code=-9, reason="killed", at=end) if ended else None,
        created_zxid=zxid,
    )


def outage(attempt: int, *, died: float = 0) -> SubmissionView:
    """A submission that a full disk kept from running the script, *died* seconds ago."""
    view = submission(attempt, lived=0, died=died)
    assert view.exit is not None
    reason = "it could not be launched: No space left on device"
    return replace(view, started=None, exit=view.exit.model_copy(update={"outage": True, "reason": reason}))


def handed_over(attempt: int) -> SubmissionView:
    """A submission whose driver a person has replaced by a standby driver."""
    view = ran(submission(attempt))
    assert view.exit is not None
    return replace(view, exit=view.exit.model_copy(update={"handed_over": True}))


def failed(attempt: int, failure: Failure, *, died: float = 0, lived: float = 5) -> SubmissionView:
    """A submission that committed a batch, and whose driver told why it failed, *died* seconds ago."""
    view = submission(attempt, lived=lived, died=died)
    assert view.exit is not None
    return replace(view, exit=view.exit.model_copy(update={"failure": failure, "started": True, "committed": True}))


def ran(view: SubmissionView) -> SubmissionView:
    """The submission as one whose job was RUNNING under it."""
    assert view.exit is not None
    return replace(view, exit=view.exit.model_copy(update={"ran": True}))


def snapshot(*submissions: SubmissionView, result: RunResult | None = None, **values: Any) -> JobStatus:
    return JobStatus(
        job_id="flights",
        run=RunView(run=RUN, result=result, submissions=submissions),
        graph=GraphPointer(graph=RUN.graph, run=1),
        **({"epoch": 1} | values),
    )


def decide(seen: JobStatus, options: HaOptions, *, now: datetime, decided: bool = False) -> RestartDecision | None:
    """Return the decision of the restart strategy, which is a part of the condition."""
    return condition.decide(seen, options, now, decided=decided).restart


def leader(attempt: int) -> LeaderInfo:
    return LeaderInfo(epoch=1, run=1, attempt=attempt, host="h", pid=1, since=NOW)


def unfit(attempt: int, *, died: float = 0) -> SubmissionView:
    """A submission whose host lacked what another one had."""
    view = submission(attempt, lived=0, died=died)
    assert view.exit is not None
    return replace(view, exit=view.exit.model_copy(update={"unfit": True, "reason": "there is no bin/spark-submit"}))


def test_a_run_that_no_host_can_run_is_given_up_with_the_reason_of_its_first_attempt() -> None:
    view = submission(1)
    assert view.exit is not None
    refused = replace(view, exit=view.exit.model_copy(update={"refused": "there is no component"}))

    assert decide(snapshot(refused), OPTIONS, now=NOW) == GiveUp("there is no component")


def test_hosts_that_lack_something_use_up_no_attempt_and_make_the_delay_grow() -> None:
    worked = ran(submission(1))

    decisions = [
        decide(snapshot(worked, *(unfit(number) for number in range(2, 2 + count))), OPTIONS, now=NOW)
        for count in (1, 2, 4, 20)
    ]

    assert [each.after for each in decisions if isinstance(each, Resubmit)] == [1, 2, 8, 60]


def test_a_run_with_a_result_is_never_run_again() -> None:
    result = RunResult(state=JobState.FAILED, epoch=1, at=NOW)

    assert decide(snapshot(submission(1), result=result, epoch_zxid=20), OPTIONS, now=NOW) is None


def test_a_leader_is_left_alone() -> None:
    assert decide(snapshot(submission(1, ended=False), leader=leader(1), epoch_zxid=20), OPTIONS, now=NOW) is None


def test_a_submission_that_nobody_led_yet_is_left_alone() -> None:
    """The epoch is an earlier run's: its leadership was granted before this submission was made."""
    assert decide(snapshot(submission(1, ended=False), epoch_zxid=5), OPTIONS, now=NOW) is None


def test_a_vanished_leader_is_recovered_with_a_claim_on_its_epoch() -> None:
    decision = decide(snapshot(submission(1, ended=False), epoch_zxid=20), OPTIONS, now=NOW)

    assert decision == Resubmit(attempt=2, lost_epoch=1, after=1)


def test_a_driver_that_died_before_it_led_is_submitted_again_without_a_claim() -> None:
    decision = decide(snapshot(submission(1), epoch_zxid=5), OPTIONS, now=NOW)

    assert decision == Resubmit(attempt=2, lost_epoch=None, after=0)


def test_a_first_loss_is_recovered_at_once_when_death_is_proven_and_the_next_ones_wait() -> None:
    views = (submission(1), submission(2), submission(3))
    options = OPTIONS.model_copy(update={"restart_attempts": -1})

    delays = [decide(snapshot(*views[:count], epoch_zxid=20), options, now=NOW).after for count in (1, 2, 3)]  # type: ignore[union-attr]

    assert delays == [0, 1, 2]


def test_drivers_that_are_killed_while_their_job_is_running_are_replaced_at_once_however_often() -> None:
    views = tuple(ran(submission(attempt)) for attempt in range(1, 31))

    decision = decide(snapshot(*views, epoch_zxid=20), HaOptions(), now=NOW)

    assert decision == Resubmit(attempt=31, lost_epoch=1, after=0)


def test_drivers_that_stall_one_after_the_other_wait_longer_each_time_and_use_up_the_attempts() -> None:
    """Each has lived for as long as a stall takes to be seen, and has done nothing with it."""
    options = HaOptions(restart_attempts=4, stall_timeout=600, restart_reset_after=600)
    views = tuple(ran(failed(attempt, Failure(error_class=STALLED), lived=630)) for attempt in range(1, 6))

    decisions = [decide(snapshot(*views[:count], epoch_zxid=20), options, now=NOW) for count in range(1, 6)]

    assert [each.after for each in decisions if isinstance(each, Resubmit)] == [0, 1, 2, 4]
    assert isinstance(decisions[-1], GiveUp)


def test_a_driver_that_stalls_after_a_long_life_is_replaced_at_once() -> None:
    options = HaOptions(stall_timeout=600, restart_reset_after=600)
    views = (submission(1), ran(failed(2, Failure(error_class=STALLED), lived=1300)))

    decision = decide(snapshot(*views, epoch_zxid=20), options, now=NOW)

    assert decision == Resubmit(attempt=3, lost_epoch=1, after=0)


def test_delay_counts_from_the_last_driver_whose_job_was_running() -> None:
    views = (submission(1), submission(2), ran(submission(3)), submission(4), submission(5))

    delays = [decide(snapshot(*views[:count], epoch_zxid=20), HaOptions(), now=NOW).after for count in (3, 4, 5)]  # type: ignore[union-attr]

    assert delays == [0, 1, 2]


def test_driver_that_fails_by_itself_waits_although_its_job_was_running() -> None:
    views = tuple(ran(failed(attempt, UNKNOWN)) for attempt in range(1, 4))

    decision = decide(snapshot(*views, epoch_zxid=20), HaOptions(), now=NOW)

    assert decision == Resubmit(attempt=4, lost_epoch=1, after=2)


def test_outage_of_a_running_job_causes_an_immediate_restart() -> None:
    met = (AWAY.model_copy(update={"batches": {"rows": attempt}}) for attempt in range(1, 4))
    views = tuple(ran(failed(attempt, failure)) for attempt, failure in enumerate(met, start=1))

    decision = decide(snapshot(*views, epoch_zxid=20), HaOptions(), now=NOW)

    assert decision == Resubmit(attempt=4, lost_epoch=1, after=0)


def test_outage_that_a_running_job_meets_again_at_the_same_batch_is_a_loop_and_waits_longer_each_time() -> None:
    views = tuple(ran(failed(attempt, AWAY)) for attempt in range(1, 10))

    delays = [decide(snapshot(*views[:count], epoch_zxid=20), HaOptions(), now=NOW).after for count in (1, 2, 3, 9)]  # type: ignore[union-attr]

    assert delays == [0, 1, 2, 60]


def test_limit_of_attempts_counts_running_drivers_too() -> None:
    views = (ran(submission(1)), ran(submission(2)), ran(submission(3)))

    assert attempts_used(views, OPTIONS, NOW) == 2


def test_a_loss_after_a_long_life_is_a_first_one_again() -> None:
    views = (submission(1), submission(2), submission(3, lived=601))

    assert decide(snapshot(*views, epoch_zxid=20), OPTIONS, now=NOW) == Resubmit(attempt=4, lost_epoch=1, after=0)


def test_a_recovery_that_died_before_it_led_does_not_claim_the_same_loss_again() -> None:
    recovery = Recovery(lost_epoch=1, run=1, attempt=2, by="another", at=NOW)
    lost_twice = snapshot(submission(1, zxid=10), submission(2, zxid=30), epoch_zxid=20, recovery=recovery)

    assert decide(lost_twice, OPTIONS, now=NOW) == Resubmit(attempt=3, lost_epoch=None, after=1)


def test_a_process_that_the_engine_has_proven_dead_is_lost_although_nobody_wrote_an_exit() -> None:
    killed_supervisor = snapshot(submission(1, ended=False), epoch_zxid=5)

    decision = decide(replace(killed_supervisor, gone=True), OPTIONS, now=NOW)

    assert decision == Resubmit(attempt=2, lost_epoch=None, after=1)


def test_the_run_is_given_up_when_its_attempts_are_used() -> None:
    decision = decide(snapshot(*(submission(attempt) for attempt in (1, 2, 3)), epoch_zxid=20), OPTIONS, now=NOW)

    assert isinstance(decision, GiveUp)
    assert "lost 3 times" in decision.reason
    assert "killed" in decision.reason


def test_no_attempts_means_not_even_one() -> None:
    options = OPTIONS.model_copy(update={"restart_attempts": 0, "restart_reset_after": 1})

    assert isinstance(decide(snapshot(submission(1, lived=9999), epoch_zxid=20), options, now=NOW), GiveUp)


def test_minus_one_means_for_ever() -> None:
    options = OPTIONS.model_copy(update={"restart_attempts": -1})

    decision = decide(snapshot(*(submission(n) for n in range(1, 60)), epoch_zxid=20), options, now=NOW)

    assert decision == Resubmit(attempt=60, lost_epoch=1, after=60)


def test_a_long_life_resets_the_count() -> None:
    views = (submission(1), submission(2), submission(3, lived=601), submission(4))

    assert attempts_used(views, OPTIONS, NOW) == 1


def test_what_has_passed_since_the_death_is_not_waited_for_again() -> None:
    decision = decide(snapshot(submission(1), submission(2, died=0.75), epoch_zxid=20), OPTIONS, now=NOW)

    assert decision == Resubmit(attempt=3, lost_epoch=1, after=0.25)


def test_a_clock_that_is_behind_does_not_prolong_the_wait() -> None:
    decision = decide(snapshot(submission(1), submission(2, died=-3600), epoch_zxid=20), OPTIONS, now=NOW)

    assert decision == Resubmit(attempt=3, lost_epoch=1, after=1)


@pytest.mark.parametrize(("used", "seconds"), [(0, 0), (1, 1), (2, 2), (4, 8), (8, 60), (5000, 60)])
def test_the_delay_doubles_up_to_its_maximum(used: int, seconds: float) -> None:
    assert delay(used, OPTIONS) == seconds


def test_launches_that_meet_an_outage_use_up_no_attempt() -> None:
    views = (submission(1), *(outage(attempt) for attempt in range(2, 40)))

    decision = decide(snapshot(*views, epoch_zxid=5), OPTIONS, now=NOW)

    assert attempts_used(views, OPTIONS, NOW) == 0
    assert decision == Resubmit(attempt=40, lost_epoch=None, after=60)


def test_hand_overs_use_up_no_attempt_delay_nothing_and_are_no_failures() -> None:
    views = tuple(handed_over(attempt) for attempt in range(1, 9))

    decision = decide(snapshot(*views, epoch_zxid=5), OPTIONS, now=NOW)

    assert attempts_used(views, OPTIONS, NOW) == 0
    assert decision == Resubmit(attempt=9, lost_epoch=None, after=0)
    assert failures_in_a_row(views, OPTIONS, NOW, lost=True, led_since=None) == 0
    assert failure_of(views, OPTIONS, NOW, lost=True, led_since=None) is None


def test_losses_between_outages_are_counted() -> None:
    views = (submission(1), outage(2), submission(3), outage(4), outage(5), submission(6))

    assert attempts_used(views, OPTIONS, NOW) == 2
    assert isinstance(decide(snapshot(*views, epoch_zxid=20), OPTIONS, now=NOW), GiveUp)


def test_first_launch_that_meets_an_outage_is_made_again_although_no_attempt_is_allowed() -> None:
    options = OPTIONS.model_copy(update={"restart_attempts": 0})

    assert decide(snapshot(outage(1), epoch_zxid=5), options, now=NOW) == Resubmit(attempt=2, lost_epoch=None, after=1)
    assert isinstance(decide(snapshot(outage(1), submission(2), epoch_zxid=20), options, now=NOW), GiveUp)


@pytest.mark.parametrize(("count", "seconds"), [(1, 1), (2, 2), (5, 16), (50, 60)])
def test_the_delay_grows_with_each_outage_in_a_row_up_to_its_maximum(count: int, seconds: float) -> None:
    views = (submission(1), *(outage(attempt) for attempt in range(2, 2 + count)))

    decision = decide(snapshot(*views, epoch_zxid=5), OPTIONS, now=NOW)

    assert isinstance(decision, Resubmit)
    assert decision.after == seconds


def test_outage_that_is_waited_out_is_told_with_its_beginning_and_its_reason() -> None:
    run = RunView(run=RUN, submissions=(submission(1), outage(2, died=90), outage(3)))

    told = outage_of(run)

    assert "2 launches since 2013-01-01 11:58:30 UTC" in told
    assert "No space left on device" in told
    assert outage_of(replace(run, submissions=(*run.submissions, submission(4, ended=False)))) == ""


def test_outage_that_the_script_meets_uses_up_no_attempt_however_often() -> None:
    views = tuple(failed(attempt, AWAY) for attempt in range(1, 40))

    decision = decide(snapshot(*views, epoch_zxid=20), OPTIONS, now=NOW)

    assert attempts_used(views, OPTIONS, NOW) == 0
    assert decision == Resubmit(attempt=40, lost_epoch=1, after=60)


def test_no_loss_ends_a_run_by_default() -> None:
    views = tuple(submission(attempt) for attempt in range(1, 60))

    assert isinstance(decide(snapshot(*views, epoch_zxid=20), HaOptions(), now=NOW), Resubmit)


def test_delay_after_an_outage_begins_again_when_a_driver_has_lived_for_long() -> None:
    views = (*(failed(attempt, AWAY) for attempt in range(1, 9)), failed(9, AWAY, lived=601))

    decision = decide(snapshot(*views, epoch_zxid=20), OPTIONS, now=NOW)

    assert isinstance(decision, Resubmit)
    assert decision.after <= OPTIONS.restart_delay


def test_losses_before_a_long_life_that_an_outage_ended_are_not_counted() -> None:
    views = (submission(1), submission(2), failed(3, AWAY, lived=601), submission(4))

    assert attempts_used(views, OPTIONS, NOW) == 1


def test_error_of_the_application_that_repeats_ends_a_run_that_asks_for_it_with_its_class_and_its_text() -> None:
    views = (failed(1, MISTAKE, died=700), failed(2, MISTAKE, died=300), failed(3, MISTAKE))
    unlimited = OPTIONS.model_copy(update={"restart_attempts": -1, "application_failures": 3})

    decision = decide(snapshot(*views, epoch_zxid=20), unlimited, now=NOW)

    assert isinstance(decision, GiveUp)
    assert decision.failure == MISTAKE
    assert decision.reason == (
        "KeyError: 'price', in query 'rows' after batch 4 at main.py:12 in write, 3 times in 12 min; "
        "application_failures ends the run (log: h:/log)"
    )


def test_error_that_repeats_in_a_run_that_has_worked_waits_longer_each_time_and_ends_nothing() -> None:
    views = tuple(ran(failed(attempt, MISTAKE)) for attempt in range(1, 60))

    decision = decide(snapshot(*views, epoch_zxid=20), HaOptions(), now=NOW)

    assert decision == Resubmit(attempt=60, lost_epoch=1, after=HaOptions().restart_delay_max)


REFUSED = Failure(error_class="EOFException", query="rows", batches={"rows": 4}, refused="jobs/flights/live/e1-a")


def undecided(attempt: int) -> SubmissionView:
    """A submission that ended because its user has to decide what the run goes on from."""
    view = submission(attempt)
    assert view.exit is not None
    return replace(view, exit=view.exit.model_copy(update={"decision": "Decide what it goes on from."}))


def test_a_run_that_waits_for_a_decision_is_not_submitted_again() -> None:
    found = decide(snapshot(submission(1), undecided(2)), OPTIONS, now=NOW)

    assert found == NeedsDecision("Decide what it goes on from.")


def test_neither_a_refused_directory_nor_a_wait_for_a_decision_uses_up_attempts() -> None:
    submissions = (submission(1), failed(2, REFUSED), undecided(3))

    assert attempts_used(submissions, OPTIONS, NOW) == 0
    assert isinstance(decide(snapshot(*submissions[:2]), OPTIONS, now=NOW), Resubmit)


def test_a_decision_is_shown_until_the_run_is_over() -> None:
    result = RunResult(state=JobState.FINISHED, epoch=1, at=NOW)
    run = snapshot(undecided(1)).run
    assert run is not None

    assert decision_of(run) == "Decide what it goes on from."
    assert decision_of(replace(run, result=result)) == ""
