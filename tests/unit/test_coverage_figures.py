"""The figures of coverage that ``make test`` shows: one for each folder, with the date of their measurement."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from tests.support.coverage_figures import Figure, figures, keep, shown


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
