"""The matrix: each combination is tried or missing for a reason, and the workflow runs the same cells."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from airflow_provider_ha.airflow_side.compat import NEWEST, OLDEST, RANGE
from airflow_provider_ha.jobs.drivers.spark_release import RANGE as SPARK_RANGE
from lab.matrix import environment, run
from lab.matrix.cells import Beside, Cell, Matrix, Missing, as_json
from lab.matrix.environment import Environment
from tests.mutants.catalogue import read_toml


ROOT = Path(__file__).parents[2]
CELL = Cell("3.12", "3.3.2", "4.3.0")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return Matrix.read()


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = read_toml(ROOT / "pyproject.toml")["project"]
    return found


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    found: dict[str, Any] = workflow["jobs"]
    return found


def commands(job: dict[str, Any]) -> list[str]:
    return [step["run"] for step in job["steps"] if "run" in step]


def test_every_combination_is_tried_or_missing_for_a_reason(matrix: Matrix) -> None:
    assert matrix.unexplained() == []


def test_every_reason_is_one_for_a_combination(matrix: Matrix) -> None:
    idle = [entry for entry in matrix.missing if not any(entry.covers(cell) for cell in matrix.absent())]

    assert idle == []


def test_every_cell_is_listed_once_and_lies_on_the_axes(matrix: Matrix) -> None:
    assert len(set(matrix.cells)) == len(matrix.cells)
    assert {cell.python for cell in matrix.cells} == set(matrix.python)
    assert {cell.airflow for cell in matrix.cells} <= set(matrix.airflow)
    assert {cell.pyspark for cell in matrix.cells} <= set(matrix.pyspark)


def test_the_oldest_and_the_newest_release_of_each_minor_of_airflow_has_a_cell(matrix: Matrix) -> None:
    minors: dict[tuple[int, ...], list[Version]] = {}
    for release in map(Version, matrix.airflow):
        minors.setdefault(release.release[:2], []).append(release)
    tried = {Version(cell.airflow) for cell in matrix.cells}

    assert (min(minors), max(minors)) == (OLDEST, NEWEST)
    assert {minor[1] for minor in minors} == set(range(OLDEST[1], NEWEST[1] + 1))
    assert {extreme for found in minors.values() for extreme in (min(found), max(found))} <= tried


def test_the_lowest_releases_of_everything_have_a_cell_and_so_have_the_newest(matrix: Matrix) -> None:
    lowest = [cell for cell in matrix.cells if cell.lowest]
    highest = [cell for cell in matrix.cells if not cell.lowest]

    assert lowest == [Cell(matrix.python[0], matrix.airflow[0], matrix.pyspark[0], lowest=True)]
    assert Cell(matrix.python[-1], matrix.airflow[-1], matrix.pyspark[-1]) in highest


@pytest.mark.parametrize("lowest", [True, False])
def test_a_cell_of_the_lowest_releases_is_constrained_to_those_that_the_project_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lowest: bool
) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(Environment, "_uv", lambda _, *arguments: asked.append(arguments))
    monkeypatch.setattr(environment, "interpreter", lambda minors: tmp_path / "python")

    Environment(Cell("3.12", "3.3.2", "4.3.0", lowest=lowest), tmp_path)._install(tmp_path / "wheel")

    resolved = [call for call in asked if "lowest-direct" in call]
    assert [str(ROOT / "pyproject.toml") in call for call in resolved] == ([True] if lowest else [])
    assert ("--constraint" in asked[-1]) is lowest


@pytest.mark.parametrize(
    ("extra", "oldest"),
    [("", "typer>=0.15.4"), ("", "urllib3>=2.6"), ("delta", "pyarrow>=18"), ("openlineage", "apache-airflow>=3.0")],
)
def test_releases_with_known_faults_are_not_admitted(project: dict[str, Any], extra: str, oldest: str) -> None:
    named = project["optional-dependencies"][extra] if extra else project["dependencies"]
    wanted = Requirement(oldest)
    (found,) = (one for one in map(Requirement, named) if one.name == wanted.name)

    assert str(*wanted.specifier) in {str(part) for part in found.specifier}


def test_the_extra_openlineage_has_the_bounds_of_airflow(project: dict[str, Any]) -> None:
    bounds = [
        one.specifier
        for extra in ("airflow", "openlineage")
        for one in map(Requirement, project["optional-dependencies"][extra])
        if one.name == "apache-airflow"
    ]

    assert bounds[0] == bounds[1]


def test_the_page_of_the_releases_says_the_ranges() -> None:
    page = (ROOT / "docs" / "reference" / "releases.md").read_text(encoding="utf-8")

    assert f"Airflow {RANGE}" in page
    assert f"Spark {SPARK_RANGE}" in page


def test_a_python_that_is_not_claimed_is_refused(matrix: Matrix, project: dict[str, Any]) -> None:
    wanted = SpecifierSet(project["requires-python"])
    first, last = (int(end.removeprefix("3.")) for end in (matrix.python[0], matrix.python[-1]))

    assert all(map(wanted.contains, matrix.python))
    assert not wanted.contains(f"3.{first - 1}")
    assert not wanted.contains(f"3.{last + 1}")


def test_every_result_belongs_to_a_cell_of_the_matrix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "wheel"
    wheel.write_bytes(b"wheel")
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "matrix.toml").write_text("[axes]")
    before = environment.digest_of_tests(wheel)

    (tmp_path / ".ci" / "matrix.toml").write_text("[[beside]]")

    assert environment.digest_of_tests(wheel) != before


def test_the_pythons_are_those_of_the_metadata(matrix: Matrix, project: dict[str, Any]) -> None:
    claimed = [re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in project["classifiers"]]

    assert list(matrix.python) == [found[1] for found in claimed if found]


@pytest.mark.parametrize(
    ("package", "axis", "extra"), [("apache-airflow", "airflow", "airflow"), ("pyspark", "pyspark", "spark")]
)
def test_the_releases_are_in_the_range_that_the_metadata_claims(
    package: str, axis: str, extra: str, matrix: Matrix, project: dict[str, Any]
) -> None:
    (wanted,) = (one for one in map(Requirement, project["optional-dependencies"][extra]) if one.name == package)
    releases = getattr(matrix, axis)
    oldest = next(part.version for part in wanted.specifier if part.operator == ">=")

    assert all(wanted.specifier.contains(release) for release in releases)
    assert Version(min(releases, key=Version)) == Version(oldest)


def test_extra_requirements_of_an_airflow_are_for_releases_of_the_axis(matrix: Matrix) -> None:
    named = [release for entry in matrix.beside for release in entry.airflow]

    assert set(named) <= set(matrix.airflow)
    assert len(set(named)) == len(named)


def test_a_cell_installs_the_extra_requirements_of_its_airflow() -> None:
    beside = Beside(("3.0.6",), ("fastapi<1",), "Because.")
    matrix = Matrix(("3.12",), ("3.0.6", "3.3.2"), ("4.3.0",), (CELL,), (), (beside,))

    assert matrix.packages_beside(Cell("3.12", "3.0.6", "4.3.0")) == ["fastapi<1"]
    assert matrix.packages_beside(CELL) == []


def test_a_combination_without_a_cell_and_without_a_reason_is_found() -> None:
    missing = Missing("Because.", python=("3.11",))
    matrix = Matrix(("3.10", "3.11", "3.12"), ("3.3.2",), ("4.3.0",), (CELL,), (missing,))

    assert matrix.unexplained() == [Cell("3.10", "3.3.2", "4.3.0")]


def test_the_suites_are_there() -> None:
    for arguments in Environment.SUITES.values():
        assert (ROOT / arguments[0]).exists()


def test_a_passed_cell_is_remembered_until_the_wheel_or_the_tests_change(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "results.json"
    run.remember(CELL, "digest", run.PASSED, 12.3, file)
    run.remember(Cell("3.10", "3.3.0", "4.1.0"), "digest", "failed: unit", 1.0, file)

    assert run.outcome(CELL, "digest", file) == run.PASSED
    assert run.outcome(CELL, "another", file) == run.NOT_RUN
    assert run.outcome(Cell("3.13", "3.3.2", "4.3.0"), "digest", file) == run.NOT_RUN


def test_the_workflow_runs_what_a_developer_runs(jobs: dict[str, Any]) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = [word for job in jobs.values() for text in commands(job) for word in re.findall(r"\bmake ([a-z-]+)", text)]

    assert commands(jobs["run"]) == [".ci/run"]
    assert called == ["wheel", "matrix"]
    assert set(called) <= targets


def test_the_workflow_takes_its_cells_from_the_file(jobs: dict[str, Any], matrix: Matrix) -> None:
    program = next(text for text in commands(jobs["wheel"]) if "cells=" in text)
    module = re.search(r"python -m (\S+)\)", program)
    assert module is not None
    printed = subprocess.run(
        [
            sys.executable,
            "-I",
            "-c",
            f"import sys, runpy; sys.path.insert(0, '.'); runpy.run_module('{module[1]}', run_name='__main__')",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert jobs["matrix"]["strategy"]["matrix"]["cell"] == "${{ fromJSON(needs.wheel.outputs.cells) }}"
    assert json.loads(printed) == json.loads(as_json(matrix.cells))
    assert {cell["name"] for cell in json.loads(printed)} == {cell.name for cell in matrix.cells}


def test_every_field_of_a_cell_that_the_workflow_names_is_there(jobs: dict[str, Any], matrix: Matrix) -> None:
    (first, *_) = json.loads(as_json(matrix.cells))
    named = set(re.findall(r"matrix\.cell\.(\w+)", json.dumps(jobs)))

    assert named == {"name", "python"}
    assert named <= first.keys()


def test_the_workflow_s_wheel_is_the_one_that_the_cells_install(jobs: dict[str, Any]) -> None:
    from tests.support.wheel import GIVEN

    assert f"{GIVEN}=" in " ".join(commands(jobs["matrix"]))
    assert "matrix" not in jobs["run"]
    assert jobs["matrix"]["needs"] == "wheel"
