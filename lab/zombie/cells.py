"""The cells of the zombie matrix: every pair of two factors that exists is in one of them.

The list is fixed, not drawn: a proof that goes on after an interruption has the same cells. A test sees that it covers
every pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, product


class Who(str, Enum):
    """Which processes of the old epoch come back."""

    DRIVER = "driver"
    BOTH = "driver and executors"
    EXECUTORS = "executors only"


class Where(str, Enum):
    """Where the old epoch is in a batch when it stops."""

    PLANNING = "planning"
    PLAN_PUT = "between gate check and PUT of the plan"
    TASK = "task"
    UPLOAD = "state upload"
    SINK = "between sink log and commit"
    COMMIT_PUT = "between gate check and PUT of the commit"
    NEVER = "never frozen"


class State(str, Enum):
    """How the state is stored."""

    ROCKSDB_2 = "RocksDB 2"
    CHANGELOG_2 = "RocksDB 2, changelog"
    ROCKSDB_1 = "RocksDB 1"
    HDFS_BACKED = "HDFS-backed"


class Store(str, Enum):
    """Where checkpoints and output lie."""

    S3 = "S3"
    HDFS = "HDFS"


Level = Who | Where | State | Store


@dataclass(frozen=True)
class Cell:
    """One combination."""

    who: Who
    where: Where
    state: State
    store: Store

    @property
    def name(self) -> str:
        """Its name in progress files and test ids."""
        return "-".join(level.name.lower() for level in self.levels)

    @property
    def levels(self) -> tuple[Level, ...]:
        """One level of each factor."""
        return (self.who, self.where, self.state, self.store)

    @property
    def pairs(self) -> Iterator[tuple[Level, Level]]:
        """Every pair of two factors that it covers."""
        return combinations(self.levels, 2)


NO_CELL = {
    (Who.DRIVER, Where.NEVER): "a driver that is never frozen has executors that are not either",
}
"""Pairs that do not exist, and why."""

CELLS = (
    Cell(Who.EXECUTORS, Where.PLANNING, State.ROCKSDB_2, Store.HDFS),
    Cell(Who.BOTH, Where.PLANNING, State.CHANGELOG_2, Store.S3),
    Cell(Who.DRIVER, Where.PLANNING, State.ROCKSDB_1, Store.S3),
    Cell(Who.BOTH, Where.PLANNING, State.HDFS_BACKED, Store.HDFS),
    Cell(Who.BOTH, Where.PLAN_PUT, State.ROCKSDB_2, Store.HDFS),
    Cell(Who.DRIVER, Where.PLAN_PUT, State.CHANGELOG_2, Store.S3),
    Cell(Who.EXECUTORS, Where.PLAN_PUT, State.ROCKSDB_1, Store.HDFS),
    Cell(Who.DRIVER, Where.PLAN_PUT, State.HDFS_BACKED, Store.S3),
    Cell(Who.DRIVER, Where.TASK, State.ROCKSDB_2, Store.HDFS),
    Cell(Who.EXECUTORS, Where.TASK, State.CHANGELOG_2, Store.S3),
    Cell(Who.BOTH, Where.TASK, State.ROCKSDB_1, Store.S3),
    Cell(Who.EXECUTORS, Where.TASK, State.HDFS_BACKED, Store.HDFS),
    Cell(Who.DRIVER, Where.UPLOAD, State.ROCKSDB_2, Store.HDFS),
    Cell(Who.BOTH, Where.UPLOAD, State.CHANGELOG_2, Store.HDFS),
    Cell(Who.DRIVER, Where.UPLOAD, State.ROCKSDB_1, Store.S3),
    Cell(Who.EXECUTORS, Where.UPLOAD, State.HDFS_BACKED, Store.S3),
    Cell(Who.EXECUTORS, Where.SINK, State.ROCKSDB_2, Store.HDFS),
    Cell(Who.BOTH, Where.SINK, State.CHANGELOG_2, Store.S3),
    Cell(Who.EXECUTORS, Where.SINK, State.ROCKSDB_1, Store.S3),
    Cell(Who.DRIVER, Where.SINK, State.HDFS_BACKED, Store.HDFS),
    Cell(Who.EXECUTORS, Where.COMMIT_PUT, State.ROCKSDB_2, Store.HDFS),
    Cell(Who.EXECUTORS, Where.COMMIT_PUT, State.CHANGELOG_2, Store.HDFS),
    Cell(Who.DRIVER, Where.COMMIT_PUT, State.ROCKSDB_1, Store.S3),
    Cell(Who.BOTH, Where.COMMIT_PUT, State.HDFS_BACKED, Store.HDFS),
    Cell(Who.BOTH, Where.NEVER, State.ROCKSDB_2, Store.S3),
    Cell(Who.BOTH, Where.NEVER, State.CHANGELOG_2, Store.S3),
    Cell(Who.EXECUTORS, Where.NEVER, State.ROCKSDB_1, Store.HDFS),
    Cell(Who.BOTH, Where.NEVER, State.HDFS_BACKED, Store.S3),
)


def exists(cell: Cell) -> bool:
    """Whether a combination exists. Pure."""
    return not any(pair in NO_CELL for pair in cell.pairs)


def needed() -> set[tuple[Level, Level]]:
    """Return every pair of two factors that exists. Pure."""
    every = (Cell(*levels) for levels in product(Who, Where, State, Store))
    return {pair for cell in every if exists(cell) for pair in cell.pairs}
