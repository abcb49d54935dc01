"""When an error of the application has repeated, and what begins the count again. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.failures import Failure, FailureKind
from airflow_provider_ha.jobs.options.given_options import ha_options
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import SubmissionView
from airflow_provider_ha.jobs.submissions import Handle, Submission, SubmissionExit, SubmissionStarted
from airflow_provider_ha.recovery.repeated import repeated_failure
from tests.support.clusters.jobs_helpers import MISTAKE


NOW = datetime(2013, 1, 1, 12, tzinfo=timezone.utc)
OPTIONS = HaOptions()
OF_THE_SCRIPT = MISTAKE.model_copy(update={"query": None, "batches": {}})


@dataclass
class History:
    """The submissions of a run, made one after the other."""

    time: datetime = NOW
    views: tuple[SubmissionView, ...] = ()

    def end(self, failure: Failure | None, *, after: float = 60, lived: float = 5, outage: bool = False) -> History:
        """Add a submission that ended *after* seconds later than the one before."""
        self.time += timedelta(seconds=after)
        number = len(self.views) + 1
        made = Submission(
            attempt=number,
            submission_id=f"s{number}",
            requested_by="test",
            engine="local",
            created_at=self.time - timedelta(seconds=lived),
        )
        started = SubmissionStarted(handle=Handle(engine="local", log_uri="file://h/log"))
        exit_ = SubmissionExit(code=10, failure=failure, outage=outage, at=self.time)
        self.views += (SubmissionView(submission=made, started=None if outage else started, exit=exit_),)
        return self

    def repeat(self, failure: Failure, times: int, *, after: float = 60) -> History:
        for _ in range(times):
            self.end(failure, after=after)
        return self

    @property
    def count(self) -> int:
        repeated = repeated_failure(self.views, OPTIONS)
        return repeated.count if repeated is not None else 0

    @property
    def over(self) -> bool:
        repeated = repeated_failure(self.views, OPTIONS)
        return repeated is not None and repeated.ends_the_run(OPTIONS)


def changed(**values: object) -> Failure:
    return MISTAKE.model_copy(update=values)


def test_three_times_in_ten_minutes_end_the_run() -> None:
    assert History().repeat(MISTAKE, 3, after=300).over


def test_two_times_do_not_however_far_apart() -> None:
    assert not History().repeat(MISTAKE, 2, after=86_400).over


def test_many_times_in_less_than_ten_minutes_do_not() -> None:
    assert not History().repeat(MISTAKE, 100, after=6).over
    assert History().repeat(MISTAKE, 102, after=6).over


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


def test_error_whose_batch_is_not_known_never_repeats() -> None:
    assert History().repeat(changed(batches=None), 5, after=300).count == 1


@pytest.mark.parametrize("kind", [FailureKind.OUTAGE, FailureKind.UNKNOWN])
def test_what_is_not_certain_is_never_counted(kind: FailureKind) -> None:
    assert History().repeat(changed(kind=kind), 50, after=300).count == 0


def test_outages_and_kills_in_between_say_nothing() -> None:
    away = Failure(kind=FailureKind.OUTAGE, error_class="TimeoutException", query="rows", batches={"rows": 4})

    history = History().end(MISTAKE).end(None).end(None, outage=True).end(away).end(MISTAKE)

    assert history.count == 2


def test_driver_that_lived_for_long_and_ended_otherwise_begins_the_count_again() -> None:
    history = History().repeat(MISTAKE, 2).end(None, after=700, lived=OPTIONS.restart_reset_after).end(MISTAKE)

    assert history.count == 1


def test_batch_that_takes_long_until_it_fails_is_counted() -> None:
    history = History()
    for _ in range(3):
        history.end(MISTAKE, after=2000, lived=1900)

    assert history.over


def test_end_without_a_failure_of_the_application_is_none() -> None:
    assert repeated_failure((), OPTIONS) is None
    assert History().end(MISTAKE).end(None).count == 0


def test_delay_doubles_once_the_error_has_repeated_up_to_its_maximum() -> None:
    history, delays = History(), []
    for _ in range(9):
        repeated = repeated_failure(history.end(MISTAKE).views, OPTIONS)
        assert repeated is not None
        delays.append(repeated.delay(OPTIONS))

    assert delays == [0, 10, 20, 40, 80, 160, 300, 300, 300]


def test_delays_of_the_defaults_reach_ten_minutes() -> None:
    history, attempts = History().end(MISTAKE), 1
    while not history.over:
        repeated = repeated_failure(history.views, OPTIONS)
        assert repeated is not None
        history.end(MISTAKE, after=repeated.delay(OPTIONS))
        attempts += 1

    assert attempts == 8


def test_limit_can_be_switched_off() -> None:
    repeated = repeated_failure(History().repeat(MISTAKE, 50, after=300).views, OPTIONS)

    assert repeated is not None
    assert not repeated.ends_the_run(HaOptions(application_failures=-1))


@pytest.mark.parametrize(
    "given", [{"application_failures": 1}, {"application_failures": -2}, {"application_delay": -1}]
)
def test_option_that_means_nothing_is_refused_by_its_name(given: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        ha_options(**given)


def test_what_has_passed_of_the_delay_is_not_waited_for_again() -> None:
    history = History().repeat(MISTAKE, 4)
    repeated = repeated_failure(history.views, OPTIONS)

    assert repeated is not None
    assert repeated.delay_left(OPTIONS, history.time + timedelta(seconds=30)) == 10
    assert repeated.delay_left(OPTIONS, history.time + timedelta(seconds=3600)) == 0
    assert repeated.delay_left(OPTIONS, history.time - timedelta(seconds=3600)) == 40
