"""Damage is known; what could not be read is not damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.restorable import all_of, damage, restorable_at
from airflow_provider_ha.checkpoints.verify.verification_report import BatchVerdict, Finding, Reason, VerificationReport
from airflow_provider_ha.errors import StorageUnavailableError


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


def test_what_the_batch_itself_lacks_is_told_before_what_another_one_lacks(root: Path) -> None:
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
