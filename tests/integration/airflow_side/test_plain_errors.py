"""What Airflow's real task runner writes into the log of a task that is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


CASES = ("submit", "recover", "sensor", "broken", "inside")
Logs = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def logs() -> Logs:
    """The log of each case; its last line says how the task ended. One import of Airflow serves all of them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_VERSION"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.airflow_side.refused_task", *CASES],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    ends = [number for number, line in enumerate(lines, 1) if line.keys() == {"state", "message"}]
    assert len(ends) == len(CASES), done.stderr
    return {case: lines[begin:end] for case, begin, end in zip(CASES, [0, *ends], ends, strict=False)}


def errors(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the error lines of a task's log."""
    return [line for line in log if line.get("level") == "error"]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("submit", "wait_for='nonsense' is unknown. Choose from running, finished."),
        ("recover", "has no storage root"),
        ("sensor", "has no storage root"),
    ],
)
def test_a_refusal_is_one_sentence_and_no_frame(logs: Logs, case: str, sentence: str) -> None:
    found = errors(logs[case])

    assert [sentence in line["event"] for line in found] == [True]
    assert not {"exception", "error_detail", "exc_info"} & found[0].keys()


def test_a_refusal_is_not_retried_although_the_task_has_retries(logs: Logs) -> None:
    assert logs["submit"][-1] == {"state": "failed", "message": "TaskState"}


@pytest.mark.parametrize("case", ["broken", "inside"])
def test_what_nobody_expected_keeps_its_frames(logs: Logs, case: str) -> None:
    assert errors(logs[case])[0]["exception"][0]["frames"]
    assert logs[case][-1] == {"state": "up_for_retry", "message": "RetryTask"}
