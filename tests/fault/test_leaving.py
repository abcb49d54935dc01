"""A driver that must end does end, with everything broken around it, in each of its threads (contract 8)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path

import pytest

from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from tests.fault.leaving_process import ROLES, STILL_ALIVE, TROUBLES, WAYS, Case, Outcome


HANGS = ("stderr_clogged", "directory_hangs")  # what holds the last words for as long as they may take
CODES = {
    "leadership_lost": ExitCode.LEADERSHIP_LOST,
    "leave": ExitCode.FAILED,
    "done": ExitCode.DONE,
    "thread_failed": ExitCode.FAILED,
    "jvm_gone": ExitCode.JVM_GONE,
}
ROLE_OF = {"leadership_lost": "heartbeat", "thread_failed": "publisher", "leave": "main", "done": "main"}
KILLED = -9
REASONS = {
    "leadership_lost": "the lease ran out",
    "leave": "the query failed",
    "done": None,
    "thread_failed": "UnspeakableError: its text could not be created (RuntimeError)",
}


def end(root: Path, cases: Sequence[Case], *options: str, words_seconds: float = 2.0) -> dict[Case, Outcome]:
    """Run cases beside each other, and return what became of each."""
    finished = subprocess.run(
        [sys.executable, "-m", "tests.fault.leaving_process", str(root), str(words_seconds), *options],
        input=json.dumps([asdict(case) for case in cases]),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    told = [json.loads(line) for line in finished.stdout.splitlines()]
    return {Case(**found["case"]): Outcome(**(found | {"case": Case(**found["case"])})) for found in told}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Outcome]:
    """One thread for each way out and every trouble, all at once; the long test has every thread."""
    ends = [*((role, way) for way, role in ROLE_OF.items()), ("watchdog", "leadership_lost"), ("watchdog", "jvm_gone")]
    cases = [Case(role, way, trouble) for role, way in ends for trouble in TROUBLES]
    return end(tmp_path_factory.mktemp("leaving"), cases + [Case("main", way, "interrupted") for way in WAYS])


def codes(outcome: Outcome) -> tuple[int, int]:
    return outcome.python, outcome.jvm


def expected(case: Case) -> tuple[int, int]:
    """The process is gone with its code; its JVM was killed when the leadership is lost, and only then."""
    code = CODES[case.way]
    return code, KILLED if case.way in ("leadership_lost", "jvm_gone") else code


@pytest.mark.parametrize("trouble", TROUBLES)
@pytest.mark.parametrize("way", WAYS)
def test_a_driver_ends_under_every_trouble(quick: dict[Case, Outcome], way: str, trouble: str) -> None:
    case = Case(ROLE_OF[way], way, trouble)

    assert codes(quick[case]) == expected(case)


@pytest.mark.parametrize("trouble", [trouble for trouble in TROUBLES if trouble != "directory_hangs"])
@pytest.mark.parametrize("way", WAYS)
def test_the_reason_is_left_when_only_the_output_is_broken(quick: dict[Case, Outcome], way: str, trouble: str) -> None:
    assert quick[Case(ROLE_OF[way], way, trouble)].reason == REASONS[way]


@pytest.mark.parametrize("way", ["leave", "done"])
def test_an_orderly_end_flushes_what_was_printed(quick: dict[Case, Outcome], way: str) -> None:
    assert "pending" in quick[Case("main", way, "no_trouble")].output


def test_the_log_says_why_the_driver_ends(quick: dict[Case, Outcome]) -> None:
    assert "the driver ends with FAILED (10): the query failed" in quick[Case("main", "leave", "no_trouble")].output


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_ends_the_wait_for_the_words_and_nothing_else(quick: dict[Case, Outcome], way: str) -> None:
    case = Case("main", way, "interrupted")

    assert codes(quick[case]) == expected(case)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_driver_does_not_outlive_its_jvm(quick: dict[Case, Outcome], trouble: str) -> None:
    """Its script sleeps by itself, so nothing but the watchdog sees that the JVM is gone."""
    case = Case("watchdog", "jvm_gone", trouble)

    assert codes(quick[case]) == expected(case)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_driver_does_not_outlive_its_lease_when_its_heartbeats_are_stuck(
    quick: dict[Case, Outcome], trouble: str
) -> None:
    case = Case("watchdog", "leadership_lost", trouble)

    assert codes(quick[case]) == expected(case)


def test_the_jvm_of_a_lost_leadership_is_killed_before_any_word(tmp_path: Path) -> None:
    """What it does while the words hang would be a zombie's work."""
    cases = [Case("main", "leadership_lost", trouble) for trouble in HANGS]

    outcomes = end(tmp_path, cases, "jvms", words_seconds=600)

    assert [codes(outcomes[case]) for case in cases] == [(STILL_ALIVE, KILLED)] * len(HANGS)


@pytest.mark.long
@pytest.mark.parametrize("role", ROLES)
def test_every_thread_can_end_the_driver_by_every_way(tmp_path: Path, role: str) -> None:
    outcomes = end(tmp_path, [Case(role, way, trouble) for way, trouble in product(WAYS, TROUBLES)])

    assert {case: codes(outcome) for case, outcome in outcomes.items()} == {case: expected(case) for case in outcomes}
    assert len(outcomes) == len(WAYS) * len(TROUBLES)
