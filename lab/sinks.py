"""``make proof SUITE=sinks``: each type of sink, in each store, killed on both sides of its commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from lab import sitting
from lab.sitting import Sitting, commits, emptied
from lab.suite import Proof
from tests.support.hdfs.hdfs_server import HADOOP
from tests.support.s3.versitygw import VERSION
from tests.support.sinks.cells import CELLS, NAMES, NO_CELL, Cell
from tests.support.sinks.play import Outcome, play
from tests.support.sinks.stage import DELTA, stage
from tests.support.spark.kafka_server import BROKER


SITTING_SECONDS = 3300.0  # no cell is begun later: a sitting takes an hour at most
_COLUMNS = ("sink", "store", "killed", "rows", "repeated", "holds")
_BY_NAME = {cell.name: cell for cell in CELLS}

Done = sitting.Done[Outcome]
Progress = sitting.Progress[Outcome]


class Sinks:
    """The suite.

    :param cells: Which cells are played.
    :param sitting: Seconds after which no cell is begun.
    """

    name = "sinks"
    title = "A driver that is killed around its sink's commit"

    def __init__(self, cells: Sequence[Cell] = CELLS, sitting: float = SITTING_SECONDS) -> None:
        self._cells, self._sitting = cells, sitting

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            "In each cell a managed job with a stateful query (`dropDuplicates`) writes five batches to one sink. Its"
            " driver is killed in the fourth one: while its rows are held, or after the sink has committed it, with the"
            " checkpoint's commit not made. The job is recovered, and reads one batch more. Afterwards every row is in"
            " the output once, as Spark reads it. A topic has the rows of the batch twice whose commit was not made:"
            " those and no others."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Play the cells that are left, and again those in which something did not hold."""
        now = Sitting(folder, Progress, Done, self._sitting, tell)
        with stage(emptied(folder / "stage")) as opened:
            now.attempt_all({cell.name: partial(play, cell, opened) for cell in self._cells})
        return now.proof([cell.name for cell in self._cells], _COLUMNS, row, remark)


def row(name: str, done: Done) -> tuple[str, ...]:
    """Return the line of a cell. Pure."""
    cell, seen = _BY_NAME[name], done.outcome
    holds = "no" if seen.wrong else "yes"
    return (NAMES[cell.sink], cell.store.value, cell.kill.value, str(seen.rows), str(seen.repeated), holds)


def remark(cells: Mapping[str, Done], rest: Sequence[str]) -> str:
    """Return what a reader has to know beside the table. Pure.

    :param rest: What was not played yet.
    """
    pairs = "; ".join(f"{NAMES[sink]} on {store.value}: {why}" for (sink, store), why in NO_CELL.items())
    return (
        f"Commit {commits(cells)}. Spark {version('pyspark')}, Delta {DELTA}, Kafka {BROKER}, versitygw {VERSION}"
        f" and HDFS {HADOOP} (one name node, one data node). No cell: {pairs}."
        + (f" **Not played yet:** {', '.join(rest)}." if rest else "")
    )
