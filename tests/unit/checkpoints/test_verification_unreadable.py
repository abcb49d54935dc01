"""Nothing that cannot be read is called damaged: for any part of a checkpoint, the question stays open."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from tests.unit.checkpoints.test_verification_operators import KEYED, PARTITIONS, write_state


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that other users may enter, as pytest's own may not be."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def checkpoint(place: Path) -> Path:
    """A checkpoint with a file source and a stateful operator."""
    directory = write_state(place / "c", found=PARTITIONS, schema=KEYED, operator="dedupe")
    offsets = directory / "offsets" / "0"
    offsets.write_text(offsets.read_text().removesuffix("0") + '{"logOffset":0}')
    (directory / "sources" / "0").mkdir(parents=True)
    (directory / "sources" / "0" / "0").write_text('v1\n{"path":"file:///in/0.json","timestamp":1,"batchId":0}')
    return directory


def judged_by_another_user(directory: Path) -> VerificationReport:
    """Verify as a user who may not read everything: tests may be run by root, who may."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        return verify(LocalTree(directory), depth="quick", spark_version="4.2.0")
    finally:
        os.seteuid(user)


def test_the_checkpoint_itself_is_whole(checkpoint: Path) -> None:
    report = judged_by_another_user(checkpoint)
    assert (report.startable, report.findings) == (True, ())


PARTS = [
    ".", "metadata", "offsets", "offsets/0", "commits", "commits/0", "sources", "sources/0", "sources/0/0",
    "state", "state/0", "state/0/0", "state/0/2", "state/0/_metadata", "state/0/_metadata/metadata",
    "state/0/0/_metadata", "state/0/0/_metadata/schema",
]  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_what_may_not_be_read_is_unreadable(part: str, checkpoint: Path) -> None:
    (checkpoint / part).chmod(0)
    try:
        report = judged_by_another_user(checkpoint)
    finally:
        (checkpoint / part).chmod(0o755)

    assert report.startable is None
    assert {(finding.code.value, finding.blocks) for finding in report.findings} == {("UNREADABLE", None)}


@pytest.mark.parametrize("part", ["offsets", "commits", "sources/0", "state", "state/0", "state/0/2"])
def test_a_directory_behind_a_link_that_leads_in_a_circle_is_unreadable(part: str, checkpoint: Path) -> None:
    """The kernel's answer is an error (ELOOP) and not "there is none", as for a mount that hangs."""
    (checkpoint / part).rename(checkpoint / "aside")
    (checkpoint / part).symlink_to(checkpoint / part)
    report = verify(LocalTree(checkpoint), depth="quick")

    assert report.startable is None
    assert {finding.code.value for finding in report.findings} == {"UNREADABLE"}


@pytest.mark.parametrize("part", [".", "offsets", "commits", "sources", "sources/0", "state", "state/0", "state/0/2"])
def test_names_without_the_right_to_look_at_them_are_unreadable(part: str, checkpoint: Path) -> None:
    (checkpoint / "state" / "0" / "2" / "left-keyToNumValues").mkdir()
    (checkpoint / part).chmod(0o444)
    try:
        report = judged_by_another_user(checkpoint)
    finally:
        (checkpoint / part).chmod(0o755)

    assert report.startable is None
    assert {finding.code.value for finding in report.findings} == {"UNREADABLE"}
