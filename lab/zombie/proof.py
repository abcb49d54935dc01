"""``make proof SUITE=zombie``: every cell of the zombie matrix, and a zombie that lives and purges for ten minutes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from lab import sitting
from lab.sitting import Sitting, commits, emptied
from lab.suite import Proof
from lab.zombie.cells import CELLS, NO_CELL, Cell, State, Store
from lab.zombie.play import Outcome, play
from lab.zombie.purging import purge
from lab.zombie.stage import on_hdfs, on_s3
from tests.support.hdfs.hdfs_server import HADOOP
from tests.support.s3.versitygw import VERSION


PURGING_SECONDS = 600.0
SITTING_SECONDS = 45 * 60.0  # after which no cell is begun: the next call goes on
PURGING = "purging"
_PURGED = State.ROCKSDB_2
_PURGING_LEVELS = ("driver and executors", "lives and purges", _PURGED.value, Store.S3.value)
_BY_NAME = {cell.name: cell for cell in CELLS}
_COLUMNS = (
    "who comes back",
    "stopped in",
    "state",
    "store",
    "ended because",
    "takeovers",
    "files of the base",
    "deletes left",
    "files collected",
    "holds",
)
_OPEN = {Store.S3: on_s3, Store.HDFS: on_hdfs}

Done = sitting.Done[Outcome]
Progress = sitting.Progress[Outcome]


class Zombies:
    """The suite.

    :param cells: Which cells are played.
    :param seconds: How long the purging zombie lives; 0 leaves it out.
    :param sitting: Seconds after which no cell is begun.
    """

    name = "zombie"
    title = "A driver that comes back changes nothing"

    def __init__(
        self, cells: Sequence[Cell] = CELLS, seconds: float = PURGING_SECONDS, sitting: float = SITTING_SECONDS
    ) -> None:
        self._cells, self._seconds, self._sitting = cells, seconds, sitting

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            "In each cell a driver of Spark with two executors in other processes runs a query with two stateful"
            " operators into a file sink. In one batch it is stopped at a moment: a proxy holds one request, then"
            " processes are frozen (SIGSTOP) or, for 'executors only', the driver is killed. A second driver takes over"
            " with `LayeredWorkArea`, commits batches, and the frozen part continues; a held request arrives only "
            "then. The gate"
            " of the old driver stays open: exclusive creates and the fence have to do alone. The old epoch adds no "
            "entry to its logs, each file that the new one began with is as it was, both the"
            " component leaves deletes to the collector and the collector removes files, and afterwards output and"
            " state are those of a batch over all input. Every pair of two columns is in a cell."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Play the cells that are left, and again those in which something did not hold."""
        now = Sitting(folder, Progress, Done, self._sitting, tell)
        for store, opened in _OPEN.items():
            left = [cell for cell in self._cells if cell.store is store and cell.name not in now]
            purges = store is Store.S3 and self._seconds > 0 and PURGING not in now
            if not left and not purges:
                continue
            place = emptied(folder / store.name.lower())
            with opened(place) as stage:
                for cell in left:
                    now.attempt(cell.name, partial(play, cell, stage, place))
                if purges:
                    now.attempt(PURGING, partial(purge, stage, place, _PURGED, self._seconds))
        names = [*(cell.name for cell in self._cells), *([PURGING] if self._seconds > 0 else [])]
        return now.proof(names, _COLUMNS, row, remark)


def row(name: str, done: Done) -> tuple[str, ...]:
    """Return the line of a cell. Pure."""
    seen = done.outcome
    levels = [level.value for level in _BY_NAME[name].levels] if name in _BY_NAME else _PURGING_LEVELS
    figures = (seen.takeovers, seen.base, seen.left, seen.collected)
    return (*levels, seen.ended, *map(str, figures), "no" if seen.wrong else "yes")


def remark(cells: Mapping[str, Done], rest: Sequence[str]) -> str:
    """Return what a reader has to know beside the table. Pure.

    :param rest: What was not played yet.
    """
    pairs = "; ".join(f"{one.value!r} with {two.value!r}: {why}" for (one, two), why in NO_CELL.items())
    return (
        f"Commit {commits(cells)}. Spark {version('pyspark')}, versitygw {VERSION} and HDFS {HADOOP} (one name"
        f" node, one data node). No cell: {pairs}. Where a zombie lives and purges it is never frozen: it starts its"
        " query again whenever it dies, and deletes every file that it sees."
        + (f" **Not played yet:** {', '.join(rest)}." if rest else "")
    )
