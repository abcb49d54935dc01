"""What the proof of the soak counts and what it calls untrue."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.soak.proof import LeadershipSoak, Leg, Progress, leg, row, untrue
from lab.soak.soak import Endured
from tests.support.leadership.checker import Invariant, Violation
from tests.support.leadership.history import Event


HISTORY = (
    Event(1.0, "p0", "acquired", {"epoch": 1, "session": 1}),
    Event(2.0, "p0", "committed", {"epoch": 1, "number": 1}),
    Event(3.0, "nemesis", "fault", {"name": "kill any"}),
    Event(4.0, "p1", "acquired", {"epoch": 2, "session": 2}),
)
BROKEN = Violation(Invariant.COMMITS_SURVIVE, "checkpoint 1 is gone")
HELD = Endured(600.0, 7, HISTORY, disagreements=0, violations=(), excused=())


def test_the_figures_of_a_soak_are_those_of_its_history() -> None:
    figures = leg(HELD)

    assert (figures.faults, figures.elections, figures.commits) == (1, 2, 1)
    assert untrue([figures]) == []
    assert row(figures)[:5] == ("7", "600", "1", "2", "1")


def test_a_violation_and_a_soak_without_commits_are_named() -> None:
    broken = leg(Endured(600.0, 7, HISTORY[:1], disagreements=0, violations=[BROKEN], excused=()))

    assert untrue([broken]) == [
        f"With seed 7: {Invariant.COMMITS_SURVIVE.value}: checkpoint 1 is gone.",
        "With seed 7 nothing was committed.",
    ]


def test_a_soak_that_was_interrupted_is_done_again_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "progress.json").write_text(Progress(legs=[leg(HELD), leg(HELD)]).model_dump_json())
    (tmp_path / "leg-3" / "histories").mkdir(parents=True)  # where it was interrupted
    folders: list[Path] = []

    def endure(folder: Path, seconds: float, seed: int) -> Endured:
        assert list(folder.iterdir()) == []
        folders.append(folder)
        return Endured(seconds, seed, HISTORY, 0, (), ())

    monkeypatch.setattr("lab.soak.proof.endure", endure)

    proof = LeadershipSoak(legs=3).run(tmp_path, lambda _: None)

    assert folders == [tmp_path / "leg-3"]
    assert len(proof.rows) == 3
    assert isinstance(Progress.model_validate_json((tmp_path / "progress.json").read_bytes()).legs[2], Leg)
