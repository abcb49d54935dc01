"""Commands take and show the name of a query as its script has it, not the one that its directory has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.query_names import query_directory
from tests.support.spark.recorded_job import QUERY, copy_live


NAMES = ("Flattened Orders", "a/b", "Заказы", "a=b")
WRONG_CALL = 64


def call(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(words), obj=ClusterTarget())
    return done.exit_code, done.output


@pytest.mark.parametrize("name", NAMES)
def test_a_savepoint_is_taken_verified_and_restored_by_the_name_of_the_script(
    name: str, checkpoint: Path, tmp_path: Path
) -> None:
    saved, restored = tmp_path / "saved", tmp_path / "restored"

    code, said = call("savepoint", "create", "--query", f"{name}={checkpoint}", "--to", str(saved), "--json")

    assert code == 0, said
    assert (saved / query_directory(name) / "offsets").is_dir()
    code, said = call("savepoint", "verify", str(saved), "--json")
    document: dict[str, Any] = json.loads(said)
    assert (code, list(document["queries"])) == (0, [name]), said
    code, said = call("savepoint", "restore", str(saved), "--to", str(restored))
    assert code == 0, said
    assert name in said
    assert (restored / query_directory(name) / "offsets").is_dir()


def test_a_directory_without_a_name_is_of_the_query_that_it_is_named_after(checkpoint: Path, tmp_path: Path) -> None:
    of_user = checkpoint.rename(checkpoint.with_name("Flattened Orders"))

    code, said = call("savepoint", "create", str(of_user), "--to", str(tmp_path / "saved"))

    assert code == 0, said
    assert (tmp_path / "saved" / "Flattened~20Orders").is_dir()


def test_names_that_differ_in_case_only_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    other = copy_live(tmp_path / "other") / QUERY

    code, said = call(
        *("savepoint", "create", "--query", f"Orders={checkpoint}", "--query", f"orders={other}"),
        *("--to", str(tmp_path / "saved")),
    )

    assert code == WRONG_CALL
    assert "differ in upper and lower case only" in " ".join(said.split())
    assert not (tmp_path / "saved").exists()


@pytest.mark.parametrize("directory", ["Flattened Orders", "Flattened~20Orders"])
def test_a_plan_of_a_directory_takes_the_name_of_the_script(directory: str, checkpoint: Path) -> None:
    place = checkpoint.rename(checkpoint.with_name(directory))

    code, said = call(
        "checkpoint", "plan", str(place), "--sink", "Flattened Orders=noop", "--repeatable", "Flattened Orders"
    )

    assert code != WRONG_CALL, said
