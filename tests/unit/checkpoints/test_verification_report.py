"""The report of a verification: what is kept of the findings, and how batches are told to people."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.verification_report import (
    BatchVerdict,
    Finding,
    Findings,
    Reason,
    VerificationReport,
)
from airflow_provider_ha.cli import console
from airflow_provider_ha.cli.verify import batch_rows, print_report


CUT = Reason(Code.STATE_CORRUPT, "state/0/0/6.delta", "it is cut")


def verdicts(*batches: tuple[int, tuple[Reason, ...]]) -> list[BatchVerdict]:
    return [BatchVerdict(batch, reasons) for batch, reasons in batches]


def test_one_file_is_told_once_for_each_code_and_the_blocking_one_is_kept() -> None:
    findings = Findings()
    findings.add(Finding(Code.OFFSETS_MISSING, "offsets/4", 4, "gone"))
    findings.add(Finding(Code.OFFSETS_MISSING, "offsets/4", 4, "gone, and needed", blocks=True))
    findings.add(Finding(Code.OFFSETS_MISSING, "offsets/4", 4, "gone"))

    assert [(finding.found, finding.blocks) for finding in findings.all()] == [("gone, and needed", True)]


def test_informational_findings_do_not_block_and_come_last() -> None:
    findings = Findings()
    findings.add(Finding(Code.STATE_UNKNOWN, "state", None, "no state"))
    assert not findings.blocked

    findings.add(Finding(Code.UNREADABLE, "offsets/4", None, "input/output error", blocks=None))
    findings.add(Finding(Code.STATE_CORRUPT, "state/0/0/9.delta", 8, "cut", blocks=True))
    assert findings.blocked
    assert [finding.code.value for finding in findings.all()] == ["UNREADABLE", "STATE_CORRUPT", "STATE_UNKNOWN"]


def test_neighbouring_batches_that_lack_the_same_share_a_row() -> None:
    rows = list(batch_rows(verdicts((0, ()), (1, ()), (2, (CUT,)), (3, (CUT,)), (4, ()))))

    assert rows == [
        ("0-1", "yes", None),
        ("2-3", "no", "STATE_CORRUPT state/0/0/6.delta"),
        ("4", "yes", None),
    ]


def test_a_range_over_batches_that_are_not_recorded_says_how_many_are() -> None:
    assert list(batch_rows(verdicts((0, ()), (2, ()), (5, ())))) == [("0-5 (3 of them)", "yes", None)]


def test_many_reasons_are_counted() -> None:
    many = tuple(Reason(Code.STATE_MISSING, f"state/0/{n}/9.delta", "gone") for n in range(200))
    ((_, _, lacks),) = batch_rows(verdicts((8, many)))

    assert lacks is not None
    assert lacks.endswith("STATE_MISSING state/0/2/9.delta and 197 more")


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the command prints for people."""
    text = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=text, width=400, highlight=False))
    return text


def test_people_read_the_batches_the_findings_and_each_meaning_once(printed: io.StringIO) -> None:
    findings = tuple(
        Finding(Code.STATE_CORRUPT, f"state/0/{n}/6.delta", 5, "it is cut", "a whole file", blocks=True)
        for n in range(3)
    )
    batches = tuple(verdicts((4, ()), (5, (CUT,))))
    print_report("/data/c", VerificationReport(startable=False, restorable=[4], findings=findings, batches=batches))

    text = printed.getvalue()
    assert "Spark cannot start from /data/c" in text
    assert "the latest is 4" in text
    assert text.count("state/0/2/6.delta") == 1
    assert text.count("STATE_CORRUPT: ") == 1
    assert text.count("Next: ") == 1
