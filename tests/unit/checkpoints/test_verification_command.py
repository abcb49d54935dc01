"""``spark-ha checkpoint verify``: what it prints, and with which exit code it ends."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.directories.sinks import LOG
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
    code, output = verify(str(tmp_path), "--sink", "hdfs://name:8020/out")

    assert code == 2
    assert "not on a file system of this host" in output
    assert "Traceback" not in output
