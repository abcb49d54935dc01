"""``spark-ha examples`` copies the DAGs that come with the package, and overwrites nothing unasked."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget


DAGS = Path(__file__).parents[2] / "dags"
NAMES = sorted(path.relative_to(DAGS).as_posix() for path in DAGS.rglob("*.py"))


def spark_ha(*words: str) -> Any:
    return CliRunner().invoke(app, ["examples", *words], obj=ClusterTarget())


def test_all_examples_and_their_application_are_copied_and_the_next_steps_printed(tmp_path: Path) -> None:
    done = spark_ha(str(tmp_path / "new" / "dags"))

    assert done.exit_code == 0
    copied = {name: (tmp_path / "new" / "dags" / name).read_bytes() for name in NAMES}
    assert copied == {name: (DAGS / name).read_bytes() for name in NAMES}
    assert "apps/flight_delays.py" in copied
    assert "spark_ha_default" in done.stdout
    assert "job_id" in done.stdout


def test_a_foreign_file_is_not_overwritten_and_prevents_the_copy(tmp_path: Path) -> None:
    (tmp_path / "stop_job.py").write_text("mine")

    done = spark_ha(str(tmp_path))

    assert done.exit_code == 64
    assert "stop_job.py" in done.stderr
    assert "--force" in done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"stop_job.py": "mine"}


def test_force_overwrites_it(tmp_path: Path) -> None:
    (tmp_path / "stop_job.py").write_text("mine")

    done = spark_ha(str(tmp_path), "--force")

    assert done.exit_code == 0
    assert (tmp_path / "stop_job.py").read_bytes() == (DAGS / "stop_job.py").read_bytes()


def test_a_second_copy_changes_nothing_and_says_so(tmp_path: Path) -> None:
    spark_ha(str(tmp_path))

    document = json.loads(spark_ha(str(tmp_path), "--json").stdout)

    assert document == {"directory": str(tmp_path), "written": [], "unchanged": NAMES}


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    done = spark_ha(str(tmp_path / "file"))

    assert done.exit_code == 64
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_an_example_imports_nothing_that_a_wheel_does_not_have(name: str) -> None:
    tree = ast.parse((DAGS / name).read_bytes())
    modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]

    assert not [module for module in modules if module.split(".")[0] in {"tests", "dags", "benchmarks"}]
