"""The proof of schedules goes on where it was, and names what breaks an invariant."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.schedules import Progress, Schedules


@pytest.fixture(autouse=True)
def _logging_again() -> Iterator[None]:
    yield
    logging.disable(logging.NOTSET)


def played(monkeypatch: pytest.MonkeyPatch, *, broken: str = "") -> list[float]:
    """Replace the schedules by their length; returns the lengths."""
    asked: list[float] = []

    def play_for(seconds: float, work_path: Path) -> tuple[Counter[str], int]:
        del work_path
        asked.append(seconds)
        assert not broken, broken
        return Counter(granted=2), 10

    monkeypatch.setattr("lab.schedules.play_for", play_for)
    return asked


def test_an_interrupted_proof_plays_only_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = played(monkeypatch)
    done = Progress(seconds=120.0, schedules=100, counts={"granted": 7})
    (tmp_path / "progress.json").write_text(done.model_dump_json())

    proof = Schedules(seconds=200.0, sitting=60.0).run(tmp_path, lambda _: None)

    assert asked == [60.0, 20.0]
    assert proof.rows == [("granted", "11")]
    assert proof.remark == "120 schedules were played."
    assert proof.untrue == []


def test_a_schedule_that_breaks_an_invariant_is_named_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = played(monkeypatch, broken="two leaders; replay it with SPARK_HA_SEED=5")

    proof = Schedules(seconds=120.0, sitting=60.0).run(tmp_path, lambda _: None)

    assert len(asked) == 2
    assert [sentence.splitlines()[0] for sentence in proof.untrue] == [
        "two leaders; replay it with SPARK_HA_SEED=5"
    ] * 2
