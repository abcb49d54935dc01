"""Cells of ``make proof SUITE=sinks``, one of each type of sink whose own tests stay on one store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.sinks.cells import Cell, Kill, Sink, Store
from tests.support.sinks.play import play
from tests.support.sinks.stage import Stage, stage


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1500)]

SAMPLE = (
    Cell(Sink.FOREACH_BATCH, Store.S3, Kill.AFTER),
    pytest.param(Cell(Sink.DELTA, Store.HDFS, Kill.AFTER), marks=pytest.mark.hours),
    pytest.param(Cell(Sink.KAFKA, Store.HDFS, Kill.BEFORE), marks=pytest.mark.hours),
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("sinks")) as made:
        yield made


@pytest.mark.parametrize("cell", SAMPLE, ids=lambda cell: str(cell.name))
def test_the_output_is_that_of_one_batch(opened: Stage, cell: Cell) -> None:
    assert play(cell, opened).wrong == []
