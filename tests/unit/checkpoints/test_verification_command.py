"""``spark-ha checkpoint verify``: what it prints, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.files import UnreadableError
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.manifest import MANIFEST
from airflow_provider_ha.cli.app import app
from tests.unit.checkpoints.test_verification_sparse import write_log


def verify(*arguments: str) -> tuple[int, str]:
    result = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["checkpoint", "verify", *arguments])
    return result.exit_code, result.output


def test_a_program_gets_every_key(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1], commits=[0])
    code, output = verify(str(directory), "--json")

    document = json.loads(output)
    assert code == 0
    assert set(document) == {
        "startable", "restorable", "latest_restorable", "planned", "committed", "sink", "batches", "findings",
    }  # fmt: skip
    assert (document["planned"], document["committed"], document["restorable"]) == (1, 0, [0])
    assert [batch["restorable"] for batch in document["batches"]] == [True, False]
    assert set(document["findings"][0]) == {
        "code", "path", "batch", "message", "expected", "found", "blocks", "meaning", "next_step",
    }  # fmt: skip


def test_people_get_the_batches_the_findings_and_what_to_do(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1, 2], commits=[0, 1, 2])
    (directory / "offsets" / "1").unlink()
    code, output = verify(str(directory))

    lines = [" ".join(line.split()) for line in output.splitlines()]
    assert code == 1
    assert "0 yes -" in lines
    assert "1-2 no OFFSETS_MISSING offsets/1" in lines
    assert any(line.startswith("OFFSETS_MISSING yes 1 offsets/1") for line in lines)
    assert any(line.startswith("OFFSETS_MISSING: Spark reads this entry at its start") for line in lines)
    assert any(line.startswith("Next: Put the file back") for line in lines)


def test_the_sink_may_be_a_path_or_a_uri_and_its_state_is_printed(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1], commits=[0], version=2)
    (tmp_path / "out" / LOG).mkdir(parents=True)
    for batch in ("0", "1"):
        (tmp_path / "out" / LOG / batch).write_text("v1")

    code, output = verify(str(directory), "--sink", f"file://{tmp_path}/out")
    assert code == 0
    assert f"the log of the sink {tmp_path}/out has every batch up to 1" in output
    assert "SINK_AHEAD" in output

    code, output = verify(str(directory), "--sink", str(tmp_path / "out"), "--json")
    assert (code, json.loads(output)["sink"]) == (0, {"path": str(tmp_path / "out"), "max_batch": 1})


def test_a_sink_that_lacks_a_committed_batch_is_a_no(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0], commits=[0], version=2)
    (tmp_path / "out").mkdir()

    assert verify(str(directory), "--sink", str(tmp_path / "out"))[0] == 1


def test_a_sink_that_is_not_there_leaves_the_question_open(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "c", offsets=[0], commits=[0], version=2)

    assert verify(str(directory), "--sink", str(tmp_path / "nowhere"))[0] == 2


def test_a_sink_on_another_file_system_is_refused_with_the_next_step(tmp_path: Path) -> None:
    code, output = verify(str(tmp_path), "--sink", "abfss://container@account/out")

    assert code == 64
    assert "(abfss:) that cannot be read from here" in output
    assert "Name a mounted path, s3://bucket/prefix or hdfs://" in output
    assert "Traceback" not in output


def refusal(*arguments: str) -> dict[str, str]:
    """Return the error of a verification that names no checkpoint; it is all that a program gets."""
    code, output = verify(*arguments, "--json")
    assert code == 64
    error: dict[str, str] = json.loads(output[output.index("{") :])["error"]
    return error


def test_a_path_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    code, output = verify(str(tmp_path / "nowhere"))

    assert code == 64
    assert output.strip().startswith(f"error {tmp_path}/nowhere is not a directory of this host. Correct the path")
    assert "FINDING" not in output
    assert refusal(str(tmp_path / "nowhere"))["message"] == f"{tmp_path}/nowhere is not a directory of this host"


def test_a_file_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{}")

    assert "is a file" in refusal(str(tmp_path / "metadata"))["message"]


def test_the_parent_of_a_checkpoint_offers_the_child(tmp_path: Path) -> None:
    write_log(tmp_path / "job" / "hourly stats", offsets=[0], commits=[0])

    error = refusal(f"{tmp_path}/job/")

    assert error["message"] == f"{tmp_path}/job/ is no checkpoint: it holds one, hourly stats"
    assert error["next_step"] == f"Verify one query: `spark-ha checkpoint verify '{tmp_path}/job/hourly stats'`"


def test_the_parent_of_many_checkpoints_names_some(tmp_path: Path) -> None:
    for number in range(12):
        write_log(tmp_path / f"q{number:02d}", offsets=[0], commits=[0])

    error = refusal(str(tmp_path))

    assert "it holds 12, q00, q01, " in error["message"]
    assert error["message"].endswith("q09 and 2 more")
    assert error["next_step"].endswith(f"verify {tmp_path}/q00`")


def test_a_savepoint_is_verified_as_one(tmp_path: Path) -> None:
    write_log(tmp_path / "hourly", offsets=[0], commits=[0])
    (tmp_path / MANIFEST).write_text("{}")

    assert refusal(str(tmp_path))["next_step"] == f"Verify it with `spark-ha savepoint verify {tmp_path}`"


def test_a_directory_of_something_else_is_judged_as_before(tmp_path: Path) -> None:
    (tmp_path / "holiday").mkdir()

    code, output = verify(str(tmp_path))

    assert (code, "NOT_A_CHECKPOINT" in output) == (2, True)


def test_a_path_that_cannot_be_looked_at_is_not_called_missing(tmp_path: Path) -> None:
    no_file_system_has_such_a_name = "x" * 300

    code, output = verify(str(tmp_path / no_file_system_has_such_a_name))

    assert (code, "UNREADABLE" in output, "is not a directory" in output) == (2, True, False)


def test_a_child_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "hourly", offsets=[0], commits=[0])
    (tmp_path / "locked").mkdir()
    names = LocalTree.names

    def refusing(tree: LocalTree, place: str = "") -> list[str]:
        if place == "locked":
            raise UnreadableError(place, PermissionError(13, "Permission denied"))
        return names(tree, place)

    monkeypatch.setattr(LocalTree, "names", refusing)

    assert refusal(str(tmp_path))["message"].endswith("it holds one, hourly")
