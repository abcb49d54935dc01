"""Every code of a verification is explained, in the table and in the reference page alike."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.verify.codes import MEANINGS, Code
from airflow_provider_ha.checkpoints.verify.verification_report import Finding


PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "findings.md"


def sections() -> dict[str, str]:
    """Heading -> text in one line, of the reference page."""
    _, *parts = re.split(r"^## (?=[A-Z_]+$)", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {title: " ".join(text.split()) for title, _, text in (part.partition("\n") for part in parts)}


def test_every_code_has_a_meaning() -> None:
    assert list(MEANINGS) == list(Code)


def test_the_reference_page_has_exactly_the_codes() -> None:
    assert list(sections()) == [code.value for code in Code]


@pytest.mark.parametrize("code", Code)
def test_the_reference_page_equals_the_texts_of_the_command(code: Code) -> None:
    meaning = MEANINGS[code]
    assert sections()[code.value] == f"{meaning.what} Next: {meaning.next_step}"


@pytest.mark.parametrize("code", Code)
def test_meanings_are_whole_sentences(code: Code) -> None:
    for text in (MEANINGS[code].what, MEANINGS[code].next_step):
        assert text[0].isupper()
        assert text.endswith(".")
        assert "  " not in text


def test_a_name_never_changes_its_value() -> None:
    assert all(code.name == code.value for code in Code)


@pytest.mark.parametrize(
    ("blocks", "begins"),
    [
        (True, "Spark cannot start from this directory"),
        (False, "It does not prevent a start of Spark"),
        (None, "Whether Spark can start is unknown"),
    ],
)
def test_a_meaning_begins_with_whether_spark_can_start(*, blocks: bool | None, begins: str) -> None:
    finding = Finding(Code.STATE_CORRUPT, "state/0/0/9.delta", 8, "it is cut", "a whole file", blocks=blocks)

    assert finding.meaning.startswith(begins)
    assert finding.meaning.endswith(MEANINGS[Code.STATE_CORRUPT].what)


def test_the_message_contains_the_found_and_the_expected_value() -> None:
    finding = Finding(Code.STATE_CORRUPT, "state/0/0/9.delta", 8, "it is cut", "a whole file")

    assert finding.message == "it is cut; expected: a whole file"
    assert Finding(Code.EMPTY, ".", None, "nothing is there").message == "nothing is there"
