"""Errors that end a run, and the timeline of its recoveries."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import StartKind
from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import RecoveryTimes, RestartReason, restart_reason, restarts_since
from airflow_provider_ha.jobs.recovery.restart_policy import RepeatedFailure, repeated_failure
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.runs.submissions import (
    STALLED,
    DriverHandle,
    Failure,
    FailureKind,
    Submission,
    SubmissionExit,
    SubmissionStarted,
)
from tests.support.clusters.jobs_helpers import MISTAKE, NOON, a_submission, an_exit


NOW = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)
NEVER = HaOptions()
OPT_IN = HaOptions(application_failures=3)
OF_THE_SCRIPT = MISTAKE.model_copy(update={"query": None, "batches": {}})
AWAY = Failure(kind=FailureKind.OUTAGE, error_class="TimeoutException", query="rows", batches={"rows": 4})


@dataclass
class History:
    """The submissions of a run, made one after the other.

    :param reached: How far each driver came, unless it is said: nothing, a query, or a batch.
    """

    reached: str = "batch"
    start: StartKind = StartKind.FRESH
    options: HaOptions = OPT_IN
    time: datetime = NOW
    first: int = 1
    views: list[SubmissionView] = field(default_factory=list)

    def end(
        self, failure: Failure | None, *, after: float = 60, lived: float = 5, outage: bool = False, reached: str = ""
    ) -> History:
        """Add a submission that ended *after* seconds later than the one before."""
        self.time += timedelta(seconds=after)
        number = len(self.views) + self.first
        made = Submission(
            attempt=number,
            submission_id=f"s{number}",
            requested_by="test",
            engine="local",
            created_at=self.time - timedelta(seconds=lived),
        )
        started = SubmissionStarted(handle=DriverHandle(engine="local", log_uri="file://h/log"))
        come = reached or self.reached
        exit_ = SubmissionExit(
            code=10,
            failure=failure,
            outage=outage,
            started=come in ("query", "batch"),
            committed=come == "batch",
            at=self.time,
        )
        self.views.append(SubmissionView(submission=made, started=None if outage else started, exit=exit_))
        return self

    def repeat(self, failure: Failure, times: int, *, after: float = 60) -> History:
        for _ in range(times):
            self.end(failure, after=after)
        return self

    @property
    def repeated(self) -> RepeatedFailure | None:
        return repeated_failure(tuple(self.views), self.options, fresh=self.start is StartKind.FRESH)

    @property
    def count(self) -> int:
        return self.repeated.count if self.repeated is not None else 0

    @property
    def over(self) -> bool:
        return self.repeated is not None and self.repeated.ends_the_run


def changed(failure: Failure = MISTAKE, **values: object) -> Failure:
    return failure.model_copy(update=values)


KINDS = [
    OF_THE_SCRIPT,
    Failure(error_class="SystemExit", message="exit status 2", batches={}, location="main.py:8"),
    Failure(kind=FailureKind.OUTAGE, error_class="FileNotFoundError", batches={}, location="main.py:8"),
    Failure(error_class="spark-submit", message="exit status 1: JAVA_HOME is not set", batches={}),
    Failure(error_class="ConfigurationError", message="the option is not known"),
]


@pytest.mark.parametrize("failure", KINDS, ids=[each.error_class for each in KINDS])
def test_a_run_without_a_query_ends_the_third_time_whatever_kind_of_error_it_is(failure: Failure) -> None:
    history = History("nothing", options=NEVER)

    assert [history.end(failure, after=5).over for _ in range(3)] == [False, False, True]


def test_a_run_that_once_started_a_query_has_patience_with_every_error_before_its_first_query() -> None:
    history = History("nothing", options=NEVER).end(None, reached="batch")

    assert not history.repeat(OF_THE_SCRIPT, 40).over


@pytest.mark.parametrize(
    "other", [changed(OF_THE_SCRIPT, location="main.py:9"), changed(OF_THE_SCRIPT, error_class="E")]
)
def test_another_line_or_class_before_the_first_query_begins_the_count_again(other: Failure) -> None:
    history = History("nothing", options=NEVER).repeat(OF_THE_SCRIPT, 2).end(other)

    assert history.count == 1


def test_neither_an_outage_of_storage_nor_a_lost_leadership_ends_a_run_without_a_query() -> None:
    lost = Failure(kind=FailureKind.OUTAGE, error_class="LEADERSHIP_LOST", message="the lease ran out")
    history = History("nothing", options=NEVER)

    for _ in range(10):
        assert not history.end(None, outage=True).end(lost).end(None).over


def test_a_stall_before_the_first_query_is_no_error() -> None:
    assert History("nothing", options=NEVER).repeat(Failure(error_class=STALLED, batches={}), 9).count == 0


def test_a_run_whose_first_attempts_are_forgotten_may_have_worked() -> None:
    assert not History("nothing", options=NEVER, first=17).repeat(OF_THE_SCRIPT, 9).over


REFUSED = changed(error_class="SparkException", message="There are [1] sources", misfit="Run 1 wrote it.", location="")


def test_a_query_that_spark_refuses_to_continue_ends_its_run_the_second_time() -> None:
    history = History("query", StartKind.CHECKPOINT, NEVER)

    assert not history.end(REFUSED).over
    assert history.end(REFUSED).over
    assert history.repeated is not None
    assert history.repeated.reason.endswith("Run 1 wrote it.")


def test_a_query_that_spark_refuses_after_it_has_worked_ends_no_run() -> None:
    assert not History("query", StartKind.CHECKPOINT, NEVER).end(REFUSED, reached="batch").repeat(REFUSED, 40).over


@pytest.mark.parametrize("kind", [FailureKind.APPLICATION, FailureKind.UNKNOWN])
def test_an_error_at_the_first_batch_of_all_ends_the_run_the_third_time(kind: FailureKind) -> None:
    history = History("query", options=NEVER)

    assert [history.end(changed(kind=kind, batches={"rows": -1}), after=5).over for _ in range(3)] == [
        False,
        False,
        True,
    ]


def test_an_outage_at_the_first_batch_of_all_ends_no_run() -> None:
    assert not History("query", options=NEVER).repeat(changed(AWAY, batches={"rows": -1}), 40).over


def test_an_error_of_a_function_in_a_run_that_goes_on_from_a_checkpoint_ends_no_run() -> None:
    assert not History("query", StartKind.CHECKPOINT, NEVER).repeat(MISTAKE, 40).over


@pytest.mark.parametrize("kind", list(FailureKind))
def test_no_error_ends_a_run_that_has_worked_without_consent(kind: FailureKind) -> None:
    assert not History(options=NEVER).repeat(changed(kind=kind), 50, after=3600).over


def test_three_times_in_ten_minutes_end_a_run_whose_user_has_asked_for_it() -> None:
    assert History().repeat(MISTAKE, 3, after=300).over


def test_two_times_do_not_however_far_apart() -> None:
    assert not History().repeat(MISTAKE, 2, after=86_400).over


def test_many_times_in_less_than_ten_minutes_do_not() -> None:
    assert not History().repeat(MISTAKE, 100, after=6).over
    assert History().repeat(MISTAKE, 102, after=6).over


@pytest.mark.parametrize("kind", [FailureKind.OUTAGE, FailureKind.UNKNOWN])
def test_what_is_not_certain_does_not_count_for_that(kind: FailureKind) -> None:
    assert not History().repeat(changed(kind=kind), 50, after=300).over


@pytest.mark.parametrize(
    "other",
    [
        changed(batches={"rows": 5}),
        changed(query="windows", batches={"windows": 4}),
        changed(error_class="ValueError"),
        changed(location="main.py:40 in clean"),
        OF_THE_SCRIPT,
    ],
)
def test_another_batch_query_class_line_or_the_script_begins_the_count_again(other: Failure) -> None:
    history = History().repeat(MISTAKE, 2).end(other)

    assert history.count == 1
    assert history.end(MISTAKE).count == 1


def test_message_may_vary_with_the_row() -> None:
    history = History().end(changed(message="'price'")).end(changed(message="'amount'"))

    assert history.count == 2


def test_message_decides_where_there_is_no_line_but_its_numbers_do_not() -> None:
    cast = changed(error_class="SparkNumberFormatException", location="", message="the value 'x' of row 17")

    history = History().end(cast).end(cast.model_copy(update={"message": "the value 'y' of row 18"}))

    assert history.count == 2
    assert history.end(cast.model_copy(update={"message": "division by zero"})).count == 1


def test_error_whose_batch_is_not_known_never_repeats_in_a_run_that_has_worked() -> None:
    assert History().repeat(changed(batches=None), 5, after=300).count == 1


def test_kills_and_outages_of_storage_in_between_say_nothing() -> None:
    history = History().end(MISTAKE).end(None).end(None, outage=True).end(MISTAKE)

    assert history.count == 2


def test_driver_that_lived_for_long_and_ended_otherwise_begins_the_count_again() -> None:
    history = History().repeat(MISTAKE, 2).end(None, after=700, lived=NEVER.restart_reset_after).end(MISTAKE)

    assert history.count == 1


def test_batch_that_takes_long_until_it_fails_is_counted() -> None:
    history = History()
    for _ in range(3):
        history.end(MISTAKE, after=2000, lived=1900)

    assert history.over


def test_end_without_a_failure_is_none() -> None:
    assert History().repeated is None
    assert History().end(MISTAKE).end(None).count == 0


@pytest.mark.parametrize("given", [{"application_failures": 1}, {"application_failures": -2}, {"start_timeout": 0}])
def test_option_that_means_nothing_is_refused_by_its_name(given: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        read(HaOptions, given, subject="the job")


def lost(attempt: int = 1, *, hours: int = 0, **exit_fields: Any) -> SubmissionView:
    submission = a_submission(attempt).model_copy(update={"created_at": NOON + timedelta(hours=hours)})
    return SubmissionView(submission=submission, exit=an_exit().model_copy(update=exit_fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, RestartReason.KILLED),
        ({"outage": True}, RestartReason.OUTAGE),
        ({"unfit": True}, RestartReason.UNFIT),
        ({"handed_over": True}, RestartReason.HANDED_OVER),
        ({"decision": "choose"}, RestartReason.OTHER),
        ({"failure": Failure(kind=FailureKind.APPLICATION)}, RestartReason.APPLICATION),
        ({"failure": Failure(kind=FailureKind.OUTAGE)}, RestartReason.OUTAGE),
        ({"failure": Failure(kind=FailureKind.UNKNOWN)}, RestartReason.OTHER),
        ({"failure": Failure(error_class=STALLED)}, RestartReason.STALLED),
    ],
    ids=["killed", "outage", "unfit", "handed over", "decision", "application", "broker", "unknown", "stalled"],
)
def test_the_exit_of_a_driver_is_the_reason_of_the_next_attempt(fields: dict[str, Any], reason: RestartReason) -> None:
    assert restart_reason(lost(**fields)) is reason


def test_a_driver_without_an_exit_has_lost_its_host() -> None:
    assert restart_reason(SubmissionView(submission=a_submission())) is RestartReason.HOST


def test_only_restarts_since_the_moment_count() -> None:
    submissions = [lost(1), lost(2, hours=1, outage=True), lost(3, hours=30), lost(4, hours=31)]

    found = restarts_since(submissions, NOON + timedelta(hours=12))

    assert {reason: count for reason, count in found.items() if count} == {
        RestartReason.OUTAGE: 1,
        RestartReason.KILLED: 1,
    }
    assert found.keys() == set(RestartReason)


def test_a_loss_without_a_proof_of_death_is_submitted_again_after_the_last_sign_of_life() -> None:
    times = RecoveryTimes(
        alive_at=NOON,
        dead_at=None,
        submitted_at=NOON + timedelta(seconds=20),
        led_at=NOON + timedelta(seconds=25),
        bound_at=None,
        started_at=None,
        committed_at=None,
    )

    assert times.phases == {"submit": 20.0, "lead": 5.0}
