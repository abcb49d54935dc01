"""Checkpoints that old releases really wrote, from 2.1.0 on: none of them raises an alarm."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import batches
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import Depth, verify
from tests.support.releases.fixtures import fixtures


pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]
# The Spark project edited their offsets after Spark had written them, which their hidden checksums tell. A snapshot of
# 4.0.0 wrote them, whose state schemas have no ids: the reader of no release takes them.
EDITED = ("checkpoint-version-4.0.0-tws-avro", "checkpoint-version-4.0.0-tws-unsaferow")
# Logs without the state of the query: nothing in them tells whether there was any.
LOGS_ALONE = {"STATE_UNKNOWN", "OFFSETS_SPARSE"}
# They pin a format of joins that 3.5 does not know: it refuses to set that, for any query.
NOT_FOR_3_5 = (
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/dedup",
    "checkpoint-version-4.0.0-checkpoint-v2/rocksdb/limit",
)
DEPTHS: tuple[Depth, ...] = ("quick", "full")
JUDGED_AS = ("2.4.8", "3.5.9", "4.2.0", "4.3.0")


def checkpoints() -> dict[str, Path]:
    """Return the name of each fixture that is a checkpoint, and where it is."""
    root = fixtures()
    return {str(path.parent.relative_to(root)): path.parent for path in sorted(root.rglob("offsets")) if path.is_dir()}


def test_what_old_releases_wrote_raises_no_alarm() -> None:
    found = checkpoints()
    alarms = {}
    for name, checkpoint in found.items():
        for release in JUDGED_AS:
            for depth in DEPTHS:
                report = verify(LocalTree(checkpoint), depth=depth, spark_version=release)
                codes = {finding.code.value for finding in report.findings}
                open_answer = report.startable is None and "STATE_UNKNOWN" in codes
                if name not in EDITED and (codes - LOGS_ALONE or not (report.startable or open_answer)):
                    alarms[f"{name}, {depth}, for {release}"] = (report.startable, codes)
    refused = {f"{name}, {depth}, for 3.5.9": (False, {"CONF_REFUSED"}) for name in NOT_FOR_3_5 for depth in DEPTHS}
    assert alarms == refused
    assert len(found) > 30


def test_every_committed_batch_of_old_releases_is_restorable() -> None:
    lacking = {}
    for name, checkpoint in checkpoints().items():
        committed = batches(LocalTree(checkpoint), "commits")
        restorable = verify(LocalTree(checkpoint), spark_version="4.2.0").restorable
        if name not in EDITED and restorable != committed:
            lacking[name] = (restorable, committed)
    assert lacking == {}


@pytest.mark.parametrize("name", EDITED)
def test_what_was_edited_by_hand_or_written_by_a_snapshot_is_seen(name: str) -> None:
    report = verify(LocalTree(checkpoints()[name]), spark_version="4.2.0")
    assert report.startable is False
    assert {finding.code.value for finding in report.findings} == {"OFFSETS_CORRUPT", "STATE_METADATA_CORRUPT"}
    assert "hidden checksum does not fit" in report.findings[0].found
