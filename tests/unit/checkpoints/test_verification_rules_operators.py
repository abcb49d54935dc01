"""What Spark does when a part of an operator, or all of it, is gone, rule by rule."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from tests.support.checkpoints.recorded_damage import Recorded, rewrite, told


OPERATOR = Path(__file__).resolve().parents[2] / "data" / "operator-v2"
JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")


def test_one_store_of_a_join_says_that_there_are_four(recorded: Recorded) -> None:
    """Before 4.0 nothing else does."""
    checkpoint = recorded("3.3.4", "hdfs")
    for partition in (path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()):
        found = [path for path in partition.iterdir() if path.is_file()]
        for store in JOIN_STORES:
            (partition / store).mkdir()
            for path in found:
                shutil.copy(path, partition / store)
        for path in found:
            path.unlink()
    whole = verify(LocalTree(checkpoint), spark_version="3.4.4").startable
    for partition in (path for path in (checkpoint / "state/0").iterdir() if path.name.isdigit()):
        shutil.rmtree(partition / JOIN_STORES[0])

    assert (whole, verify(LocalTree(checkpoint), spark_version="3.4.4").startable) == (True, False)


def test_an_operator_whose_directory_is_empty_may_have_lost_its_state(recorded: Recorded) -> None:
    """Spark starts where the query never had it, and fails where it had."""
    checkpoint = recorded("4.3.0", "hdfs")
    (checkpoint / "state/1").mkdir()
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable, told(report)) == (None, [], {"STATE_UNKNOWN state/1": None})
    assert report.provable == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("content", [b"", b"v1\n{", None])
def test_metadata_of_an_operator_that_spark_passes_over_is_told(recorded: Recorded, content: bytes | None) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    path = checkpoint / "state/0/_metadata/metadata"
    if content is None:
        path.unlink()
    else:
        rewrite(path, content)
    report = verify(LocalTree(checkpoint))

    assert (report.startable, told(report)) == (True, {"STATE_METADATA_CORRUPT state/0/_metadata/metadata": False})


def test_metadata_and_schema_that_are_both_gone_leave_the_layout_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state/0/_metadata")
    shutil.rmtree(checkpoint / "state/0/0/_metadata")

    assert verify(LocalTree(checkpoint)).startable is None


def in_layout_2(checkpoint: Path, *, operator: str = "symmetricHashJoin") -> Path:
    """Give an operator the metadata and the schema of version 3 that Spark 4.3.0 recorded of a join."""
    shutil.rmtree(checkpoint / "state/0/_metadata")
    metadata = (OPERATOR / "metadata").read_bytes().replace(b"symmetricHashJoin", operator.encode())
    rewrite(checkpoint / "state/0/_metadata/v2/0", metadata)
    rewrite(checkpoint / "state/0/_stateSchema/default/0_schema", (OPERATOR / "schema").read_bytes())
    return checkpoint


def test_the_layout_whose_metadata_names_schemas_is_sound(recorded: Recorded) -> None:
    report = verify(LocalTree(in_layout_2(recorded("4.3.0", "rocksdb1"))))

    assert (report.startable, report.restorable, report.findings) == (True, [0, 1, 2, 3, 4], ())


def test_the_layout_whose_metadata_names_schemas_does_not_start_without_it(recorded: Recorded) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"))
    shutil.rmtree(checkpoint / "state/0/_metadata")
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable) == (False, [])


@pytest.mark.parametrize(("operator", "blocks"), [("symmetricHashJoin", False), ("transformWithStateExec", True)])
def test_a_schema_that_is_gone_is_written_again_by_a_join_only(
    recorded: Recorded, operator: str, *, blocks: bool
) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"), operator=operator)
    (checkpoint / "state/0/_stateSchema/default/0_schema").unlink()

    assert told(verify(LocalTree(checkpoint))) == {
        "STATE_METADATA_CORRUPT state/0/_stateSchema/default/0_schema": blocks
    }


@pytest.mark.parametrize("length", [0, 4, 300, -1])
def test_a_schema_that_is_cut_is_refused(recorded: Recorded, length: int) -> None:
    checkpoint = in_layout_2(recorded("4.3.0", "rocksdb1"))
    path = checkpoint / "state/0/_stateSchema/default/0_schema"
    whole = verify(LocalTree(checkpoint)).startable
    rewrite(path, path.read_bytes()[:length])

    assert (whole, verify(LocalTree(checkpoint)).startable) == (True, False)


def test_a_state_directory_that_was_removed_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    shutil.rmtree(checkpoint / "state")
    later(checkpoint)
    report = verify(LocalTree(checkpoint))

    assert (report.startable, report.restorable, told(report)) == (None, [], {"STATE_UNKNOWN state": None})


def test_a_state_directory_that_changed_after_its_last_state_leaves_the_answer_open(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "hdfs")
    sound = verify(LocalTree(checkpoint)).startable
    later(checkpoint / "state")
    report = verify(LocalTree(checkpoint))

    assert (sound, report.startable, report.restorable) == (True, None, [])
    assert told(report) == {"STATE_UNKNOWN state": None}


def test_the_ids_of_a_commit_name_every_operator(recorded: Recorded) -> None:
    checkpoint = recorded("4.3.0", "rocksdb2")
    later(checkpoint / "state")

    assert verify(LocalTree(checkpoint)).startable is True


def later(directory: Path) -> None:
    """Let a directory have changed after all that is in it."""
    changed = max(path.stat().st_mtime_ns for path in [directory, *directory.rglob("*")]) + 1
    os.utime(directory, ns=(changed, changed))
