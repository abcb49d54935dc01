"""Harness of the test run: order, preparation, wheel and coverage figures."""

from __future__ import annotations

import subprocess
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from tests.support import wheel
from tests.support.coverage_figures import Figure, figures, keep, shown
from tests.support.order import spread
from tests.support.preparation import QUICK, prepare


MOMENT = datetime(2026, 11, 23, 5, 30, tzinfo=timezone.utc)


def a_file(statements: int, covered: int, branches: int = 0, covered_branches: int = 0) -> dict[str, Any]:
    return {
        "summary": {
            "num_statements": statements,
            "covered_lines": covered,
            "missing_lines": statements - covered,
            "num_branches": branches,
            "covered_branches": covered_branches,
        }
    }


def test_files_are_added_up_by_folder_and_the_least_covered_comes_first() -> None:
    found = figures(
        {
            "airflow_provider_ha/control/job/a.py": a_file(10, 9, 4, 3),
            "/somewhere/airflow_provider_ha/control/b.py": a_file(6, 5),
            "airflow_provider_ha/coordination/c.py": a_file(10, 2),
            "airflow_provider_ha/clock.py": a_file(3, 3),
        }
    )

    assert found == [Figure("coordination", 10, 2, 8), Figure("control", 20, 17, 2), Figure(".", 3, 3, 0)]


def test_a_folder_without_statements_is_covered() -> None:
    assert Figure("hooks", 0, 0, 0).percent == 100


def test_the_last_figures_are_shown_with_their_date_and_the_whole(tmp_path: Path) -> None:
    keep([Figure("coordination", 10, 2, 8), Figure("control", 30, 30, 0)], MOMENT, tmp_path / "deep" / "kept.json")

    text = shown(tmp_path / "deep" / "kept.json")

    assert "measured 2026-11-23 05:30 UTC (make coverage)" in text
    assert [line.split()[:2] for line in text.splitlines()[1:3]] == [["coordination", "20.0"], ["control", "100.0"]]
    assert text.splitlines()[-1].split() == ["all", "of", "it", "80.0", "%", "8", "lines", "missing"]


def test_without_a_measurement_the_command_is_named(tmp_path: Path) -> None:
    assert "make coverage" in shown(tmp_path / "none.json")


def test_heavy_files_are_spread_over_the_others_and_short_ones_come_last() -> None:
    files = ["u1", "a", "b", "c", "d", "s1", "s2", "u2"]

    assert spread(files, heavy={"s1", "s2"}, short={"u1", "u2"}) == ["s1", "a", "b", "s2", "c", "d", "u1", "u2"]


def test_a_heavy_file_among_the_short_ones_is_spread_too() -> None:
    assert spread(["a", "b", "u"], heavy={"u"}, short={"u"}) == ["u", "a", "b"]


def test_without_heavy_files_the_order_stays() -> None:
    assert spread(["a", "b"], heavy=(), short=()) == ["a", "b"]


def test_an_unavailable_artifact_is_reported_and_the_others_are_built(capsys: pytest.CaptureFixture[str]) -> None:
    made = list[str]()

    prepare([lambda: pytest.skip("no go on this machine"), lambda: made.append("jars")])

    assert made == ["jars"]
    assert capsys.readouterr().out == "going on without it: no go on this machine\n"


@pytest.mark.slow
@pytest.mark.spark  # records its checkpoints
def test_an_existing_artifact_is_not_built_again(capsys: pytest.CaptureFixture[str]) -> None:
    prepare(QUICK)
    capsys.readouterr()

    prepare(QUICK)

    assert capsys.readouterr().out == ""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository of one module."""
    for name in ("pyproject.toml", "README.md", "LICENSE", "airflow_provider_ha/a.py", "dags/d.py", "java/S.java"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, encoding="utf-8")
    return tmp_path


@pytest.fixture
def builds(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of each build; pip is not started."""
    found: list[int] = []

    def build(command: list[str], **_: object) -> None:
        found.append(len(found))
        (root / "dist" / f"a-{len(found)}.whl").write_bytes(b"")

    monkeypatch.delenv(wheel.GIVEN, raising=False)
    monkeypatch.setattr(subprocess, "run", build)
    return found


def test_it_is_built_once(root: Path, builds: list[int]) -> None:
    assert wheel.wheel(root) == wheel.wheel(root) == root / "dist" / "a-1.whl"
    assert len(builds) == 1


@pytest.mark.parametrize(
    "name", ["pyproject.toml", "README.md", "airflow_provider_ha/a.py", "dags/new.py", "java/S.java"]
)
def test_it_is_built_again_when_something_in_it_changes(name: str, root: Path, builds: list[int]) -> None:
    wheel.wheel(root)
    (root / name).write_text("changed", encoding="utf-8")

    assert wheel.wheel(root) == root / "dist" / "a-2.whl"
    assert len(list((root / "dist").glob("*.whl"))) == 1


def test_compiled_files_are_no_change(root: Path, builds: list[int]) -> None:
    wheel.wheel(root)
    (root / "airflow_provider_ha" / "__pycache__").mkdir()
    (root / "airflow_provider_ha" / "__pycache__" / "a.pyc").write_bytes(b"")
    wheel.wheel(root)

    assert len(builds) == 1


def test_the_jar_is_no_change_since_it_is_made_from_sources(root: Path, builds: list[int]) -> None:
    wheel.wheel(root)
    (root / "airflow_provider_ha" / "component.jar").write_bytes(b"")
    wheel.wheel(root)

    assert len(builds) == 1


def test_a_wheel_that_was_built_elsewhere_is_taken(
    root: Path, builds: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(wheel.GIVEN, "/elsewhere/a.whl")

    assert wheel.wheel(root) == Path("/elsewhere/a.whl")
    assert builds == []
