"""A file sink judged together with the checkpoint that feeds it: what its log has, names, and lacks."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

from airflow_provider_ha.api.documents.verification import VerificationView
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, VerificationReport
from tests.unit.checkpoints.test_verification_sparse import write_log


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A query without state: batches 0 to 5 are committed."""
    return write_log(tmp_path / "c", offsets=[*range(6)], commits=[*range(6)], version=2)


@pytest.fixture
def sink(tmp_path: Path) -> Path:
    """Its output: an entry for each batch, compacted at 3, each with one file of 4 bytes."""
    place = tmp_path / "out"
    (place / LOG).mkdir(parents=True)
    for batch in range(6):
        write_entry(place, batch)
    write_entry(place, 3, batches=range(4), name="3.compact")
    (place / LOG / "3").unlink()
    return place


def write_entry(sink: Path, batch: int, *, batches: range | None = None, name: str | None = None) -> None:
    lines = [status(sink, number) for number in batches or [batch]]
    (sink / LOG / (name or str(batch))).write_text("\n".join(["v1", *map(json.dumps, lines)]))


def status(sink: Path, batch: int) -> dict[str, object]:
    """The line of one output file, and the file."""
    path = sink / f"part {batch}.json"
    path.write_text("1234")
    return {"path": f"file://{path}".replace(" ", "%20"), "size": 4, "isDir": False, "action": "add"}


def found(report: VerificationReport) -> list[tuple[str, str]]:
    return [(finding.code.value, Path(finding.path).name) for finding in report.findings]


def only(report: VerificationReport) -> Finding:
    (finding,) = report.findings
    return finding


def lose(checkpoint: Path, *batches: int, log: str = "commits") -> None:
    for batch in batches:
        (checkpoint / log / str(batch)).unlink()


def test_a_sink_that_has_what_is_committed_is_no_finding(checkpoint: Path, sink: Path) -> None:
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert (report.startable, report.findings) == (True, ())
    assert VerificationView.of(report).to_json()["sink"] == {"path": str(sink), "max_batch": 5}


def test_without_a_sink_the_report_names_none(checkpoint: Path) -> None:
    assert verify(LocalTree(checkpoint)).sink is None


def test_the_planned_batch_in_the_sink_is_skipped_and_loses_nothing_of_a_query_without_state(
    checkpoint: Path, sink: Path
) -> None:
    lose(checkpoint, 5)
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert report.startable is True
    assert (only(report).code.value, only(report).batch, only(report).blocks) == ("SINK_AHEAD", 5, False)


def test_batches_that_were_never_planned_are_lost(checkpoint: Path, sink: Path) -> None:
    lose(checkpoint, 4, 5)
    lose(checkpoint, 4, 5, log="offsets")
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert (report.startable, report.restorable) == (False, [0, 1, 2, 3])
    assert found(report) == [("SINK_UNPLANNED", LOG)]
    assert only(report).expected == "none after batch 3, the last planned one"


def test_a_new_checkpoint_over_an_old_output_loses_its_first_batches(tmp_path: Path, sink: Path) -> None:
    (tmp_path / "new").mkdir()
    report = verify(LocalTree(tmp_path / "new"), sink=LocalTree(sink))

    assert report.startable is False
    assert [finding.code.value for finding in report.findings] == ["SINK_UNPLANNED", "EMPTY"]


def test_committed_batches_that_the_sink_does_not_have_are_lost_output(checkpoint: Path, sink: Path) -> None:
    (sink / LOG / "5").unlink()
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert (report.startable, report.restorable) == (False, [0, 1, 2, 3, 4, 5])
    assert (only(report).code.value, only(report).batch, only(report).found) == (
        "SINK_BEHIND",
        5,
        "its last batch is 4",
    )


def test_a_batch_in_flight_may_or_may_not_be_in_the_sink(checkpoint: Path, sink: Path) -> None:
    lose(checkpoint, 5)
    (sink / LOG / "5").unlink()

    assert verify(LocalTree(checkpoint), sink=LocalTree(sink)).findings == ()


def test_an_output_without_log_lacks_every_batch(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    report = verify(LocalTree(checkpoint), sink=LocalTree(tmp_path / "empty"))

    assert report.startable is False
    assert (only(report).code.value, only(report).expected) == ("SINK_LOG_MISSING", "the entries up to batch 5")


def test_a_query_that_committed_nothing_needs_no_output_yet(tmp_path: Path) -> None:
    directory = write_log(tmp_path / "new", offsets=[0], commits=[])

    report = verify(LocalTree(directory), sink=LocalTree(tmp_path / "not made yet"))
    assert (report.startable, report.findings) == (True, ())


def test_an_output_that_is_not_there_is_not_judged(checkpoint: Path, tmp_path: Path) -> None:
    """It may lie on a file system that is not mounted. What the checkpoint can be restored to is known all the same."""
    report = verify(LocalTree(checkpoint), sink=LocalTree(tmp_path / "nowhere"))

    assert (report.startable, report.restorable) == (None, [0, 1, 2, 3, 4, 5])
    assert (only(report).code.value, only(report).blocks) == ("UNREADABLE", None)


@pytest.mark.parametrize(
    ("lost", "missing"), [("4", "4"), ("3.compact", "0"), ("0", None), ("1", None)], ids=["4", "3.compact", "0", "1"]
)
def test_an_entry_counts_from_the_last_compact_one_on(
    lost: str, missing: str | None, checkpoint: Path, sink: Path
) -> None:
    if lost == "3.compact":
        for name in ("0", "1", "2"):
            (sink / LOG / name).unlink()
    (sink / LOG / lost).unlink()
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert report.startable is (missing is None)
    assert found(report) == ([] if missing is None else [("SINK_LOG_MISSING", missing)])


def test_a_hole_names_all_batches_that_are_lost_in_it(checkpoint: Path, sink: Path) -> None:
    (sink / LOG / "3.compact").unlink()
    (sink / LOG / "2").unlink()

    assert only(verify(LocalTree(checkpoint), sink=LocalTree(sink))).found.startswith("batch 2 to 3 is missing")


@pytest.mark.parametrize(
    "content",
    ["", "v2\n", 'v1\n{"path":"file:///x","si', 'v1\n{"path":"file:///x"}', 'v1\n{"path":1,"size":2}', "v1\n[]"],
    ids=["empty", "version", "cut", "no size", "no path", "no object"],
)
def test_an_entry_that_spark_cannot_read_is_a_start_that_dies_at_the_next_compaction(
    content: str, checkpoint: Path, sink: Path
) -> None:
    (sink / LOG / "4").write_text(content)
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert report.startable is False
    assert found(report) == [("SINK_LOG_CORRUPT", "4")]


def test_an_entry_without_files_is_that_of_a_batch_without_rows(checkpoint: Path, sink: Path) -> None:
    (sink / LOG / "4").write_text("v1")

    assert verify(LocalTree(checkpoint), sink=LocalTree(sink)).findings == ()


def test_an_entry_that_lost_a_line_is_known_by_its_hidden_checksum(checkpoint: Path, sink: Path) -> None:
    (sink / LOG / ".4.crc").write_bytes(b"crc\0\0\0\2\0" + b"\1\2\3\4")

    assert found(verify(LocalTree(checkpoint), sink=LocalTree(sink))) == [("SINK_LOG_CORRUPT", "4")]


def test_a_named_file_that_is_gone_is_lost_to_readers_and_no_reason_not_to_start(checkpoint: Path, sink: Path) -> None:
    (sink / "part 4.json").unlink()
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert report.startable is True
    assert found(report) == [("SINK_FILE_MISSING", "part 4.json")]
    assert (only(report).path, only(report).batch) == (str(sink / "part 4.json"), 4)


def test_a_named_file_of_another_size_is_told(checkpoint: Path, sink: Path) -> None:
    (sink / "part 5.json").write_text("12")
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert found(report) == [("SINK_FILE_SIZE", "part 5.json")]
    assert (only(report).found, only(report).expected) == ("it has 2 bytes", "4 bytes, as in the log")


def test_many_files_of_one_entry_are_one_finding_that_counts_them(checkpoint: Path, sink: Path) -> None:
    for batch in range(4):
        (sink / f"part {batch}.json").unlink()

    assert only(verify(LocalTree(checkpoint), sink=LocalTree(sink))).found == (
        "it is not there, like 3 more of the 4 files of _spark_metadata/3.compact"
    )


def test_a_file_that_the_log_took_out_again_is_not_missed(checkpoint: Path, sink: Path) -> None:
    lines = [status(sink, 4), status(sink, 4) | {"action": "delete"}]
    (sink / "part 4.json").unlink()
    (sink / LOG / "4").write_text("\n".join(["v1", *map(json.dumps, lines)]))

    assert verify(LocalTree(checkpoint), sink=LocalTree(sink)).findings == ()


def test_a_file_on_another_file_system_is_not_judged(checkpoint: Path, sink: Path) -> None:
    (sink / LOG / "4").write_text('v1\n{"path":"hdfs://name:8020/out/part-0.json","size":4}')
    report = verify(LocalTree(checkpoint), sink=LocalTree(sink))

    assert report.startable is True
    assert only(report).code.value == "UNREADABLE"


def test_a_link_that_leads_in_a_circle_is_unreadable_and_not_missing(checkpoint: Path, sink: Path) -> None:
    (sink / "part 4.json").unlink()
    (sink / "part 4.json").symlink_to(sink / "part 4.json")

    assert found(verify(LocalTree(checkpoint), sink=LocalTree(sink))) == [("UNREADABLE", "part 4.json")]


def test_an_output_behind_a_link_that_leads_in_a_circle_is_not_judged(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    report = verify(LocalTree(checkpoint), sink=LocalTree(tmp_path / "loop"))

    assert (report.startable, found(report)) == (None, [("UNREADABLE", "loop")])


def test_a_log_behind_a_link_that_leads_in_a_circle_is_not_judged(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / LOG).symlink_to(tmp_path / "out" / LOG)
    report = verify(LocalTree(checkpoint), sink=LocalTree(tmp_path / "out"))

    assert report.startable is None
    assert {code for code, _ in found(report)} == {"UNREADABLE"}


def test_what_this_user_may_not_read_is_not_judged() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own directories are closed to other users
        place = Path(name)
        place.chmod(0o755)
        directory = write_log(place / "c", offsets=[0], commits=[0], version=2)
        (place / "out" / LOG).mkdir(parents=True)
        write_entry(place / "out", 0)
        (place / "out" / LOG / "0").chmod(0)
        user = os.geteuid()
        os.seteuid(65534 if user == 0 else user)
        try:
            report = verify(LocalTree(directory), sink=LocalTree(place / "out"), spark_version="4.2.0")
        finally:
            os.seteuid(user)

    assert (report.startable, report.restorable) == (None, [0])
    assert (only(report).code.value, only(report).path) == ("UNREADABLE", str(place / "out" / LOG / "0"))


def test_a_known_damage_stays_if_the_sink_cannot_be_read(checkpoint: Path, tmp_path: Path) -> None:
    (checkpoint / "metadata").unlink()
    report = verify(LocalTree(checkpoint), sink=LocalTree(tmp_path / "nowhere"))

    assert report.startable is False
    assert {finding.code.value for finding in report.findings} == {"METADATA_MISSING", "UNREADABLE"}
