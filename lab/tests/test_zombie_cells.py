"""The cells of the zombie matrix cover what they promise."""

from __future__ import annotations

from lab.zombie.cells import CELLS, NO_CELL, Cell, State, Store, Where, Who, exists, needed


def test_every_pair_that_exists_is_in_a_cell() -> None:
    assert needed() - {pair for cell in CELLS for pair in cell.pairs} == set()


def test_every_cell_exists_and_is_there_once() -> None:
    assert [cell.name for cell in CELLS if not exists(cell)] == []
    assert len({cell.name for cell in CELLS}) == len(CELLS)


def test_a_pair_that_does_not_exist_has_a_reason_and_is_needed_by_none() -> None:
    assert needed().isdisjoint(NO_CELL)
    assert all(NO_CELL.values())


def test_no_cell_can_be_left_out() -> None:
    """The longest two factors have so many pairs, so a shorter list would miss one."""
    assert len(CELLS) == len(Where) * len(State)


def test_a_name_says_every_level() -> None:
    cell = Cell(Who.BOTH, Where.PLAN_PUT, State.ROCKSDB_1, Store.HDFS)

    assert cell.name == "both-plan_put-rocksdb_1-hdfs"
