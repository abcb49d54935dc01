"""The matrix of sinks: its cells, what it calls a difference, and what it plays again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import sinks
from lab.sinks import Done, Progress, Sinks
from tests.support.sinks.cells import CELLS, NO_CELL, Cell, Kill, Sink, Store
from tests.support.sinks.play import KILLED, Outcome, differences, numbers


HELD = Outcome(seconds=20.0, rows=25, repeated=0, wrong=[])
FIRST, SECOND = CELLS[:2]
FILES = Cell(Sink.JSON, Store.S3, Kill.AFTER)
TOPIC = Cell(Sink.KAFKA, Store.S3, Kill.AFTER)
EVERY = Counter({number: 1 for batch in range(KILLED + 2) for number in numbers(batch)})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the cells that are played; the second one does not come to its end."""
    names: list[str] = []

    def play(cell: Cell, _: object) -> Outcome:
        names.append(cell.name)
        assert cell != SECOND, "no session"
        return HELD

    @contextmanager
    def opened(_: Path) -> Iterator[object]:
        yield None

    monkeypatch.setattr(sinks, "play", play)
    monkeypatch.setattr(sinks, "stage", opened)
    return names


def test_every_sink_is_killed_on_both_sides_of_its_commit_in_every_store_but_where_it_is_refused() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS) == (len(Sink) * len(Store) - len(NO_CELL)) * len(Kill)
    assert all(NO_CELL.values())


@pytest.mark.parametrize("cell", [FILES, TOPIC], ids=["files", "topic"])
def test_a_row_that_is_missing_or_there_too_often_is_a_difference(cell: Cell) -> None:
    right = EVERY + Counter(numbers(KILLED)) if cell.repeats else EVERY

    assert differences(cell, right) == []
    assert differences(cell, right - Counter([0])) == ["1 rows are missing: [0]."]
    assert differences(cell, right + Counter([7])) == ["1 rows are there too often: [7]."]


def test_only_a_topic_has_the_batch_in_flight_twice() -> None:
    assert {cell.sink for cell in CELLS if cell.repeats} == {Sink.KAFKA}


def test_a_cell_that_was_played_is_not_played_again(tmp_path: Path, played: list[str]) -> None:
    done = Progress(cells={FIRST.name: Done(commit="abc", outcome=HELD)})
    (tmp_path / "progress.json").write_text(done.model_dump_json())

    found = Sinks([FIRST, SECOND]).run(tmp_path, lambda _: None)

    assert played == [SECOND.name]
    assert found.rows == [("JSON files", "local", "before the sink's commit", "25", "0", "yes")]
    assert found.untrue == [f"{SECOND.name} was not played to its end."]


def test_what_a_sitting_has_no_time_for_is_named(tmp_path: Path, played: list[str]) -> None:
    found = Sinks([FIRST], sitting=-1).run(tmp_path, lambda _: None)

    assert played == []
    assert f"**Not played yet:** {FIRST.name}." in found.remark
