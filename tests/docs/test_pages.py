"""Pages whose rows name tests, rules or modules that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.plan_model import Verdict
from tests.docs.blocks import blocks_of


GLOSSARY = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"


def tables() -> list[list[str]]:
    """Return the terms of each table."""
    parts = GLOSSARY.read_text(encoding="utf-8").split("\n## ")[1:]
    return [re.findall(r"^\| ([a-z][a-z, ]*) \|", part, re.MULTILINE) for part in parts]


def test_each_term_is_defined_once() -> None:
    terms = [term for table in tables() for term in table]

    assert len(terms) > 40
    assert len(terms) == len(set(terms))


def test_the_terms_of_a_table_are_in_alphabetical_order() -> None:
    assert [sorted(table) for table in tables()] == tables()


def test_every_verdict_of_a_restore_is_named() -> None:
    text = GLOSSARY.read_text(encoding="utf-8")

    assert [verdict for verdict in Verdict if f"`{verdict.value}`" not in text] == []


ROOT = Path(__file__).parents[2]
GUARANTEES = ROOT / "docs" / "explanation" / "guarantees.md"
PLACES = ROOT / "docs" / "explanation" / "where-a-job-runs.md"
FAILURES = ROOT / "docs" / "how-to" / "run-a-job.md"

# Row of the table of failures, by the beginning of its failure -> test against the real program.
OF_FAILURES = {
    "any, three times at one place: an argument": (
        "tests/fault/driver/test_application_failures.py",
        "test_script_that_exits_before_its_first_query_ends_the_run_with_its_status_and_its_words",
    ),
    "Spark refuses this query for that checkpoint": (
        "tests/fault/driver/test_application_failures.py",
        "test_schema_that_spark_refuses_ends_the_run_the_second_time_and_keeps_the_checkpoints",
    ),
    "any but an outage, three times": (
        "tests/fault/driver/test_application_failures.py",
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
        "tests/integration/airflow_side/test_refused_tasks.py",
        "test_a_submission_is_refused_in_one_sentence_and_makes_nothing",
    ),
    "the script is [refused]": (
        "tests/fault/driver/test_application_failures.py",
        "test_script_that_does_not_fit_its_checkpoint_is_refused_before_its_first_batch",
    ),
}
PROOFS = ROOT / "docs" / "reference" / "proofs.md"
_TEST = re.compile(r"`((?:lab|tests)/[\w/]+\.py)::(\w+)`")


def rows() -> list[str]:
    """Return the rows of the table of failures, without its head."""
    lines = GUARANTEES.read_text(encoding="utf-8").splitlines()
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


def marks_of(file: str, name: str) -> set[str]:
    """Return the marks of a test, with those of its module; marks of single parameters are left out."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assigned = [node.value for node in tree.body if isinstance(node, ast.Assign) and "pytestmark" in ast.unparse(node)]
    (test,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    own = [each for each in test.decorator_list if ".parametrize(" not in ast.unparse(each)]
    return {found for node in (*assigned, *own) for found in re.findall(r"mark\.(\w+)", ast.unparse(node))}


@cache
def passed_in_a_proof() -> frozenset[str]:
    """Return the files of which every test of hours has passed in a recorded run."""
    recorded = PROOFS.read_text(encoding="utf-8").partition("<!-- tests -->")[2]
    found = re.findall(r"^\| ((?:tests|lab)/\S+) \| (\d+) \| (\d+) \|", recorded, re.MULTILINE)
    return frozenset(file for file, tests, passed in found if tests == passed != "0")


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.split("|")[1].strip()[:60])
def test_a_row_whose_tests_take_hours_is_marked_until_their_run_is_recorded(row: str) -> None:
    named = _TEST.findall(row)

    proven = [file for file, name in named if "hours" not in marks_of(file, name) or file in passed_in_a_proof()]
    assert ("*No recorded run yet.*" in row) == (not proven)


@pytest.mark.parametrize("page", [GUARANTEES, PLACES], ids=lambda page: page.name)
def test_each_test_that_a_page_names_exists(page: Path) -> None:
    for file, name in _TEST.findall(page.read_text(encoding="utf-8")):
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{name}"


PAGES = sorted([ROOT / "README.md", ROOT / "docs" / "tutorial.md", *(ROOT / "docs" / "how-to").glob("*.md")])
WITH_A_DAG = [page for page in PAGES if any("with DAG(" in block.text for block in blocks_of(page))]


def test_there_are_pages_to_look_at() -> None:
    assert len(WITH_A_DAG) >= 6


@pytest.mark.parametrize("page", WITH_A_DAG, ids=lambda page: page.name)
def test_page_with_a_dag_shows_what_recovers_a_job_without_its_task(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert "recover_jobs" in text
    assert "spark-ha cluster recover --watch" in text


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_first_pages_show_the_whole_dag(page: Path) -> None:
    shown = [block.text for block in blocks_of(page) if block.language == "python"]

    assert any("SparkHaRecoverJobsOperator(" in text and "SparkHaClusterTrigger(" in text for text in shown)


RULES = ROOT / "docs" / "reference" / "rules.md"
_CODE = re.compile(r"\b[HCIJLRP]\d{1,2}\b")
_ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \| (.+) \| `(.+)` \|$", re.MULTILINE)
ROWS = _ROW.findall(RULES.read_text(encoding="utf-8"))
DEFINED = [code for code, *_ in ROWS]


def sources() -> Iterator[Path]:
    yield from (ROOT / "airflow_provider_ha").rglob("*.py")
    yield from (ROOT / "tests").rglob("*.py")
    yield from (ROOT / "tests" / "mutants").rglob("*.toml")


def codes_in(path: Path) -> set[str]:
    return set(_CODE.findall(path.read_text(encoding="utf-8")))


def test_every_code_in_use_is_defined() -> None:
    undefined = {str(path.relative_to(ROOT)): codes_in(path) - set(DEFINED) for path in sources()}

    assert {path: codes for path, codes in undefined.items() if codes} == {}


def test_every_defined_code_is_in_use() -> None:
    used = set[str]().union(*(codes_in(path) for path in sources()))

    assert set(DEFINED) <= used


def test_a_code_is_defined_once() -> None:
    assert sorted(DEFINED) == sorted(set(DEFINED))


@pytest.mark.parametrize(("code", "test"), [(code, test) for code, _, _, test in ROWS])
def test_the_test_of_a_rule_is_there(code: str, test: str) -> None:
    assert (ROOT / test).is_file()


REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "airflow_provider_ha"
DESIGN = REPOSITORY / "docs" / "explanation" / "design.md"
STEP = re.compile(r"^(?P<indent> *)- `(?P<module>[a-z_/]+\.py)`: ", re.MULTILINE)
INDENT = 4


def steps() -> list[tuple[str, str | None]]:
    """Return each step with the step one level out; a program has none."""
    walk = DESIGN.read_text(encoding="utf-8").partition("## 7. A walk through the code")[2]
    found, above = [], list[str]()
    for match in STEP.finditer(walk):
        depth = len(match["indent"]) // INDENT
        found.append((match["module"], above[depth - 1] if depth else None))
        above[depth:] = [match["module"]]
    return found


def imported_by(module: str) -> set[str]:
    """Return the modules that one imports anywhere in it, as paths."""
    names = set[str]()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return {name.partition(".")[2].replace(".", "/") + ".py" for name in names}


def test_the_walk_tells_a_submit_a_checkpoint_and_a_restore() -> None:
    programs = [module for module, caller in steps() if caller is None]

    assert programs == [
        "operators/submit.py",
        "host/supervisor/main.py",
        "driver/bootstrap.py",
        "driver/driver.py",
        "operators/restore.py",
        "driver/checkpointing/start_point.py",
    ]


@pytest.mark.parametrize("module", sorted({module for module, _ in steps()}))
def test_every_step_is_a_module(module: str) -> None:
    assert (PACKAGE / module).is_file()


@pytest.mark.parametrize(("module", "caller"), [(module, caller) for module, caller in steps() if caller is not None])
def test_every_step_is_one_module_away_from_its_caller(module: str, caller: str) -> None:
    assert module in imported_by(caller)
