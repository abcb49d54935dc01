"""What a failure says about a file that stayed on the host that submitted the script. Pure."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.driver.queries.script_paths import from_missing_file
from airflow_provider_ha.jobs.application.application_files import files_beside


HOME = (Path("/home/1-1/app/application"), Path("/home/1-1/app/files"))
BESIDE = ("conf/rules.yml", "settings.ini")


@pytest.mark.parametrize(
    "named", ["/home/1-1/app/application/settings.ini", "/home/1-1/app/files/settings.ini", "settings.ini"]
)
def test_a_file_beside_the_script_is_named_with_the_option_that_ships_it(named: str) -> None:
    said = from_missing_file(f"[Errno 2] No such file or directory: '{named}'", BESIDE, HOME)

    assert "settings.ini is next to the script" in said
    assert "--files settings.ini (files=['settings.ini'])" in said


def test_a_path_that_spark_does_not_find_is_understood_too() -> None:
    said = from_missing_file("[PATH_NOT_FOUND] Path does not exist: file:/home/1-1/app/files/conf.", BESIDE, HOME)

    assert said.startswith("the directory conf is next to the script")


def test_a_relative_path_that_is_nowhere_asks_for_an_absolute_one() -> None:
    said = from_missing_file("[Errno 2] No such file or directory: 'lookup.csv'", BESIDE, HOME)

    assert "write an absolute path, or ship the file with --files" in said


@pytest.mark.parametrize(
    "message", ["[Errno 2] No such file or directory: '/data/in.csv'", "Path does not exist: s3a://b/in", "'price'"]
)
def test_of_another_place_nothing_is_said(message: str) -> None:
    assert from_missing_file(message, BESIDE, HOME) == ""


def test_data_files_near_the_script_are_found_and_sources_are_not(tmp_path: Path) -> None:
    for name in ("main.py", "settings.ini", ".env", "conf/rules.yml", "lib/helper.py", "a/b/c/d.txt", "__pycache__/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert files_beside(tmp_path / "main.py") == BESIDE
