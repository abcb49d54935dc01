"""What the proof of the zombies counts, what it calls untrue, and what it does again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.sitting import untrue
from lab.zombie import proof
from lab.zombie.cells import CELLS, Cell, Store
from lab.zombie.play import Outcome, deletes_left, reason
from lab.zombie.proof import PURGING, Done, Progress, Zombies, row
from lab.zombie.stream import Stream


HELD = Outcome(seconds=20.0, ended="entry of its log taken", takeovers=1, base=40, left=12, collected=3, wrong=[])
BROKEN = HELD.model_copy(update={"wrong": ["A file of the base was changed."]})
FIRST, SECOND = (cell for cell in CELLS if cell.store is Store.S3 and CELLS.index(cell) < 3)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the cells that are played; the second one does not come to its end."""
    names: list[str] = []

    def play(cell: Cell, _stage: object, _folder: Path) -> Outcome:
        names.append(cell.name)
        assert cell != SECOND, "no session"
        return HELD

    @contextmanager
    def opened(_: Path) -> Iterator[object]:
        yield None

    monkeypatch.setattr(proof, "play", play)
    monkeypatch.setattr(proof, "_OPEN", {Store.S3: opened})
    return names


def test_a_cell_that_was_played_is_not_played_again(tmp_path: Path, played: list[str]) -> None:
    done = Progress(cells={FIRST.name: Done(commit="abc", outcome=HELD)})
    (tmp_path / "progress.json").write_text(done.model_dump_json())

    found = Zombies([FIRST, SECOND], seconds=0).run(tmp_path, lambda _: None)

    assert played == [SECOND.name]
    assert len(found.rows) == 1
    assert found.untrue == [f"{SECOND.name} was not played to its end."]
    assert found.remark.startswith("Commit abc.")


def test_a_cell_that_failed_leaves_the_others_and_is_played_again(tmp_path: Path, played: list[str]) -> None:
    for _ in range(2):
        Zombies([SECOND, FIRST], seconds=0).run(tmp_path, lambda _: None)

    assert played == [SECOND.name, FIRST.name, SECOND.name]


def test_a_cell_in_which_something_did_not_hold_is_played_again(tmp_path: Path, played: list[str]) -> None:
    done = Progress(cells={FIRST.name: Done(commit="abc", outcome=BROKEN)})
    (tmp_path / "progress.json").write_text(done.model_dump_json())

    found = Zombies([FIRST], seconds=0).run(tmp_path, lambda _: None)

    assert played == [FIRST.name]
    assert found.untrue == []


def test_what_is_left_after_a_sitting_is_named_and_not_begun(tmp_path: Path, played: list[str]) -> None:
    found = Zombies([FIRST], seconds=0, sitting=-1).run(tmp_path, lambda _: None)

    assert played == []
    assert found.untrue == []
    assert found.remark.endswith(f"**Not played yet:** {FIRST.name}.")


def test_a_sentence_that_does_not_hold_names_its_cell() -> None:
    cells = {FIRST.name: Done(commit="abc", outcome=HELD), PURGING: Done(commit="abc", outcome=BROKEN)}

    assert untrue(cells, []) == [f"{PURGING}: A file of the base was changed."]
    assert row(FIRST.name, cells[FIRST.name])[4:] == ("entry of its log taken", "1", "40", "12", "3", "yes")
    assert row(PURGING, cells[PURGING])[-1] == "no"


def test_an_end_is_said_in_a_few_words() -> None:
    assert reason("[CONCURRENT_STREAM_LOG_UPDATE] Concurrent") == "entry of its log taken"
    assert reason("Race while writing batch 5") == "entry of the sink's log taken"
    assert reason("Task failed\n  at Stack") == "Task failed"


def test_deletes_of_every_process_are_counted() -> None:
    said = {"counters": {"driver": {"delete_left": 2}, "17": {"delete_left": 3, "write": 9}, "18": {"write": 1}}}

    assert deletes_left([said, {}]) == 5


def truth(stream: Stream) -> dict[str, Any]:
    counted = [[start, key, count] for (start, key), count in sorted(stream.counts().items())]
    return {"output": counted[:5], "waiting": counted[5:], "rows": sorted(stream.rows())}


@pytest.fixture
def stream(tmp_path: Path) -> Stream:
    stream = Stream(tmp_path / "input")
    stream.feed(4)
    return stream


def test_the_truth_of_the_input_is_not_wrong(stream: Stream) -> None:
    assert stream.wrong(truth(stream)) == []
    assert stream.counts()[3600, "a"] == 3


@pytest.mark.parametrize("name", ["output", "waiting", "rows"])
def test_what_is_lost_or_there_twice_is_wrong(stream: Stream, name: str) -> None:
    lost, twice = truth(stream), truth(stream)
    lost[name] = lost[name][1:]
    twice[name] = [*twice[name], twice[name][0]]

    assert stream.wrong(lost) != []
    assert stream.wrong(twice) != []
