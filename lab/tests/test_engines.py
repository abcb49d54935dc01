"""What the proof of the engines counts, what it calls untrue, and what it does again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.host.engines.engine import (
    GoneSubmission,
    PendingSubmission,
    RunningSubmission,
    UnknownSubmission,
)
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from lab.engines import proof
from lab.engines.proof import Done, EngineDeaths, Progress
from lab.engines.rows import Row, rows
from tests.support.engine_deaths.play import Outcome, words


PROVEN = Outcome(answer="KILLED", proof=True, seconds=1.5, reported=1.25, left=0, wrong=[])


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the events that are caused."""

    @contextmanager
    def job() -> Iterator[None]:
        yield None

    @contextmanager
    def stage(_: Path) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        yield job

    monkeypatch.setattr(proof, "stage", stage)
    return []


def event(name: str, played: list[str], outcome: Outcome | None, says: str = "KILLED") -> Row:
    def play(_: Any) -> Outcome:
        played.append(name)
        assert outcome is not None, "no answer"
        return outcome

    return Row(name, f"{name} happens", says, proof=True, play=play)


def test_what_was_caused_is_not_caused_again(tmp_path: Path, played: list[str]) -> None:
    done = Progress(cells={"first": Done(commit="abc", outcome=PROVEN)})
    (tmp_path / "progress.json").write_text(done.model_dump_json())
    events = [event("first", played, PROVEN), event("second", played, PROVEN)]

    found = EngineDeaths(events).run(tmp_path, lambda _: None)

    assert played == ["second"]
    assert found.rows[0] == ("first happens", "KILLED", "yes", "1.5 s", "1.2 s", "0", "yes")
    assert found.untrue == []


def test_an_event_without_an_end_leaves_the_others_and_is_caused_again(tmp_path: Path, played: list[str]) -> None:
    events = [event("first", played, None), event("second", played, PROVEN)]

    for _ in range(2):
        found = EngineDeaths(events).run(tmp_path, lambda _: None)

    assert played == ["first", "second", "first"]
    assert found.untrue == ["first was not played to its end."]


def test_another_answer_than_the_expected_one_is_untrue_and_caused_again(tmp_path: Path, played: list[str]) -> None:
    events = [event("first", played, PROVEN, says="FAILED")]

    for _ in range(2):
        found = EngineDeaths(events).run(tmp_path, lambda _: None)

    assert played == ["first", "first"]
    assert found.untrue == ["first: The engine says KILLED (proof: True), and FAILED (True) is expected."]


def test_what_a_sitting_has_no_time_for_is_left_to_the_next_one(tmp_path: Path, played: list[str]) -> None:
    found = EngineDeaths([event("first", played, PROVEN)], sitting=-1.0).run(tmp_path, lambda _: None)

    assert played == []
    assert found.remark.endswith("**Not caused yet:** first happens.")


def test_every_event_has_its_own_name_and_the_time_without_masters() -> None:
    names = [row.name for row in rows()]

    assert len(names) == len(set(names))
    assert "no master for 10 min" in [row.event for row in rows()]


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        (GoneSubmission("driver-1 is KILLED: the worker w:1 saw its JVM exit"), "KILLED"),
        (UnknownSubmission("driver-1 is ERROR: its worker was lost, and its processes may live on"), "ERROR"),
        (UnknownSubmission("http://m:6066 cannot be reached (refused)"), "no answer"),
        (PendingSubmission("no worker has room for it yet"), "SUBMITTED"),
        (RunningSubmission(DriverHandle(engine="standalone")), "RUNNING"),
    ],
)
def test_an_answer_has_a_word(answer: Any, word: str) -> None:
    assert words(answer) == word
