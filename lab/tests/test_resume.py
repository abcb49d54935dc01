"""``pytest -p lab.resume``: what an interrupted run leaves out when it continues, with a real pytest on tiny tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lab.tests.tiny_tests import Clone


pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
ONE_BAD = """
def test_first():
    ran("first")

def test_second():
    ran("second")
    assert (HERE / "repaired").exists()
"""
OF_AIRFLOW = f"""
{ONE_BAD}
pytestmark = [pytestmark, pytest.mark.system]
"""


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clone:
    monkeypatch.setenv("HOURS_TEST", str(tmp_path))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    made = Clone.make(tmp_path)
    project = made.root / "pyproject.toml"
    project.write_text(project.read_text().replace("markers = [", 'markers = ["system: a whole Airflow", '))
    return made


def ran(clone: Clone) -> list[str]:
    """Run all tests once more; return those that were not left out."""
    command = [sys.executable, "-m", "pytest", "-p", "lab.resume", "--resume", str(clone.place / "passed.txt"), "tests"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=clone.root, env=environment, capture_output=True, check=False)
    return clone.ran()


def test_what_has_passed_is_left_out(clone: Clone) -> None:
    clone.add("test_a.py", ONE_BAD)

    assert ran(clone) == ["first", "second"]
    (clone.place / "repaired").touch()
    assert ran(clone) == ["second"]
    assert ran(clone) == []


def test_a_file_of_a_whole_airflow_runs_again_as_a_whole(clone: Clone) -> None:
    """Its tests build on each other: the second one may read what the first one has caused."""
    clone.add("test_a.py", OF_AIRFLOW)

    assert ran(clone) == ["first", "second"]
    (clone.place / "repaired").touch()
    assert ran(clone) == ["first", "second"]
    assert ran(clone) == []


def test_changed_code_begins_again(clone: Clone) -> None:
    clone.add("test_a.py", ONE_BAD)
    ran(clone)

    clone.add("test_a.py", f"{ONE_BAD}# changed\n")

    assert ran(clone) == ["first", "second"]
