"""``spark-ha`` as a program sees it: exit codes 0, 1 and 2, and one JSON document on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget


YES, NO, UNKNOWN, WRONG_CALL = 0, 1, 2, 64


def test_listing_an_empty_cluster_is_an_answer(spark_ha: Any) -> None:
    code, stdout, _ = spark_ha("job", "list", "--json")

    assert (code, json.loads(stdout)) == (YES, {"jobs": []})


@pytest.mark.parametrize(
    "words",
    [
        ("job", "show", "no-such-job"),
        ("job", "graph", "no-such-job"),
        ("job", "stop", "no-such-job"),
        ("job", "cancel", "no-such-job"),
        ("job", "leader", "no-such-job"),
        ("checkpoint", "list", "no-such-job"),
        ("checkpoint", "show", "no-such-job", "1"),
        ("savepoint", "list", "no-such-job"),
        ("savepoint", "show", "no-such-job", "s1"),
        ("savepoint", "trigger", "no-such-job"),
        ("checkpoint", "trigger", "no-such-job"),
        ("delete", "savepoint", "no-such-job", "s1", "--yes"),
    ],
    ids=" ".join,
)
def test_an_unknown_job_is_a_no_that_names_it(spark_ha: Any, words: tuple[str, ...]) -> None:
    code, stdout, stderr = spark_ha(*words, "--json")

    assert code == NO
    assert "no-such-job" in stderr or "s1" in stderr
    assert json.loads(stdout)["error"]["message"]


@pytest.mark.long
def test_a_zookeeper_that_does_not_answer_is_not_a_no(spark_ha: Any) -> None:
    code, _, stderr = spark_ha("--zookeeper", "127.0.0.1:1", "job", "leader", "job")

    assert code == UNKNOWN
    assert "127.0.0.1:1" in stderr


def test_a_wrong_storage_root_is_one_sentence_and_no_stack_trace(spark_ha: Any) -> None:
    code, _, stderr = spark_ha("--storage-root", "no-scheme", "job", "list")

    assert code == WRONG_CALL
    assert "no-scheme" in stderr
    assert "Traceback" not in stderr


@pytest.mark.parametrize(
    "words",
    [
        ("job", "show", "quarantine"),
        ("job", "cancel", "../flights"),
        ("job", "leader", "a/b"),
        ("checkpoint", "list", "a b"),
        ("savepoint", "trigger", "a..b"),
        ("job", "submit", "a b", "main.py"),
    ],
    ids=" ".join,
)
def test_an_id_that_can_name_no_job_is_refused_before_zookeeper_is_asked(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No server answers there: an answer about it would come after fifteen seconds."""
    monkeypatch.setenv("SPARK_HA_ZOOKEEPER", "127.0.0.1:1")
    monkeypatch.setenv("SPARK_HA_STORAGE_ROOT", "file:///nowhere")
    shown = CliRunner().invoke(app, words, obj=ClusterTarget())

    assert shown.exit_code == WRONG_CALL
    assert "job id" in shown.stderr


def test_verifying_what_is_not_there_is_a_wrong_call(spark_ha: Any, tmp_path: Path) -> None:
    code, stdout, _ = spark_ha("checkpoint", "verify", str(tmp_path / "absent"), "--json")

    document = json.loads(stdout)
    assert (code, document["error"]["message"]) == (WRONG_CALL, f"{tmp_path}/absent is not a directory of this host")


def test_an_empty_directory_is_startable_and_said_to_be_empty(spark_ha: Any, tmp_path: Path) -> None:
    code, stdout, _ = spark_ha("checkpoint", "verify", str(tmp_path), "--json")

    document = json.loads(stdout)
    assert (code, document["startable"], document["restorable"], document["latest_restorable"]) == (YES, True, [], None)
    assert [finding["code"] for finding in document["findings"]] == ["EMPTY"]


def test_a_damaged_checkpoint_is_a_no_with_the_file(spark_ha: Any, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "metadata").write_text('{"id":"9b2d3f0a-6f0c-4a7c-9d5e-0a1b2c3d4e5f"}', encoding="utf-8")
    (tmp_path / "offsets" / "0").write_text("", encoding="utf-8")

    code, stdout, _ = spark_ha("checkpoint", "verify", str(tmp_path), "--json")

    document = json.loads(stdout)
    assert (code, document["startable"]) == (NO, False)
    assert "offsets/0" in {finding["path"] for finding in document["findings"]}
    assert {"code", "path", "batch", "message"} <= set(document["findings"][0])


def test_a_spark_version_that_is_none_is_refused(spark_ha: Any, tmp_path: Path) -> None:
    code, _, stderr = spark_ha("checkpoint", "verify", str(tmp_path), "--spark-version", "soon")

    assert code == WRONG_CALL
    assert "soon" in stderr
