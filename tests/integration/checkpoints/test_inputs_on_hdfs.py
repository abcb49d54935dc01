"""Input files and tables on a real HDFS: there, gone, replaced, or on a name node that does not answer."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources.input_files import judge_files, look_for, measure
from airflow_provider_ha.checkpoints.sources.table_source import DeltaSource
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.storage.hdfs_store import HdfsStore
from airflow_provider_ha.storage.object_store import ObjectInfo
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.odd_names import ODD


pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
NAME = f"in/{ODD}/a.json"


class Inputs:
    """A directory of HDFS with one file that a batch has read."""

    def __init__(self, hdfs: Hdfs) -> None:
        self.root, self.reach = hdfs.new_root(), StorageAccess(hdfs=hdfs.options())
        self.files = HdfsStore(self.root, hdfs.options())
        self.files.create(NAME, b"{}")
        self.read = self.entry(self.now)

    @property
    def now(self) -> ObjectInfo:
        found = self.files.info(NAME)
        assert found is not None
        return found

    def entry(self, seen: ObjectInfo) -> BatchEntry:
        """Return the record of a batch that has read the file as it was, with the lengths that the driver asks for."""
        scheme, _, rest = self.root.partition("://")
        authority, _, path = rest.partition("/")
        uri = f"{scheme}://{authority}/{quote(f'{path}/{NAME}')}"
        line = json.dumps({"path": uri, "timestamp": seen.mtime, "batchId": 5})
        bare = BatchEntry(batch=5, offsets="", sources={"0": (line,)})
        return bare.model_copy(update={"lengths": measure(bare, self.reach)})

    def judged(self, recorded: BatchEntry) -> list[tuple[Verdict, str]]:
        found, judgement = look_for([recorded], self.reach), RestoreFindings("q")
        judge_files(found.missing, [recorded], judgement, found.replaced)
        assert (found.error, "hdfs" in found.asked) == (None, True)
        return [(finding.verdict, finding.reason) for finding in judgement.findings]


@pytest.fixture
def inputs(hdfs: Hdfs) -> Inputs:
    return Inputs(hdfs)


def test_a_file_that_is_there_is_the_one_that_was_read(inputs: Inputs) -> None:
    assert inputs.read.lengths == {"0": (2,)}
    assert inputs.judged(inputs.read) == []


def test_a_file_that_is_gone_is_impossible_to_replay(inputs: Inputs) -> None:
    inputs.files.delete(NAME)

    ((verdict, reason),) = inputs.judged(inputs.read)

    assert verdict is Verdict.IMPOSSIBLE
    assert "is gone" in reason


def test_a_file_that_was_written_again_was_replaced(inputs: Inputs) -> None:
    first = inputs.now

    def written() -> bool:
        inputs.files.write(NAME, b"[]")
        return inputs.now.mtime != first.mtime

    wait_until(written, timeout=10, what="another time of change")

    ((verdict, reason),) = inputs.judged(inputs.read)

    assert verdict is Verdict.IMPOSSIBLE
    assert "was replaced since" in reason


def test_a_file_of_the_same_time_and_another_length_was_replaced(inputs: Inputs) -> None:
    inputs.files.write(NAME, b"{}, {}")
    same_time = inputs.entry(inputs.now).model_copy(update={"lengths": {"0": (2,)}})

    ((_, reason),) = inputs.judged(same_time)

    assert "was replaced since" in reason


def test_a_name_node_that_does_not_answer_leaves_the_file_unknown(inputs: Inputs, hdfs: Hdfs) -> None:
    found = look_for([inputs.read], StorageAccess(hdfs=hdfs.options("http://127.0.0.1:1")))

    assert found.error is not None
    assert "hdfs" not in found.asked


def test_a_delta_table_on_hdfs_is_asked_for_its_versions(inputs: Inputs) -> None:
    table = f"{inputs.root}/orders"
    offset = {"reservoirId": "an-id", "reservoirVersion": 1, "index": -1, "isStartingVersion": False}
    for version in range(3):
        inputs.files.create(
            f"orders/_delta_log/{version:020d}.json", json.dumps({"metaData": {"id": "an-id"}}).encode()
        )
    whole = DeltaSource().history(table, inputs.reach).lost(offset, offset)
    inputs.files.delete(f"orders/_delta_log/{1:020d}.json")

    lost = DeltaSource().history(table, inputs.reach).lost(offset, offset)

    assert (whole, lost) == ("", f"version 1 of Delta table {table} was removed from its log")
