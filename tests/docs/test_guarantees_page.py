"""Every row of the guarantees page names a test that exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "guarantees.md"
PLACES = ROOT / "docs" / "explanation" / "where-a-job-runs.md"
FAILURES = ROOT / "docs" / "how-to" / "run-a-job.md"
# Row of the table of failures, by the beginning of its failure -> test against the real program.
OF_FAILURES = {
    "any, three times at one place: an argument": (
        "tests/fault/driver/test_failures_without_progress.py",
        "test_script_that_exits_before_its_first_query_ends_the_run_with_its_status_and_its_words",
    ),
    "Spark refuses this query for that checkpoint": (
        "tests/fault/driver/test_failures_without_progress.py",
        "test_schema_that_spark_refuses_ends_the_run_the_second_time_and_keeps_the_checkpoints",
    ),
    "any but an outage, three times": (
        "tests/fault/driver/test_failures_without_progress.py",
        "test_error_in_the_first_batch_of_a_new_job_ends_the_run",
    ),
    "an error of your function": (
        "tests/fault/driver/test_application_failures.py",
        "test_function_that_fails_at_the_same_batch_is_tried_again_and_ends_no_run",
    ),
    "an outage of storage": (
        "tests/fault/driver/test_application_failures.py",
        "test_broker_that_is_silent_for_several_attempts_ends_no_run",
    ),
    "attempts fail one after the other": (
        "tests/unit/driver/test_publisher.py",
        "test_drivers_that_fail_before_they_commit_take_no_checkpoint_of_the_same_cut",
    ),
    "Airflow has no connection": (
        "tests/unit/airflow_side/test_retries.py",
        "test_an_unknown_connection_is_not_tried_again",
    ),
    "ZooKeeper or the storage": (
        "tests/unit/airflow_side/test_retries.py",
        "test_a_cluster_that_does_not_answer_is_told_with_how_long_the_tries_last_and_how_they_end",
    ),
    "the host of the driver": (
        "tests/integration/airflow_side/test_unfit_hosts.py",
        "test_a_submission_is_refused_in_one_sentence_and_makes_nothing",
    ),
    "the script is [refused]": (
        "tests/fault/driver/test_failures_without_progress.py",
        "test_script_that_does_not_fit_its_checkpoint_is_refused_before_its_first_batch",
    ),
}
_TEST = re.compile(r"`((?:lab|tests)/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    """Return the rows of the table of failures, without its head."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("| Failure |"))
    return [line for line in lines[head + 2 :] if line.startswith("| ")]


def test_each_row_of_the_table_of_failures_has_a_test() -> None:
    lines = FAILURES.read_text(encoding="utf-8").splitlines()
    head = lines.index("| Progress of the run | Failure | Result |")
    failures = [line.split("|")[2].strip() for line in lines[head + 2 : lines.index("", head)]]

    assert len(failures) == len(OF_FAILURES)
    for failure in failures:
        [(file, name)] = [test for begin, test in OF_FAILURES.items() if failure.startswith(begin)]
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_the_table_is_found() -> None:
    assert len(rows()) > 10


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_each_row_names_a_test_that_exists(row: str) -> None:
    named = _TEST.findall(row)

    assert named
    for file, name in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", [PAGE, PLACES], ids=lambda page: page.name)
def test_each_test_that_a_page_names_exists(page: Path) -> None:
    for file, name in _TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"
