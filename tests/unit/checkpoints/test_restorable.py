"""Damage is known; what could not be read is not damage.

Restore of a savepoint, without a server: whether its batch can be restored, and in which order files appear.

A batch is on the restorable list when what a fork of it takes is whole: proof cases, asked of Spark 4.3.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import fork
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_restore import stages
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.restorable import all_of, damage, restorable_at
from airflow_provider_ha.checkpoints.verify.verification import verify
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Finding, Reason, VerificationReport
from airflow_provider_ha.errors import CheckpointCorruptError, StorageUnavailableError
from tests.support.checkpoints.damage import cut_line, halve, stale_hidden_crc
from tests.support.checkpoints.recorded_damage import newest
from tests.support.releases.damages import newest as newest_of
from tests.support.releases.samples import unpack
from tests.unit.checkpoints.test_verification_sparse import write_log


def found(*codes: Code) -> VerificationReport:
    findings = tuple(Finding(code, "offsets/7", 7, "input/output error") for code in codes)
    return VerificationReport(startable=None, restorable=[], findings=findings)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A pin with the directory of one query."""
    (tmp_path / "pin" / "counts").mkdir(parents=True)
    return tmp_path / "pin"


def test_a_file_of_a_pin_that_cannot_be_read_stops_whoever_asks(root: Path) -> None:
    """Also when it comes after damage: the damage may be an answer of the same failing disk."""
    with pytest.raises(StorageUnavailableError, match="offsets/7"):
        damage(LocalTree(root), {"counts": 7}, lambda directory: found(Code.STATE_MISSING, Code.UNREADABLE))


def test_files_missing_for_the_batch_are_listed_before_files_missing_for_other_batches(root: Path) -> None:
    lacks = BatchVerdict(7, (Reason(Code.STATE_MISSING, "state/0/0/8.delta", "it is not there"),))
    report = replace(found(Code.OFFSETS_CORRUPT), batches=(BatchVerdict(6, ()), lacks))

    problem = damage(LocalTree(root), {"counts": 7}, lambda directory: report)

    assert problem is not None
    assert (problem.path, problem.reason) == ("counts/state/0/0/8.delta", "it is not there")


def test_a_batch_that_neither_log_has_is_not_explained_by_what_another_batch_lacks() -> None:
    report = found(Code.OFFSETS_CORRUPT)  # of batch 7

    judgement = restorable_at(report, 5)

    assert (judgement.answer, [reason.found for reason in judgement.findings]) == (False, ["neither log has batch 5"])


def test_what_could_not_be_read_is_all_that_an_unknown_answer_names() -> None:
    judgement = restorable_at(found(Code.STATE_MISSING, Code.UNREADABLE), 7)

    assert (judgement.answer, [reason.code for reason in judgement.findings]) == (None, [Code.UNREADABLE])


def test_a_query_that_has_committed_nothing_can_be_restored_to_that(root: Path) -> None:
    assert restorable_at(found(Code.UNREADABLE), -1).answer is True
    assert damage(LocalTree(root), {"counts": -1}, lambda directory: found(Code.UNREADABLE)) is None


@pytest.mark.parametrize(
    ("answers", "of_all"), [([], True), ([True], True), ([True, None], None), ([None, False, True], False)]
)
def test_one_no_is_a_no_and_an_open_question_leaves_the_rest_open(
    answers: list[bool | None], of_all: bool | None
) -> None:
    assert all_of(answers) is of_all


def test_damage_is_told_with_its_file(root: Path) -> None:
    problem = damage(LocalTree(root), {"counts": 7}, lambda directory: found(Code.OFFSETS_CORRUPT))

    assert problem is not None
    assert problem.path == "counts/offsets/7"


@pytest.fixture
def checkpoint() -> Iterator[Path]:
    """A checkpoint of two batches, in a directory that other users may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield write_log(Path(name) / "c", offsets=[0, 1], commits=[0, 1], version=2)


def test_batch_that_is_there_can_be_restored(checkpoint: Path) -> None:
    assert restorable_at(verify(LocalTree(checkpoint), depth="quick"), 1).answer is True


def test_batch_with_a_damaged_entry_cannot_be_restored(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "1").write_text("")

    assert restorable_at(verify(LocalTree(checkpoint), depth="quick"), 1).answer is False


def test_batch_that_may_not_be_read_is_unknown(checkpoint: Path) -> None:
    """Tests may be run by root, who may read everything: another user asks."""
    (checkpoint / "offsets" / "1").chmod(0)
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        answer = restorable_at(verify(LocalTree(checkpoint), depth="quick"), 1).answer
    finally:
        os.seteuid(user)

    assert answer is None


def test_state_and_sources_appear_before_any_log() -> None:
    """Between two stages a Spark that is started too early must find nothing that it could go on with."""
    files = ["state/0/0/1.delta", "offsets/0", "offsets/1", "metadata", "commits/1", "sources/0/0"]
    savepoint: Any = SimpleNamespace(queries={"q": SimpleNamespace(files=files)})

    ordered = list(stages(savepoint))

    assert ordered == [
        ["q/state/0/0/1.delta", "q/sources/0/0"],
        ["q/commits/1"],
        ["q/metadata"],
        ["q/offsets/1"],
        ["q/offsets/0"],
    ]


RELEASE = "4.3.0"


@pytest.fixture(params=["hdfs", "rocksdb1-changelog"])
def snapshot_is_bad(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A checkpoint whose newest snapshot is bad, while an older way to its state is whole."""
    checkpoint = unpack(RELEASE, tmp_path / "recorded")[request.param]
    if request.param == "hdfs":
        halve(f"state/0/0/{newest_of(checkpoint, 'snapshot')}")(checkpoint)
    else:
        stale_hidden_crc(f"state/0/0/{newest_of(checkpoint, 'zip')}")(checkpoint)
    return checkpoint


def lacks(report: VerificationReport, batch: int) -> list[str]:
    """Return the files for whose sake a batch is not restorable."""
    (found,) = [verdict for verdict in report.batches if verdict.batch == batch]
    return [reason.path for reason in found.reasons]


def test_a_snapshot_that_a_release_passes_over_is_taken_by_a_fork(snapshot_is_bad: Path) -> None:
    report, last = verify(LocalTree(snapshot_is_bad), spark_version=RELEASE), newest(snapshot_is_bad)

    assert (report.startable, last in report.restorable) == (True, False)
    assert lacks(report, last)[0].startswith("state/0/0/")


def test_a_fork_of_every_batch_of_the_list_can_be_started(snapshot_is_bad: Path, tmp_path: Path) -> None:
    listed = verify(LocalTree(snapshot_is_bad), spark_version="4.1.4").restorable

    for batch in listed:
        fork(snapshot_is_bad, tmp_path / str(batch), batch=batch, keep_planned=False, copy=True)
        assert verify(LocalTree(tmp_path / str(batch)), spark_version="4.1.4").startable is True

    assert listed


def test_a_commit_that_a_start_passes_over_is_none_to_restore_to(tmp_path: Path) -> None:
    checkpoint = unpack(RELEASE, tmp_path / "recorded")["hdfs"]
    last = newest(checkpoint)
    cut_line(f"commits/{last}")(checkpoint)
    report = verify(LocalTree(checkpoint), spark_version=RELEASE)

    assert (report.startable, report.latest_restorable) == (True, last - 1)
    with pytest.raises(CheckpointCorruptError):
        fork(checkpoint, tmp_path / "forked", batch=last, keep_planned=False, copy=True)
