"""A script with its own checkpoint, or on an output with a past, is refused with the parameters that go on from it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.connectors.file_sink_log import LOG
from airflow_provider_ha.driver import way_forward
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION, prepare_conf
from airflow_provider_ha.driver.way_forward import from_own_location, from_root
from airflow_provider_ha.driver.writer_notes import WriterNotes, check_options, notes
from airflow_provider_ha.errors import ApplicationRefusedError, RestoreRefusedError, StorageUnavailableError
from tests.support.checkpoints.writer_helpers import writer_of
from tests.unit.checkpoints.test_verification_sparse import write_log
from tests.unit.driver.test_decisions import Properties
from tests.unit.driver.test_query_start import Started, starter_of


def offered(next_step: str) -> dict[str, Any]:
    """Return the parameters in a next step, read as the Python that they are."""
    code = next_step[next_step.index("start_from=") :]
    for end in range(len(code), 0, -1):
        try:
            call = ast.parse(f"f({code[:end]})", mode="eval").body
        except SyntaxError:
            continue
        if isinstance(call, ast.Call) and not call.args:
            return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    return {}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A checkpoint of the user's."""
    return write_log(tmp_path / "own" / "hourly", offsets=[0, 1], commits=[0, 1])


@pytest.mark.parametrize(
    ("noted", "sinks"),
    [
        (WriterNotes(sink="json", options={"path": "/data/out"}), {"hourly": "/data/out"}),
        (WriterNotes(sink=None, options={"path": "file:///data/my%20out"}), {"hourly": "/data/my out"}),
        (WriterNotes(sink="foreachBatch"), {"hourly": "foreachBatch"}),
        (WriterNotes(sink="kafka"), {"hourly": "kafka"}),
        (WriterNotes(sink="json", options={"path": "out"}), None),
    ],
)
def test_a_query_with_its_own_checkpoint_is_refused_with_what_adopts_it(
    own: Path, noted: WriterNotes, sinks: dict[str, str] | None
) -> None:
    noted.options["checkpointlocation"] = str(own)

    with pytest.raises(ApplicationRefusedError, match="query 'hourly' sets its own checkpointLocation") as refused:
        check_options("hourly", noted)

    assert refused.value.next_step.startswith("Remove the option")
    wanted: dict[str, Any] = {"start_from": {"hourly": str(own)}} | ({"sinks": sinks} if sinks else {})
    assert offered(refused.value.next_step) == wanted


def test_an_own_checkpoint_may_be_a_uri(own: Path) -> None:
    assert offered(from_own_location("hourly", own.as_uri(), None)) == {"start_from": {"hourly": str(own)}}


def test_a_checkpoint_without_a_batch_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    assert from_own_location("hourly", str(tmp_path / "new"), "/data/out") == (
        "Remove the option: each epoch of a managed job gets its own checkpoint location"
    )


def test_a_checkpoint_that_no_driver_host_can_read_is_copied_first() -> None:
    next_step = from_own_location("hourly", "s3a://bucket/chk", "kafka")

    assert "copy it to a directory that every driver host sees" in next_step
    assert offered(next_step) == {
        "start_from": {"hourly": "/<copy of s3a://bucket/chk>"},
        "sinks": {"hourly": "kafka"},
    }


def test_a_conf_that_moves_all_checkpoints_is_refused_with_all_that_are_there(own: Path) -> None:
    write_log(own.parent / "daily", offsets=[0], commits=[0])
    (own.parent / "begun" / "offsets").mkdir(parents=True)
    properties = Properties(**{CHECKPOINT_LOCATION: str(own.parent)})

    with pytest.raises(ApplicationRefusedError) as refused:
        prepare_conf(properties, "file:///managed", 100)

    assert offered(refused.value.next_step) == {
        "start_from": {"daily": str(own.parent / "daily"), "hourly": str(own)},
    }
    assert "start_from" not in from_root("/nowhere")


def test_an_output_with_a_past_is_refused_with_what_goes_on_from_it(tmp_path: Path) -> None:
    output = tmp_path / "out"
    (output / LOG).mkdir(parents=True)
    (output / LOG / "3").write_text("v1")
    spark = Started()
    writer = writer_of("hourly", tmp_path / "live")
    noted = notes(writer)
    noted.sink, noted.options["path"] = "json", str(output)
    (tmp_path / "live").mkdir()

    with pytest.raises(RestoreRefusedError, match="begins from nothing") as refused:
        starter_of(spark, tmp_path / "live", Lifecycle()).start(writer, None)

    assert spark.handles == []
    assert f"its output {output} has batches up to 3" in refused.value.message
    assert refused.value.message.startswith("LOSS_POSSIBLE")
    assert offered(refused.value.next_step) == {
        "start_from": {"hourly": f"/<checkpoint that wrote {output}>"},
        "sinks": {"hourly": str(output)},
    }


@pytest.mark.parametrize("asked", ["progress", "queries"])
def test_a_checkpoint_that_cannot_be_read_now_is_not_taken_for_an_empty_one(
    own: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """Advice to begin from nothing would lose what is there."""

    def unread(_: object) -> None:
        raise StorageUnavailableError("stale file handle")

    monkeypatch.setattr(way_forward, asked, unread)

    advice = from_root(str(own.parent))

    if asked == "progress":
        assert offered(advice)["start_from"] == {"hourly": str(own)}
    else:
        assert "start_from" not in advice
