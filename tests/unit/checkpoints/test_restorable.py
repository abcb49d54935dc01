"""Damage is known; what could not be read is not damage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.verify.findings import Code, Finding
from airflow_provider_ha.checkpoints.verify.report import BatchVerdict, Reason, Report
from airflow_provider_ha.checkpoints.verify.restorable import damage
from airflow_provider_ha.errors import StorageUnavailableError


def found(*codes: Code) -> Report:
    findings = tuple(Finding(code, "offsets/7", 7, "input/output error") for code in codes)
    return Report(startable=None, restorable=[], findings=findings)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A pin with the directory of one query."""
    (tmp_path / "pin" / "counts").mkdir(parents=True)
    return tmp_path / "pin"


def test_a_file_of_a_pin_that_cannot_be_read_stops_whoever_asks(root: Path) -> None:
    """Also when it comes after damage: the damage may be an answer of the same failing disk."""
    with pytest.raises(StorageUnavailableError, match="offsets/7"):
        damage(root, {"counts": 7}, lambda directory: found(Code.STATE_MISSING, Code.UNREADABLE))


def test_what_the_batch_itself_lacks_is_told_before_what_another_one_lacks(root: Path) -> None:
    lacks = BatchVerdict(7, (Reason(Code.STATE_MISSING, "state/0/0/8.delta", "it is not there"),))
    report = replace(found(Code.OFFSETS_CORRUPT), batches=(BatchVerdict(6, ()), lacks))

    problem = damage(root, {"counts": 7}, lambda directory: report)

    assert problem is not None
    assert (problem.path, problem.reason) == ("counts/state/0/0/8.delta", "it is not there")


def test_damage_is_told_with_its_file(root: Path) -> None:
    problem = damage(root, {"counts": 7}, lambda directory: found(Code.OFFSETS_CORRUPT))

    assert problem is not None
    assert problem.path == "counts/offsets/7"
