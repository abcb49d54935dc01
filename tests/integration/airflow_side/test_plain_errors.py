"""What Airflow's real task runner writes into the log of a task that is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(case: str) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Return the error lines of the task's log, and how the task ended."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_VERSION"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.airflow_side.refused_task", case],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines, done.stderr
    return [line for line in lines if line.get("level") == "error"], lines[-1]


@pytest.mark.parametrize(
    ("case", "sentence"),
    [
        ("submit", "wait_for='nonsense' is unknown. Use one of running, finished."),
        ("recover", "has no storage root"),
        ("sensor", "has no storage root"),
    ],
)
def test_a_refusal_is_one_sentence_and_no_frame(case: str, sentence: str) -> None:
    errors, _ = run(case)

    assert [sentence in line["event"] for line in errors] == [True]
    assert not {"exception", "error_detail", "exc_info"} & errors[0].keys()


def test_a_refusal_is_not_retried_although_the_task_has_retries() -> None:
    _, end = run("submit")

    assert end == {"state": "failed", "message": "TaskState"}


@pytest.mark.parametrize("case", ["broken", "inside"])
def test_what_nobody_expected_keeps_its_frames(case: str) -> None:
    errors, end = run(case)

    assert errors[0]["exception"][0]["frames"]
    assert end == {"state": "up_for_retry", "message": "RetryTask"}
