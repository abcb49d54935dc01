"""Under a query that goes on, what is missed is looked for again, and what was purged was never there.

Nothing that cannot be read is called damaged: for any part of a checkpoint, the question stays open.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import OFFSETS
from airflow_provider_ha.checkpoints.spark.files import read_text
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.subject import read_log
from airflow_provider_ha.checkpoints.verify.verification import settled, verify
from airflow_provider_ha.checkpoints.verify.verification_report import VerificationReport
from tests.unit.checkpoints.test_verification_operators import KEYED, PARTITIONS, write_state
from tests.unit.checkpoints.test_verification_sparse import write_log


def looks(*answers: bool | None) -> tuple[Callable[[], VerificationReport], list[VerificationReport]]:
    """Return a look that gives one answer after the other, and the reports that it handed out."""
    given: list[VerificationReport] = []
    coming = iter(answers)

    def look() -> VerificationReport:
        given.append(VerificationReport(startable=next(coming), restorable=[], findings=()))
        return given[-1]

    return look, given


@pytest.mark.parametrize("answer", [True, None])
def test_a_checkpoint_that_is_not_condemned_is_looked_at_once(*, answer: bool | None) -> None:
    look, given = looks(answer, False)

    assert settled(look, lambda report: True).startable is answer
    assert len(given) == 1


def test_damage_of_an_idle_query_is_reported_immediately() -> None:
    look, given = looks(False, True)

    assert settled(look, lambda report: False).startable is False
    assert len(given) == 1


def test_damage_under_a_query_that_went_on_is_looked_at_again() -> None:
    look, _ = looks(False, True)

    assert settled(look, lambda report: True).startable is True


def test_damage_that_stays_is_believed_although_the_query_goes_on() -> None:
    look, given = looks(False, False, False, True)

    assert settled(look, lambda report: True).startable is False
    assert len(given) == 3


def purge_then(read: Callable[[Tree, int], object]) -> Callable[[Tree, int], object]:
    """Purge batch 0 after its name was read and before its entry is."""

    def reader(directory: Tree, batch: int) -> object:
        assert directory.local_path is not None
        (directory.local_path / OFFSETS / "0").unlink(missing_ok=True)
        return read(directory, batch)

    return reader


@pytest.mark.parametrize(
    "read", [read_offsets, lambda directory, batch: read_text(directory, f"{OFFSETS}/{batch}")], ids=["entry", "file"]
)
def test_an_entry_that_is_purged_while_it_is_read_was_never_there(
    read: Callable[[Tree, int], object], tmp_path: Path
) -> None:
    directory = write_log(tmp_path / "c", offsets=[0, 1, 2], commits=[0, 1, 2])
    entries, log = read_log(LocalTree(directory), OFFSETS, Code.OFFSETS_MISSING, Code.OFFSETS_CORRUPT, purge_then(read))

    assert list(entries) == [1, 2]
    assert (log.present, log.bad) == (frozenset({1, 2}), {})


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
