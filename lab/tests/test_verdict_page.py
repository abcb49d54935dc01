"""The page of verdicts, and what is asked again."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lab.verdicts import __main__, proof
from lab.verdicts.answers import Line
from lab.verdicts.cases import Case, cases
from lab.verdicts.kept import Kept
from lab.verdicts.known import Known
from lab.verdicts.page import rendered
from tests.support.releases import corpus


AGREES = Line("4.2.0", "hdfs", "metadata removed", "00", "failed at start 1: x", "no", "!METADATA_MISSING")
ALARM = replace(AGREES, shape="stateless", spark="right")
MISSED = replace(AGREES, release="4.1.4", verdict="yes", codes="")
REASON = Known(("* stateless: metadata removed",), "cautious", "The reason is unknown.")


def test_a_look_up_without_recordings_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(corpus, "CACHE", tmp_path / "none")
    monkeypatch.setattr(proof, "PAGE", tmp_path / "verdicts.md")
    monkeypatch.setattr(sys, "argv", ["verdicts", "--look-up", "--folder", str(tmp_path / "answers")])

    assert __main__.main() == 2
    assert capsys.readouterr().err.startswith("Nothing was changed: recordings of Spark 3.0.3, ")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def case() -> Case:
    """One case of the corpus."""
    return cases(["4.2.0 hdfs: metadata removed"])[-1]


def test_a_cell_counts_agreements_and_names_disagreements() -> None:
    page = rendered([MISSED, AGREES, ALARM], [REASON])

    assert "| Damage | 4.1.4 | 4.2.0 |" in page
    assert "| metadata removed | 1 missed | 1, 1 cautious |" in page


def test_each_release_has_its_sums_and_all_of_them_together() -> None:
    page = rendered([MISSED, AGREES, ALARM], [REASON])

    assert "| 4.2.0 | 2 | 1 | 1 | 0 | 0 | 0 |" in page
    assert "| all 2 | 3 | 1 | 1 | 0 | 1 | 0 |" in page


def test_a_disagreement_stands_below_its_reason() -> None:
    page = rendered([AGREES, ALARM], [REASON])

    assert "**1 cautious.** The reason is unknown.\n\n- 4.2.0 stateless: metadata removed: Spark right" in page
    assert "Without a reason" not in page


def test_a_disagreement_without_a_reason_stands_there_alone() -> None:
    assert "**Without a reason:**\n\n- 4.1.4 hdfs: metadata removed" in rendered([MISSED], [])


def test_an_answer_is_found_again(case: Case, tmp_path: Path) -> None:
    Kept(tmp_path / "answers").keep(case, {"starts": [], "same_id": True})

    assert Kept(tmp_path / "answers").get(case) == {"starts": [], "same_id": True}


def test_an_answer_to_another_damage_of_that_name_is_none(case: Case, tmp_path: Path) -> None:
    Kept(tmp_path / "answers").keep(case, {"starts": [], "same_id": True})
    other = replace(case, damage=replace(case.damage, steps=()))

    assert Kept(tmp_path / "answers").get(other) is None
