"""The runner of mutants, on a package of three lines: what it must not take for a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.bench import Bench
from tests.mutants.catalogue import CatalogueError, Mutant, load
from tests.mutants.outcome import Outcome
from tests.mutants.run import chosen, try_all


pytestmark = pytest.mark.slow
LONG = pytest.mark.long  # of the mutants that need a run of pytest, two are tried in `make test`


PACKAGE = """
LIMIT = 3  # guard: limit
def allowed(number):  # guard: definition
    return number < LIMIT  # guard: comparison
"""
TESTS = """
import os
import sys
import pytest
from airflow_provider_ha.sums import allowed
from airflow_provider_ha import sums

@pytest.fixture
def server():
    if not allowed(2):
        raise RuntimeError("no server")

def test_limit():
    assert not allowed(3)

def test_nothing():
    assert allowed(1)

def test_with_server(server):
    assert not allowed(3)

@pytest.mark.skip(reason="not here")
def test_skipped():
    assert not allowed(3)

def test_always_fails():
    assert False

def test_late_import():
    if allowed(3):
        import nowhere_to_be_found

@pytest.mark.parametrize("number", [3, 4])
def test_each(number):
    assert not allowed(number)
"""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A repository with one module and its tests."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # half of the time of so small a run
    root = tmp_path / "root"
    for name, text in {
        "airflow_provider_ha/__init__.py": "",
        "airflow_provider_ha/sums.py": PACKAGE,
        "tests/test_sums.py": TESTS,
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = ["--import-mode=importlib"]\npythonpath = ["."]\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return Bench(root, tmp_path / "copies", limit=60)


def a_mutant(
    old: str = "number < LIMIT", new: str = "number <= LIMIT", test: str = "test_limit", guard: str = "comparison"
) -> Mutant:
    return Mutant(
        id="the-one",
        guard=guard,
        file="airflow_provider_ha/sums.py",
        old=old,
        new=new,
        test=f"tests/test_sums.py::{test}",
        why="Because.",
    )


def outcome_of(bench: Bench, mutant: Mutant) -> Outcome:
    (result,) = try_all([mutant], bench, 2)
    return result.outcome


def test_a_test_that_notices_kills(bench: Bench, tmp_path: Path) -> None:
    (result,) = try_all([a_mutant()], bench, 2)

    assert result.outcome is Outcome.KILLED
    assert "AssertionError" in result.detail
    assert "number < LIMIT" in (tmp_path / "root/airflow_provider_ha/sums.py").read_text(encoding="utf-8")
    assert list((tmp_path / "copies").iterdir()) == []


def test_one_of_its_parameters_is_enough(bench: Bench) -> None:
    assert outcome_of(bench, a_mutant(test="test_each")) is Outcome.KILLED


@pytest.mark.parametrize(
    ("mutant", "outcome"),
    [
        pytest.param(a_mutant(test="test_nothing"), Outcome.SURVIVED, id="nobody-notices"),
        pytest.param(a_mutant(old="number > LIMIT"), Outcome.NOT_FOUND, id="text-not-found"),
        pytest.param(a_mutant(old="e"), Outcome.AMBIGUOUS, id="text-twice"),
        pytest.param(a_mutant(new="number <"), Outcome.NOT_RUN, id="syntax-error-at-collection", marks=LONG),
        pytest.param(
            a_mutant(old="def allowed", new="def renamed", guard="definition"),
            Outcome.NOT_RUN,
            id="import-error-at-collection",
        ),
        pytest.param(a_mutant(test="test_renamed"), Outcome.NOT_RUN, id="no-such-test", marks=LONG),
        pytest.param(a_mutant(test="test_skipped"), Outcome.NOT_RUN, id="skipped", marks=LONG),
        pytest.param(a_mutant(new="nummer < LIMIT"), Outcome.BROKEN, id="name-error", marks=LONG),
        pytest.param(a_mutant(test="test_late_import"), Outcome.BROKEN, id="import-error-in-the-test", marks=LONG),
        pytest.param(a_mutant(new="False", test="test_with_server"), Outcome.NO_SETUP, id="fixture-fails", marks=LONG),
        pytest.param(a_mutant(test="test_always_fails"), Outcome.FAILS_ANYWAY, id="fails-without-the-mutant"),
    ],
)
def test_everything_else_is_no_kill(bench: Bench, mutant: Mutant, outcome: Outcome) -> None:
    assert outcome_of(bench, mutant) is outcome


def test_a_run_without_an_end_is_no_kill(bench: Bench, tmp_path: Path) -> None:
    impatient = Bench(tmp_path / "root", tmp_path / "copies", limit=0.01)

    assert impatient.try_out(a_mutant()).outcome is Outcome.TIMEOUT


def test_a_package_that_comes_from_elsewhere_is_no_kill(bench: Bench, tmp_path: Path) -> None:
    """Without the copy's own package the installed one is imported, and nothing was mutated."""
    elsewhere = tmp_path / "elsewhere"
    (tmp_path / "root" / "airflow_provider_ha").rename(elsewhere)
    (tmp_path / "root" / "airflow_provider_ha").mkdir()
    (elsewhere / "sums.py").rename(tmp_path / "root" / "airflow_provider_ha" / "sums.py")
    (tmp_path / "root" / "tests" / "test_sums.py").write_text("def test_limit():\n    assert False\n", encoding="utf-8")

    assert bench.try_out(a_mutant()).outcome is Outcome.WRONG_COPY


LISTED = """
[[mutant]]
id = "one"
old = "a"
new = "b"
test = "tests/test_sums.py::test_limit"
why = "Because."
"""


def test_mutants_are_chosen_by_id_or_list(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(LISTED, encoding="utf-8")
    (tmp_path / "b.toml").write_text(LISTED.replace('"one"', '"two"'), encoding="utf-8")

    assert [mutant.id for mutant in chosen("*", tmp_path)] == ["one", "two"]
    assert [mutant.id for mutant in chosen("t*", tmp_path)] == ["two"]
    assert [mutant.id for mutant in chosen("b.toml", tmp_path)] == ["two"]


@pytest.mark.parametrize(
    "text",
    [LISTED + LISTED, LISTED.replace("why", "because"), LISTED.replace("::test_limit", ""), "[[mutants]]\n", "[["],
    ids=["one-id-twice", "unknown-key", "not-a-test", "no-mutants", "not-toml"],
)
def test_a_list_with_a_mistake_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.toml").write_text(text, encoding="utf-8")

    with pytest.raises(CatalogueError):
        load(tmp_path)
