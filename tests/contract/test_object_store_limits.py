"""How long a call may take: held by a clock that the test holds, and told as it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_ha.storage.limits import MIB, Deadline, DeadlineError, S3Limits
from airflow_provider_ha.storage.roots import RACERS, ROUNDS


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "s3.md"
LIMITS = S3Limits(connect_timeout=1, read_timeout=4, attempts=3, deadline=30)  # pauses of up to 4


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(("passed", "allowed"), [(0, True), (21, True), (21.1, False), (31, False)])
def test_an_attempt_is_begun_only_when_a_pause_and_all_of_it_fit(passed: float, allowed: bool) -> None:
    clock = Clock()
    deadline = Deadline(LIMITS, clock)

    clock.seconds += passed

    assert deadline.allows_attempt() is allowed


def test_a_body_ends_while_one_more_wait_fits() -> None:
    clock = Clock()
    deadline = Deadline(LIMITS, clock)

    clock.seconds += 26
    deadline.check_body(7)
    clock.seconds += 0.1

    with pytest.raises(DeadlineError, match="7 within 30 s"):
        deadline.check_body(7)


def test_what_fails_is_repeated_as_often_as_there_are_attempts() -> None:
    tried: list[int] = []

    def fail() -> None:
        tried.append(len(tried))
        raise TimeoutError

    with pytest.raises(TimeoutError):
        Deadline(LIMITS, Clock()).repeat(fail, when=lambda error: isinstance(error, TimeoutError))

    assert tried == [0, 1, 2]


def test_what_fails_is_not_repeated_when_the_time_is_over() -> None:
    clock, tried = Clock(), list[int]()
    deadline = Deadline(LIMITS, clock)

    def fail() -> None:
        tried.append(len(tried))
        clock.seconds += 25
        raise TimeoutError

    with pytest.raises(TimeoutError):
        deadline.repeat(fail, when=lambda error: isinstance(error, TimeoutError))

    assert tried == [0]


def test_another_error_is_not_repeated() -> None:
    tried: list[int] = []

    def fail() -> None:
        tried.append(len(tried))
        raise KeyError

    with pytest.raises(KeyError):
        Deadline(LIMITS, Clock()).repeat(fail, when=lambda error: isinstance(error, TimeoutError))

    assert tried == [0]


def test_a_first_attempt_always_fits() -> None:
    limits = S3Limits()

    assert limits.longest_pause + limits.connect_timeout + limits.read_timeout < limits.deadline


@pytest.mark.parametrize(("attempts", "pause"), [(1, 0), (2, 3), (5, 10), (20, 22)])
def test_a_pause_is_at_most_what_the_client_library_waits(attempts: int, pause: float) -> None:
    assert S3Limits(attempts=attempts).longest_pause == pause


def test_the_page_has_the_figures_of_the_code() -> None:
    limits, text = S3Limits(), " ".join(PAGE.read_text(encoding="utf-8").split())

    for told in (
        rf"to connect, per attempt \| {limits.connect_timeout:g} s",
        rf"the answer, per attempt \| {limits.read_timeout:g} s",
        rf"the first included \| {limits.attempts} ",
        rf"pauses included \| {limits.deadline:g} s",
        rf"its {limits.deadline:g} s are over",
        rf"more than {limits.part_size // MIB} MiB go up in parts",
        rf"more than {limits.copy_whole // MIB // 1024} GiB are copied in parts of {limits.copy_part // MIB} MiB",
    ):
        assert re.search(told, text), told
    assert (RACERS, ROUNDS) == (8, 4), "the page says eight creations, four times over"
