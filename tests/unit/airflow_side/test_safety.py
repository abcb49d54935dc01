"""First lines and buttons of a job's page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.page.buttons import JobAction, menu_of, offer, offers, saved_cancel
from airflow_provider_ha.airflow_side.page.clusters import ReadResult
from airflow_provider_ha.airflow_side.page.job_data import BAD, CALM, GOOD, WARN, SafetyFacts, safety_of
from airflow_provider_ha.airflow_side.page.recovery import recovery_buttons
from airflow_provider_ha.api.documents.checkpoints import CheckpointRow
from airflow_provider_ha.api.documents.history import DrillListView, DrillView
from airflow_provider_ha.api.documents.job import job_view
from airflow_provider_ha.api.documents.verdict import LastVerificationView
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.jobs.condition import decide
from airflow_provider_ha.jobs.model import JobState, QueryStatus
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import Failure, LastFailure
from airflow_provider_ha.jobs.runs.watchers import WatchStatus
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.verification.verification_records import DrillVerdict
from tests.support.clusters.jobs_helpers import (
    NOON,
    a_leader,
    a_result,
    a_run,
    a_start,
    a_status,
    a_submission,
    an_exit,
)


CUT = {"orders": 12}
OUTPUT = "/lake/orders"
VERIFICATION: Any = LastVerificationView.model_construct
DRILL: Any = DrillView.model_construct
DRILLS: Any = DrillListView.model_construct


def a_job(
    state: JobState = JobState.RUNNING, *, planned: int = 12, committed: int = 12, loops: int = 0, sink: str = OUTPUT
) -> dict[str, Any]:
    """Return a job and its condition, as fields of :class:`SafetyFacts`."""
    lost = state is JobState.LOST
    # An attempt on its way is younger than the last leadership.
    submission = SubmissionView(a_submission(3), started=a_start(), exit=an_exit() if lost else None, created_zxid=1)
    queries = {"orders": QueryStatus(planned=planned, committed=committed, sink=sink)}
    snapshot = JobStatus(
        job_id="flights",
        leader=None if lost or state.terminal or loops else a_leader(1),
        epoch=1,
        run=RunView(a_run(1), submissions=(submission,), result=a_result(state) if state.terminal else None),
        status=a_status(JobState.RUNNING if lost or state.terminal else state).model_copy(update={"queries": queries}),
        checkpoint_numbers=(7,),
    )
    last = None
    if loops or state in (JobState.LOST, JobState.FAILED):
        last = LastFailure(
            attempt=3, at=NOON, reason="", failure=Failure(), times=0, since=None, in_a_row=max(1, loops), log=""
        )
    condition = replace(decide(snapshot, None, NOON), last=last)
    return {"job": job_view(snapshot, condition, WatchStatus(tasks=("task submit",))), "condition": condition}


NEWEST = CheckpointRow(
    number=7, epoch=1, run=1, reason=CheckpointKind.PERIODIC, payload="p", sha256="0", size=1, cut=CUT, created_at=NOON
)


def verified(source: str = "checkpoint-7", *, restorable: bool | None = True, problem: str = "") -> Any:
    return VERIFICATION(source=source, restorable=restorable, at=NOON, depth="full", problem=problem)


def drilled(verdict: DrillVerdict, *, hours: int = 1) -> DrillListView:
    drill = DRILL(
        source="savepoint-s1", verdict=verdict, started_at=NOON - timedelta(hours=hours), reasons=("a file is gone",)
    )
    drills: DrillListView = DRILLS(job_id="flights", drills=(drill,), unreadable=())
    return drills


HEALTHY = SafetyFacts(
    **a_job(),
    quarantine="",
    newest=NEWEST,
    verification=ReadResult(verified()),
    drills=ReadResult(drilled(DrillVerdict.PASSED)),
)


def test_an_idle_healthy_job_with_a_proven_checkpoint_is_safe_and_nothing_alarms() -> None:
    found = safety_of(HEALTHY)

    assert (found.level, found.wrong, found.to_do, found.repeats) == (GOOD, (), "", ())
    assert found.safe == "Safe. All committed batches are in checkpoint 7."
    assert found.proven is not None
    assert (found.proven.source, found.proven.how) == ("checkpoint-7", "verification, depth full")


@pytest.mark.parametrize(
    "verification",
    [
        ReadResult(None),
        ReadResult(verified(restorable=None)),
        ReadResult(verified("checkpoint-3")),
        ReadResult(problem="away"),
    ],
    ids=["never", "no answer", "an older one", "storage is away"],
)
def test_what_was_not_proven_is_not_called_safe(verification: ReadResult[Any]) -> None:
    found = safety_of(replace(HEALTHY, verification=verification, drills=ReadResult(None)))

    assert "Safe" not in found.safe
    assert found.level == (WARN if verification.problem else CALM)
    assert "All committed batches are in checkpoint 7" in found.safe


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"verification": ReadResult(verified("checkpoint-3", restorable=False, problem="a file is cut"))},
         "NOT RESTORABLE: checkpoint-3: a file is cut"),
        ({"drills": ReadResult(drilled(DrillVerdict.FAILED))},
         "The last restore drill FAILED: savepoint-s1: a file is gone"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.LOST, JobState.FINISHED])
def test_what_is_known_to_be_bad_comes_before_everything_else(
    changed: dict[str, Any], said: str, state: JobState
) -> None:
    found = safety_of(replace(HEALTHY, **a_job(state), **changed))

    assert (found.level, found.wrong[0]) == (BAD, said)
    assert found.safe.startswith("Your data may not be safe.")


@pytest.mark.parametrize(
    ("sink", "said"),
    [("/lake/orders", "skips a batch that it has"), ("kafka", "twice"), ("foreachBatch", "called again")],
)
def test_what_a_loss_repeats_is_told_for_each_sink(sink: str, said: str) -> None:
    in_flight = safety_of(replace(HEALTHY, **a_job(planned=13, sink=sink)))
    behind = safety_of(replace(HEALTHY, **a_job(planned=15, committed=14, sink=sink)))

    assert in_flight.repeats[0].startswith(f"orders ({sink}): batch 13; ")
    assert said in in_flight.repeats[0]
    assert in_flight.safe.startswith("Safe. All committed batches are in checkpoint 7")
    assert behind.repeats[0].startswith(f"orders ({sink}): batches 13 to 15; ")
    assert behind.safe.startswith("All committed batches but those below are in checkpoint 7")


@pytest.mark.parametrize(
    ("job", "level", "wrong", "to_do"),
    [
        (a_job(JobState.STARTING, loops=3), WARN, "3 attempts in a row have failed", "Read the log and repair"),
        (a_job(JobState.LOST), BAD, "Its driver is lost", ""),
        (a_job(JobState.FAILED), BAD, "Run 1 FAILED", "which continues from checkpoint 7"),
    ],
)
def test_what_is_wrong_comes_with_what_to_do(job: dict[str, Any], level: str, wrong: str, to_do: str) -> None:
    found = safety_of(replace(HEALTHY, **job))

    assert (found.level, found.wrong) == (level, (wrong,))
    assert to_do in found.to_do


@pytest.mark.parametrize("state", [JobState.LOST, JobState.STARTING, JobState.CANCELED])
def test_what_no_driver_reports_now_is_not_called_safe(state: JobState) -> None:
    """A driver may have committed a batch after its last report."""
    found = safety_of(replace(HEALTHY, **a_job(state)))

    assert not found.certain
    assert found.safe == "All batches that its last driver has reported are in checkpoint 7."
    assert found.level != GOOD


def test_a_query_that_no_driver_has_reported_makes_the_answer_unknown() -> None:
    newest = NEWEST.model_copy(update={"cut": {**CUT, "late": 3}})

    found = safety_of(replace(HEALTHY, newest=newest))

    assert (found.level, found.certain) == (CALM, False)
    assert found.safe == "The batches committed after checkpoint 7 are unknown: late is not reported."


def test_a_run_that_failed_is_not_sent_back_to_what_cannot_be_restored() -> None:
    found = safety_of(replace(HEALTHY, verification=ReadResult(verified(restorable=False)), **a_job(JobState.FAILED)))

    assert found.to_do == "Repair the cause, then restore the job: the plan names the start."


def test_a_job_in_quarantine_says_so_first() -> None:
    found = safety_of(replace(HEALTHY, quarantine="the graph is gone"))

    assert found.wrong == ("The job is in quarantine: the graph is gone",)
    assert found.to_do == "Repair the cause, then release the job."


def test_a_job_without_a_checkpoint_is_not_called_safe() -> None:
    fresh = safety_of(replace(HEALTHY, newest=None, **a_job(planned=-1, committed=-1)))
    behind = safety_of(replace(HEALTHY, newest=None, **a_job(planned=1, committed=0)))

    assert (fresh.safe, fresh.repeats) == ("Nothing is committed yet.", ())
    assert behind.safe == "There is no checkpoint yet."
    unknown = safety_of(replace(HEALTHY, newest=None, job=HEALTHY.job.model_copy(update={"queries": {}})))
    assert unknown.safe == "There is no checkpoint, and the driver reports no query."
    assert behind.repeats[0].startswith("orders (/lake/orders): batches 0 to 1; ")


ASKS = [JobAction.SAVEPOINT, JobAction.STOP, JobAction.DRAIN, JobAction.CANCEL]


def offered_job(state: JobState = JobState.RUNNING, *, checkpoint: int | None = 7) -> JobStatus:
    lost = state is JobState.LOST
    submitted = SubmissionView(a_submission(1), exit=an_exit() if lost else None)
    made = JobStatus(
        job_id="flights",
        leader=None if lost else a_leader(1),
        epoch=1,
        run=RunView(a_run(1), submissions=(submitted,), result=a_result(state) if state.terminal else None),
        status=a_status(JobState.RUNNING if lost or state.terminal else state),
        checkpoint_numbers=(checkpoint,) if checkpoint is not None else (),
    )
    assert made.state is state
    return made


def enabled(snapshot: JobStatus) -> list[JobAction]:
    return [each.action for each in offers(snapshot) if not each.refused]


@pytest.mark.parametrize(
    ("snapshot", "actions"),
    [
        (offered_job(), ASKS),
        (offered_job(JobState.STARTING), ASKS),
        (offered_job(JobState.STOPPING), [JobAction.CANCEL]),
        (offered_job(JobState.LOST), [JobAction.STOP, JobAction.CANCEL]),
        (offered_job(JobState.LOST, checkpoint=None), [JobAction.CANCEL]),
        (offered_job(JobState.FINISHED), []),
        (offered_job(JobState.FAILED), []),
        (JobStatus(job_id="flights"), []),
    ],
)
def test_a_job_has_the_buttons_that_fit_its_state(snapshot: JobStatus, actions: list[JobAction]) -> None:
    assert enabled(snapshot) == actions
    for each in offers(snapshot):
        assert bool(each.effects) != bool(each.refused), "it says what will happen, or why not"


def test_release_is_offered_to_a_job_in_quarantine_only() -> None:
    assert JobAction.RELEASE not in [each.action for each in offers(offered_job())]
    assert "not in quarantine" in offer(offered_job(), JobAction.RELEASE).refused

    released = offers(offered_job(), "the graph is gone")[-1]

    assert (released.action, released.refused) == (JobAction.RELEASE, "")
    assert "because the graph is gone." in released.effects[0]


def test_what_a_stop_does_depends_on_the_driver() -> None:
    assert "takes a checkpoint" in offer(offered_job(), JobAction.STOP).effects[0]
    assert (
        "ends immediately, FINISHED with checkpoint 7" in offer(offered_job(JobState.LOST), JobAction.STOP).effects[0]
    )


def test_a_cancel_says_what_a_restore_goes_on_from() -> None:
    assert "checkpoint 7" in offer(offered_job(), JobAction.CANCEL).effects[1]
    assert "nothing" in offer(replace(offered_job(), checkpoint_numbers=()), JobAction.CANCEL).effects[1]


def test_a_cancel_with_a_savepoint_says_that_the_job_goes_on_when_the_savepoint_fails() -> None:
    shown = saved_cancel(offered_job())

    assert (shown.action, shown.refused) == (JobAction.CANCEL, "")
    assert shown.command == "spark-ha job cancel flights --savepoint"
    assert "copies a consistent state" in shown.effects[0]
    assert "When the savepoint fails, the run does not end" in shown.effects[1]


@pytest.mark.parametrize(
    ("snapshot", "reason"),
    [
        (offered_job(JobState.LOST), "The driver is lost. This needs a driver"),
        (offered_job(JobState.STOPPING), "being stopped already"),
        (offered_job(JobState.FINISHED), "Run 1 is FINISHED"),
        (JobStatus(job_id="flights"), "has no run"),
    ],
)
def test_a_cancel_with_a_savepoint_needs_a_driver_that_goes_on(snapshot: JobStatus, reason: str) -> None:
    shown = saved_cancel(snapshot)

    assert reason in shown.refused
    assert shown.effects == ()


def test_each_button_names_the_command_that_does_the_same() -> None:
    commands = [offer(offered_job(), action).command for action in ASKS]

    assert commands == [
        "spark-ha savepoint trigger flights",
        "spark-ha job stop flights",
        "spark-ha job stop flights --mode terminate",
        "spark-ha job cancel flights",
    ]


@pytest.mark.parametrize(
    ("snapshot", "quarantined", "primary"),
    [
        (offered_job(), None, "savepoint"),
        (offered_job(JobState.STOPPING), None, None),
        (offered_job(JobState.LOST), None, "recover"),
        (offered_job(JobState.LOST), "the graph is gone", "release"),
        (offered_job(JobState.FAILED), None, "restore"),
        (offered_job(JobState.FINISHED), None, "restore"),
    ],
)
def test_a_state_has_one_primary_button_and_dangerous_ones_are_apart(
    snapshot: JobStatus, quarantined: str | None, primary: str | None
) -> None:
    buttons: list[Any] = [*offers(snapshot, quarantined), *recovery_buttons(snapshot, quarantined)]

    menu = menu_of(buttons, "QUARANTINED" if quarantined else snapshot.state.value)

    assert (menu.primary.name if menu.primary else None) == primary
    assert {each.name for each in menu.dangerous} <= {"cancel", "drain"}
    shown = [*([menu.primary] if menu.primary else []), *menu.others, *menu.dangerous]
    assert sorted(each.name for each in shown) == sorted(each.name for each in buttons if not each.refused)
    assert sum(len(titles) for titles in menu.refused.values()) == len(buttons) - len(shown)


def test_the_reason_of_several_disabled_buttons_is_told_once() -> None:
    snapshot = offered_job(JobState.FAILED)

    menu = menu_of([*offers(snapshot), *recovery_buttons(snapshot)], "FAILED")

    [(reason, titles)] = menu.refused.items()
    assert reason == "Run 1 is FAILED."
    assert len(titles) == 5
