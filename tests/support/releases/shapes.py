"""What every release is recorded with: the queries, and from which release on Spark can run or write them.

A shape is a query with a conf. Each later format of Spark has its own shape. The core is recorded with every
release that can write it; the rest with the first that can, and with the newest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.support.releases.installed import SPARKS, Spark
from tests.support.spark.corpus import NEXT_FILE, rows_of


LONG, SHORT = 5, 2
_STREAMING = "spark.sql.streaming"
_STATE = f"{_STREAMING}.stateStore"
_ROCKSDB = {f"{_STATE}.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}
_CHANGELOG = {f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true"}
_FORMAT_2 = {f"{_STATE}.checkpointFormatVersion": "2"}
_PURGED = {f"{_STREAMING}.minBatchesToRetain": "2"}
_EVERY_SNAPSHOT = {f"{_STATE}.minDeltasForSnapshot": "0"}
_SNAPSHOTS = {"snapshots": True}
_CODEC = f"{_STATE}.compression.codec"


@dataclass(frozen=True)
class Shape:
    """One query with its conf.

    :param kind: Which query of ``program.py`` it is.
    :param since: The first release, (major, minor), that can write it.
    :param files: How many input files are read, one in each batch; 0 for a query that makes its rows itself.
    :param more: What else the program is told.
    :param core: Whether every release is recorded with it.
    """

    name: str
    kind: str
    since: tuple[int, int]
    conf: dict[str, str] = field(default_factory=dict)
    files: int = SHORT
    more: dict[str, Any] = field(default_factory=dict)
    core: bool = False

    @property
    def by_id(self) -> bool:
        """Whether its state is in checkpoint format 2.

        Spark 4.0 takes the version that it writes into each zip from the first query of a JVM that uses RocksDB, and
        refuses every other one: no JVM records or judges both formats.
        """
        return f"{_STATE}.checkpointFormatVersion" in self.conf

    def is_read_by(self, release: str, recorder: str) -> bool:
        """Whether *release* can go on with what *recorder* wrote: later ones refuse what 4.0 writes into such a zip."""
        return release == recorder or not (self.by_id and recorder.startswith("4.0."))

    def recorded_by(self, spark: Spark) -> bool:
        """Whether *spark* is to record it."""
        able = [other for other in SPARKS if self.since <= other.short]
        return spark in (able if self.core else (able[0], able[-1]))


SHAPES = (
    # Logs alone; the sink's log is recorded with it. Both logs compact at 3.
    Shape("stateless", "stateless", (2, 1), files=LONG, core=True),
    Shape("continuous", "continuous", (2, 3), files=0),
    Shape("async", "async", (3, 4), files=0),
    Shape(
        "async-purged",
        "async",
        (3, 4),
        {f"{_STREAMING}.minBatchesToRetain": "9"},
        files=0,
        more={"purged": True, "interval": "2500"},
    ),
    Shape("offsets-v2", "counts", (4, 2), {f"{_STREAMING}.offsetLog.formatVersion": "2"}),
    Shape(
        "named-source",
        "counts",
        (4, 2),
        {f"{_STREAMING}.queryEvolution.enableSourceEvolution": "true"},
        more={"sourceName": "events"},
    ),
    # HDFS-backed state.
    Shape("hdfs", "counts", (2, 1), files=LONG, core=True),
    Shape("hdfs-snapshots", "counts", (2, 4), _EVERY_SNAPSHOT, files=LONG, more=_SNAPSHOTS),
    Shape("hdfs-purged", "counts", (2, 1), _PURGED, files=LONG),
    Shape("hdfs-format-1", "counts", (2, 4), {f"{_STREAMING}.aggregation.stateFormatVersion": "1"}),
    Shape("hdfs-zstd", "counts", (3, 1), {_CODEC: "zstd"}),
    Shape("hdfs-snappy", "counts", (3, 1), {_CODEC: "snappy"}),
    Shape("hdfs-lzf", "counts", (3, 1), {_CODEC: "lzf"}),
    Shape("hdfs-global", "global", (2, 1)),
    Shape("hdfs-dedup", "dedup", (2, 2)),
    Shape("hdfs-chain", "chain", (2, 2)),
    Shape("hdfs-windows", "windows", (2, 1)),
    Shape("hdfs-join", "join", (2, 3)),
    Shape("hdfs-limit", "limit", (3, 0)),
    Shape("hdfs-sessions", "sessions", (3, 2)),
    Shape("hdfs-windows-twice", "windows-twice", (3, 4)),
    Shape("hdfs-dedup-within", "dedup-within", (3, 5)),
    Shape("hdfs-row-checksum", "counts", (4, 2), {f"{_STATE}.rowChecksum.enabled": "true"}),
    # RocksDB, checkpoint format 1.
    Shape("rocksdb1", "counts", (3, 2), _ROCKSDB, files=LONG, core=True),
    Shape("rocksdb1-purged", "counts", (3, 2), _ROCKSDB | _PURGED, files=LONG),
    Shape("rocksdb1-tables-v3", "counts", (3, 2), _ROCKSDB | {f"{_STATE}.rocksdb.formatVersion": "3"}),
    Shape("rocksdb1-join", "join", (3, 2), _ROCKSDB),
    Shape("rocksdb1-chain", "chain", (3, 2), _ROCKSDB),
    Shape("rocksdb1-windows-twice", "windows-twice", (3, 4), _ROCKSDB),
    Shape("rocksdb1-changelog", "counts", (3, 5), _ROCKSDB | _CHANGELOG, files=LONG, core=True),
    Shape("rocksdb1-snapshots", "counts", (3, 5), _ROCKSDB | _CHANGELOG | _EVERY_SNAPSHOT, files=LONG, more=_SNAPSHOTS),
    Shape("rocksdb1-changelog-zstd", "counts", (3, 5), _ROCKSDB | _CHANGELOG | {_CODEC: "zstd"}),
    # RocksDB, checkpoint format 2.
    Shape("rocksdb2", "counts", (4, 0), _ROCKSDB | _FORMAT_2, files=LONG, core=True),
    Shape("rocksdb2-changelog", "counts", (4, 0), _ROCKSDB | _FORMAT_2 | _CHANGELOG, files=LONG, core=True),
    Shape(
        "rocksdb2-snapshots",
        "counts",
        (4, 0),
        _ROCKSDB | _FORMAT_2 | _CHANGELOG | _EVERY_SNAPSHOT,
        files=LONG,
        more=_SNAPSHOTS,
    ),
    Shape("rocksdb2-join", "join", (4, 0), _ROCKSDB | _FORMAT_2),
    Shape("rocksdb2-chain", "chain", (4, 0), _ROCKSDB | _FORMAT_2),
    Shape("rocksdb2-windows-twice", "windows-twice", (4, 0), _ROCKSDB | _FORMAT_2 | _CHANGELOG),
    # Column families: the four stores of a join in one, with operator metadata of version 2.
    Shape("rocksdb1-join-v3", "join", (4, 1), _ROCKSDB | _CHANGELOG | {f"{_STREAMING}.join.stateFormatVersion": "3"}),
    Shape("rocksdb2-join-v3", "join", (4, 1), _ROCKSDB | _FORMAT_2 | {f"{_STREAMING}.join.stateFormatVersion": "3"}),
    Shape("rocksdb1-processor", "processor", (4, 0), _ROCKSDB | _CHANGELOG),
    Shape("rocksdb2-processor", "processor", (4, 0), _ROCKSDB | _FORMAT_2),
    Shape("rocksdb2-row-checksum", "counts", (4, 2), _ROCKSDB | _FORMAT_2 | {f"{_STATE}.rowChecksum.enabled": "true"}),
    Shape("repartitioned", "counts", (4, 2), _ROCKSDB | _FORMAT_2, more={"repartition": 3}),
)
BY_NAME = {shape.name: shape for shape in SHAPES}


def truth(shape: Shape) -> list[dict[str, Any]]:
    """Return the rows that *shape* has to say after one file more, sorted, computed without Spark."""
    return truth_of(shape, range(shape.files), [NEXT_FILE])


def truth_of(shape: Shape, old: Iterable[int], new: Iterable[int]) -> list[dict[str, Any]]:
    """Return the rows that *shape* has to say, sorted, when it reads the files *new* after the files *old*."""
    return sorted(_TRUTH[shape.kind](_rows(old), _rows(new)), key=str)


def _rows(numbers: Iterable[int]) -> list[Any]:
    return [row for number in numbers for row in rows_of(number)]


def _counts(rows: list[Any]) -> list[dict[str, Any]]:
    return [{"key": key, "count": count} for key, count in Counter(rows).items()]


def _windows(old: list[Any], new: list[Any], length: int) -> list[dict[str, Any]]:
    """Return the windows that the one new file closes: its last value moves the watermark to a second before it."""
    counts = Counter(row["value"] // length * length for row in old + new)
    before, after = (max(row["value"] for row in rows) - 1 for rows in (old, new))
    return [{"key": at, "count": count} for at, count in counts.items() if before < at + length <= after]


def _sessions(old: list[Any], new: list[Any]) -> list[dict[str, Any]]:
    last = [row["value"] for row in old if row["value"] // 10 == max(row["value"] for row in old) // 10]
    return [{"key": min(last), "count": len(last)}]


_TRUTH: dict[str, Any] = {
    "stateless": lambda _old, new: new,
    "processor": lambda old, new: [
        row for row in _counts([row["key"] for row in old + new]) if row["key"] in {new_row["key"] for new_row in new}
    ],
    "counts": lambda old, new: _counts([row["key"] for row in old + new]),
    "chain": lambda old, new: _counts([row["key"] for row in old + new]),
    "global": lambda old, new: [{"count": len(old + new)}],
    "dedup": lambda _old, _new: [],
    "dedup-within": lambda _old, new: [row for row in new if row["value"] < NEXT_FILE * 10 + 4],
    "join": lambda old, new: [
        {"key": a["key"], "value": a["value"], "other": b["value"]}
        for a in old + new
        for b in old + new
        if a["key"] == b["key"] and (a in new or b in new)
    ],
    "limit": lambda old, new: new[: 20 - len(old)],
    "windows": lambda old, new: _windows(old, new, 10),
    "windows-twice": lambda old, new: _windows(old, new, 20),
    "sessions": _sessions,
    "continuous": lambda _old, _new: [{"key": "went on", "count": 1}],
    "async": lambda _old, _new: [{"key": "went on", "count": 1}],
}
