"""A script with its own checkpoint, or on an output with a past, is refused with the parameters that go on from it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.queries import script_paths
from airflow_provider_ha.driver.queries.script_paths import OPTION, OwnLocations, beside_other_queries, take_location
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, notes, sink_word
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION, prepare_conf
from airflow_provider_ha.errors import ApplicationRefusedError, RestoreRefusedError, StorageUnavailableError
from tests.support.checkpoints.writer_helpers import writer_of
from tests.support.spark.started_queries import Started, plan_of, starter_of
from tests.unit.checkpoints.test_verification_sparse import write_log
from tests.unit.driver.test_decisions import Properties


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


def check(
    noted: WriterNotes, root: str | None = None, *, begins: bool = True, empty: bool = True, conf: str | None = None
) -> None:
    """Start query ``hourly``."""
    word = sink_word(noted, "parquet")
    OwnLocations(StorageAccess(), root=conf, begins=begins).check("hourly", noted, root, word, empty=empty)


@pytest.mark.parametrize(
    ("noted", "sinks"),
    [
        (WriterNotes(sink="json", options={"path": "/data/out"}), {"hourly": "/data/out"}),
        (WriterNotes(sink=None, options={"path": "file:///data/my out"}), {"hourly": "/data/my out"}),
        (WriterNotes(sink="foreachBatch"), {"hourly": "foreachBatch"}),
        (WriterNotes(sink="kafka"), {"hourly": "kafka"}),
        (WriterNotes(sink="json", options={"path": "out"}), None),
    ],
)
def test_a_query_that_ignores_its_earlier_batches_is_refused_with_the_parameters_that_adopt_them(
    own: Path, noted: WriterNotes, sinks: dict[str, str] | None
) -> None:
    noted.options[OPTION] = str(own)

    with pytest.raises(ApplicationRefusedError, match="holds its batches up to 1") as refused:
        check(noted)

    assert f"query 'hourly' sets checkpointLocation '{own}'" in refused.value.message
    assert refused.value.next_step.endswith("or with start_from='fresh' to start from nothing")
    wanted: dict[str, Any] = {"start_from": {"hourly": str(own)}} | ({"sinks": sinks} if sinks else {})
    assert offered(refused.value.next_step) == wanted


def test_an_own_checkpoint_may_be_a_uri(own: Path) -> None:
    with pytest.raises(ApplicationRefusedError) as refused:
        check(WriterNotes(sink="noop", options={OPTION: own.as_uri()}))

    assert offered(refused.value.next_step)["start_from"] == {"hourly": str(own)}


def test_an_own_location_without_a_batch_is_not_used_and_not_touched(tmp_path: Path) -> None:
    check(WriterNotes(sink="noop", options={OPTION: str(tmp_path / "new")}))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("known", [{"begins": False}, {"empty": False}], ids=["asked for", "the job has its state"])
def test_an_own_checkpoint_is_not_used_where_the_query_does_not_begin_from_nothing(
    own: Path, known: dict[str, Any]
) -> None:
    check(WriterNotes(sink="noop", options={OPTION: str(own)}), **known)


@pytest.mark.parametrize("where", ["session", "conf"])
def test_a_root_of_all_checkpoints_is_looked_at_and_all_of_them_are_named(own: Path, where: str) -> None:
    write_log(own.parent / "daily", offsets=[0], commits=[0])
    (own.parent / "begun" / "offsets").mkdir(parents=True)
    root: dict[str, Any] = {"root": str(own.parent)} if where == "session" else {"conf": f"{own.parent}/"}

    with pytest.raises(ApplicationRefusedError) as refused:
        check(WriterNotes(sink="noop"), **root)

    assert offered(refused.value.next_step)["start_from"] == {"daily": str(own.parent / "daily"), "hourly": str(own)}


def test_every_query_of_a_session_is_looked_at_below_the_root_that_the_first_one_had(own: Path) -> None:
    locations = OwnLocations(StorageAccess(), begins=True)
    locations.check("first", WriterNotes(sink="noop"), str(own.parent), None, empty=True)

    with pytest.raises(ApplicationRefusedError, match="query 'hourly' sets checkpointLocation"):
        locations.check("hourly", WriterNotes(sink="noop"), None, None, empty=True)


def test_the_option_of_a_query_counts_more_than_the_root_of_its_session(own: Path, tmp_path: Path) -> None:
    check(WriterNotes(sink="noop", options={OPTION: str(tmp_path / "new")}), root=str(own.parent))


def test_a_checkpoint_in_a_store_is_named_as_it_is_adopted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script_paths, "progress", lambda _: Progress(4, 4))

    with pytest.raises(ApplicationRefusedError) as refused:
        check(WriterNotes(sink="kafka", options={OPTION: "s3a://bucket/chk/"}))

    assert offered(refused.value.next_step) == {
        "start_from": {"hourly": "s3://bucket/chk"},
        "sinks": {"hourly": "kafka"},
    }


def test_a_location_that_cannot_be_looked_at_is_not_taken_for_an_empty_one() -> None:
    with pytest.raises(ApplicationRefusedError, match="cannot be read") as refused:
        check(WriterNotes(sink="noop", options={OPTION: "abfss://files@account/chk"}))

    assert offered(refused.value.next_step)["start_from"] == {"hourly": "/<copy of abfss://files@account/chk>"}
    assert "start_from='fresh'" in refused.value.next_step


def test_a_checkpoint_that_cannot_be_read_now_is_not_taken_for_an_empty_one(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To begin from nothing would repeat what is there."""

    def unread(_: object) -> None:
        raise StorageUnavailableError("stale file handle")

    monkeypatch.setattr(script_paths, "progress", unread)

    with pytest.raises(ApplicationRefusedError, match="stale file handle") as refused:
        check(WriterNotes(sink="noop", options={OPTION: str(own)}))

    assert offered(refused.value.next_step)["start_from"] == {"hourly": str(own)}


def test_a_conf_that_moves_all_checkpoints_is_replaced_and_told() -> None:
    properties = Properties(**{CHECKPOINT_LOCATION: "/own"})

    told = prepare_conf(properties, "file:///managed", 100)

    assert told == "/own"
    assert properties.values[CHECKPOINT_LOCATION] == "file:///managed"


def test_a_session_whose_location_the_script_has_set_gets_that_of_the_job_back(tmp_path: Path) -> None:
    session = writer_of("hourly", tmp_path)._spark
    session.conf.set(CHECKPOINT_LOCATION, "/own")

    assert take_location(session, "file:///managed") == "/own"
    assert session.conf[CHECKPOINT_LOCATION] == "file:///managed"
    assert take_location(session, "file:///managed") is None


def test_an_output_with_earlier_batches_is_refused_with_the_parameters_that_continue_it(tmp_path: Path) -> None:
    output = tmp_path / "out"
    (output / LOG).mkdir(parents=True)
    (output / LOG / "3").write_text("v1")
    spark = Started()
    writer = writer_of("hourly", tmp_path / "live")
    noted = notes(writer)
    noted.sink, noted.options["path"] = "json", str(output)
    (tmp_path / "live").mkdir()

    with pytest.raises(RestoreRefusedError, match="starts from nothing") as refused:
        starter_of(spark, tmp_path / "live", Lifecycle()).start(writer, None)

    assert spark.handles == []
    assert f"its output {output} has batches up to 3" in refused.value.message
    assert refused.value.message.startswith("LOSS_POSSIBLE")
    assert offered(refused.value.next_step) == {
        "start_from": {"hourly": f"/<checkpoint that wrote {output}>"},
        "sinks": {"hourly": str(output)},
    }


def test_a_query_that_was_started_before_the_refused_one_keeps_its_batches(own: Path, tmp_path: Path) -> None:
    """The promise is one of each query: the driver learns of the second one when the script starts it."""
    spark, live = Started(), tmp_path / "live"
    live.mkdir()
    starter = starter_of(spark, live, Lifecycle(), own=OwnLocations(StorageAccess(), begins=True))
    second = writer_of("hourly", live)
    notes(second).options[OPTION] = str(own)

    starter.start(writer_of("first", live), None)
    with pytest.raises(ApplicationRefusedError, match="query 'hourly' sets checkpointLocation"):
        starter.start(second, None)

    assert len(spark.handles) == 1
    assert (live / "first" / "commits" / "0").exists()
    assert not (live / "hourly").exists()


def test_a_query_that_the_restored_checkpoint_does_not_have_is_refused_beside_its_past(
    own: Path, tmp_path: Path
) -> None:
    """The run before had a checkpoint of its first query when this one was refused."""
    spark, live = Started(), tmp_path / "live"
    live.mkdir()
    starter = starter_of(spark, live, Lifecycle(), plan_of("first"), own=OwnLocations(StorageAccess(), begins=True))
    writer = writer_of("hourly", live)
    notes(writer).options[OPTION] = str(own)

    with pytest.raises(ApplicationRefusedError, match="holds its batches up to 1") as refused:
        starter.start(writer, None)

    assert refused.value.next_step.startswith("Remove this location from the script or the conf")
    assert offered(refused.value.next_step)["start_from"] == {"hourly": str(own)}
    assert spark.handles == []


def test_a_query_of_the_restored_checkpoint_goes_on_although_its_location_has_batches(
    own: Path, tmp_path: Path
) -> None:
    spark, live = Started(), tmp_path / "live"
    live.mkdir()
    starter = starter_of(spark, live, Lifecycle(), plan_of("hourly"), own=OwnLocations(StorageAccess(), begins=True))
    writer = writer_of("hourly", live)
    notes(writer).options[OPTION] = str(own)

    starter.start(writer, None)

    assert len(spark.handles) == 1


def test_a_location_that_cannot_be_copied_by_name_is_named_for_a_job_of_its_query() -> None:
    assert "'/<copy of abfss://files@account/chk>'" in beside_other_queries("q", "abfss://files@account/chk", None)
