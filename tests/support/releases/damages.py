"""Damages for what each release recorded.

What Spark does with them differs by release, so nothing is expected here but what a verification has to report: whether
Spark starts is asked of Spark (``test_releases_against_spark.py``).
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import numbers, progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from tests.support.checkpoints.damage import (
    append,
    as_directory,
    both,
    cut,
    cut_line,
    empty,
    flip,
    halve,
    nothing,
    remove,
    replace,
    stale_hidden_crc,
    wrong_spark_crc,
)


Apply = Callable[[Path], None]
HDFS, ROCKSDB1, ROCKSDB1_LOG = "hdfs", "rocksdb1", "rocksdb1-changelog"
ROCKSDB2, ROCKSDB2_LOG = "rocksdb2", "rocksdb2-changelog"
STORE = "state/0/0"


class NothingToDamageError(Exception):
    """This release wrote no such file."""


@dataclass(frozen=True)
class ReleaseDamage:
    """One damage.

    :param shapes: What it is done to.
    :param code: A finding that must be there; ``None`` where nothing has to be said.
    :param at_once: Whether Spark stumbles over it in its next start, if it ever does.
    """

    name: str
    shapes: tuple[str, ...]
    apply: Apply
    code: str | None = None
    at_once: bool = True


def last(checkpoint: Path) -> int:
    """Return the newest planned batch."""
    return progress(LocalTree(checkpoint)).planned


def log(damage: Callable[[str], Apply], pattern: str, *, back: int = 0) -> Apply:
    """Do *damage* to the entry of the newest batch, or of one so many batches before it."""
    return lambda checkpoint: damage(pattern.format(last(checkpoint) - back))(checkpoint)


def state(damage: Callable[[str], Apply], kind: str, *, hidden: str = "") -> Apply:
    """Do *damage* to the newest file of *kind* in partition 0, of either checkpoint format."""

    def apply(checkpoint: Path) -> None:
        damage(f"{STORE}/{newest(checkpoint, kind)}{hidden}")(checkpoint)

    return apply


def newest(checkpoint: Path, kind: str) -> str:
    """Return the name of the newest file of *kind* (``zip``, ``delta``, …) in partition 0."""
    found = [path for path in (checkpoint / STORE).glob(f"*.{kind}") if path.name[0] != "."]
    if not found:
        raise NothingToDamageError(kind)
    return max(found, key=lambda path: int(path.name.split("_")[0].split(".")[0])).name


def table(damage: Callable[[str], Apply]) -> Apply:
    """Do *damage* to a table file that the newest zip of partition 0 names."""

    def apply(checkpoint: Path) -> None:
        with zipfile.ZipFile(checkpoint / STORE / newest(checkpoint, "zip")) as archive:
            told = json.loads(archive.read("metadata").partition(b"\n")[2])
        damage(f"{STORE}/SSTs/{told['sstFiles'][-1]['dfsSstFileName']}")(checkpoint)

    return apply


def there(damage: Callable[[str], Apply], path: str) -> Apply:
    """Do *damage* to a file that some releases do not write."""

    def apply(checkpoint: Path) -> None:
        if not (checkpoint / path).exists():
            raise NothingToDamageError(path)
        damage(path)(checkpoint)

    return apply


def hidden(damage: Callable[[str], Apply], path: str) -> Apply:
    """Do *damage* to a file by its hidden checksum, which not every release writes for every file."""
    parent, _, own = path.rpartition("/")

    def apply(checkpoint: Path) -> None:
        if not (checkpoint / parent / f".{own}.crc").exists():
            raise NothingToDamageError(path)
        damage(path)(checkpoint)

    return apply


def stale_timeline(checkpoint: Path) -> None:
    """Take the two newest batches out of the logs, and leave their state."""
    for batch in (last(checkpoint), last(checkpoint) - 1):
        remove(f"offsets/{batch}")(checkpoint)
        remove(f"commits/{batch}")(checkpoint)


def more_partitions(checkpoint: Path) -> None:
    """Let the newest batch say that there are more partitions."""
    batch = last(checkpoint)
    replace(f"offsets/{batch}", b'shuffle.partitions":"2"', b'shuffle.partitions":"3"')(checkpoint)
    remove(f"offsets/.{batch}.crc")(checkpoint)


def two_commits_lost(checkpoint: Path) -> None:
    """Remove the two newest commits."""
    for batch in numbers(LocalTree(checkpoint / "commits"))[-2:]:
        remove(f"commits/{batch}")(checkpoint)


LOGS = (HDFS,)
ALL = ("stateless", HDFS, ROCKSDB1, ROCKSDB1_LOG, ROCKSDB2, ROCKSDB2_LOG)
STATEFUL = ALL[1:]
ZIPS = (ROCKSDB1, ROCKSDB1_LOG, ROCKSDB2, ROCKSDB2_LOG)
BY_ID = (ROCKSDB2, ROCKSDB2_LOG)
CHANGELOGS = (ROCKSDB1_LOG, ROCKSDB2_LOG)
in_flight = log(remove, "commits/{}")
state_removed = remove("state")

DAMAGES = (
    ReleaseDamage("none", ALL, nothing),
    ReleaseDamage("in-flight", ALL, in_flight),
    # Logs.
    ReleaseDamage("metadata-removed", LOGS, remove("metadata"), "METADATA_MISSING"),
    ReleaseDamage("metadata-empty", LOGS, empty("metadata"), "METADATA_CORRUPT"),
    ReleaseDamage("offsets-last-empty", LOGS, log(empty, "offsets/{}"), "OFFSETS_CORRUPT"),
    ReleaseDamage("offsets-last-cut", LOGS, log(cut_line, "offsets/{}"), "OFFSETS_CORRUPT"),
    ReleaseDamage("offsets-before-last-removed", LOGS, log(remove, "offsets/{}", back=1), "OFFSETS_MISSING"),
    ReleaseDamage("offsets-old-empty", LOGS, log(empty, "offsets/{}", back=3), "OFFSETS_CORRUPT"),
    ReleaseDamage("offsets-stale-crc", LOGS, log(lambda path: hidden(stale_hidden_crc, path), "offsets/{}")),
    ReleaseDamage("offsets-removed", LOGS, remove("offsets"), "OFFSETS_MISSING"),
    ReleaseDamage("commits-last-empty", LOGS, log(empty, "commits/{}"), "COMMITS_CORRUPT"),
    ReleaseDamage("commits-last-cut", (HDFS, ROCKSDB2), log(cut_line, "commits/{}"), "COMMITS_CORRUPT"),
    ReleaseDamage("commits-ahead", ("stateless", HDFS), log(remove, "offsets/{}"), "COMMITS_AHEAD"),
    ReleaseDamage("commits-two-lost", (HDFS, ROCKSDB1, ROCKSDB2), two_commits_lost, "COMMITS_BEHIND"),
    ReleaseDamage("commits-removed", ("stateless", HDFS, ROCKSDB2), remove("commits"), "COMMITS_BEHIND"),
    ReleaseDamage("source-last-removed", LOGS, log(remove, "sources/0/{}"), "SOURCE_LOG_MISSING"),
    ReleaseDamage("source-last-empty", LOGS, log(empty, "sources/0/{}"), "SOURCE_LOG_CORRUPT"),
    ReleaseDamage("source-compact-removed", LOGS, remove("sources/0/3.compact"), "SOURCE_LOG_MISSING"),
    ReleaseDamage("source-compact-cut", LOGS, cut_line("sources/0/3.compact"), "SOURCE_LOG_CORRUPT"),
    ReleaseDamage("source-path-changed", LOGS, replace("sources/0/3.compact", b"/001", b"/0x"), "SOURCE_LOG_CORRUPT"),
    ReleaseDamage("source-stale-crc", LOGS, hidden(stale_hidden_crc, "sources/0/3.compact")),
    ReleaseDamage("partitions-changed", (HDFS, ROCKSDB1), more_partitions, "STATE_MISSING"),
    ReleaseDamage("repartition", (HDFS, ROCKSDB2), both(in_flight, more_partitions), "REPARTITION_UNFINISHED"),
    # State of any kind.
    ReleaseDamage("state-emptied", (HDFS, ROCKSDB1), remove("state/0"), "STATE_MISSING"),
    ReleaseDamage("partition-removed", (HDFS, ROCKSDB1, ROCKSDB2), remove("state/0/1"), "STATE_MISSING"),
    # A stale snapshot is read a few starts later: the next one overwrites what it reads, and may end right.
    ReleaseDamage("stale-timeline", (HDFS, ROCKSDB1), stale_timeline, "STATE_STALE", at_once=False),
    ReleaseDamage("schema-removed", (HDFS, ROCKSDB1), there(remove, f"{STORE}/_metadata/schema")),
    ReleaseDamage("schema-empty", LOGS, there(empty, f"{STORE}/_metadata/schema"), "STATE_METADATA_CORRUPT"),
    ReleaseDamage("operator-metadata-removed", LOGS, there(remove, "state/0/_metadata/metadata")),
    ReleaseDamage("operator-metadata-empty", LOGS, there(empty, "state/0/_metadata/metadata")),
    # HDFS-backed state.
    ReleaseDamage("delta-removed", LOGS, state(remove, "delta"), "STATE_MISSING"),
    ReleaseDamage("delta-half", LOGS, state(halve, "delta"), "STATE_CORRUPT"),
    ReleaseDamage("delta-empty", LOGS, state(empty, "delta"), "STATE_CORRUPT"),
    ReleaseDamage("delta-directory", LOGS, state(as_directory, "delta"), "STATE_CORRUPT"),
    ReleaseDamage("delta-flipped", LOGS, state(lambda path: flip(path, 30), "delta"), "STATE_CORRUPT"),
    ReleaseDamage("delta-cut-in-end-mark", LOGS, state(lambda path: cut(path, 5), "delta")),
    ReleaseDamage("delta-longer", LOGS, state(append, "delta")),
    ReleaseDamage("delta-stale-crc", LOGS, state(lambda path: hidden(stale_hidden_crc, path), "delta")),
    ReleaseDamage("snapshot-half", LOGS, state(halve, "snapshot"), "STATE_CORRUPT"),
    ReleaseDamage("snapshot-empty", LOGS, state(empty, "snapshot"), "STATE_CORRUPT"),
    ReleaseDamage("snapshot-directory", LOGS, state(as_directory, "snapshot"), "STATE_CORRUPT"),
    ReleaseDamage("snapshot-removed", LOGS, state(remove, "snapshot")),
    # RocksDB.
    ReleaseDamage("zip-half", ZIPS, state(halve, "zip"), "STATE_CORRUPT"),
    ReleaseDamage("zip-empty", ZIPS, state(empty, "zip"), "STATE_CORRUPT"),
    ReleaseDamage("zip-removed", (ROCKSDB1, ROCKSDB2), state(remove, "zip"), "STATE_MISSING"),
    ReleaseDamage("zip-removed", CHANGELOGS, state(remove, "zip")),
    ReleaseDamage("zip-flipped", (ROCKSDB1, ROCKSDB2), state(lambda path: flip(path, 300), "zip"), "STATE_CORRUPT"),
    ReleaseDamage("zip-without-directory", (ROCKSDB1, ROCKSDB2), state(lambda path: cut(path, 200), "zip")),
    ReleaseDamage("zip-stale-crc", (ROCKSDB1, ROCKSDB2), state(stale_hidden_crc, "zip")),
    ReleaseDamage("sst-removed", ZIPS, table(remove), "STATE_MISSING"),
    ReleaseDamage("sst-empty", (ROCKSDB1, ROCKSDB1_LOG, ROCKSDB2), table(empty), "STATE_CORRUPT"),
    ReleaseDamage("sst-flipped", ZIPS, table(lambda path: flip(path, 20)), "STATE_CORRUPT"),
    ReleaseDamage("sst-stale-crc", (ROCKSDB1, ROCKSDB1_LOG, ROCKSDB2), table(stale_hidden_crc), "CHECKSUM_MISMATCH"),
    ReleaseDamage("changelog-removed", CHANGELOGS, state(remove, "changelog")),
    ReleaseDamage("changelog-half", CHANGELOGS, state(halve, "changelog")),
    ReleaseDamage("changelog-empty", CHANGELOGS, state(empty, "changelog")),
    # Spark's own checksums: since 4.1.
    ReleaseDamage("zip-crc-wrong", BY_ID, state(lambda path: there(wrong_spark_crc, path), "zip", hidden=".crc")),
    ReleaseDamage("zip-crc-removed", BY_ID, state(lambda path: there(remove, path), "zip", hidden=".crc")),
    ReleaseDamage("zip-crc-empty", BY_ID, state(lambda path: there(empty, path), "zip", hidden=".crc")),
    ReleaseDamage(
        "changelog-crc-wrong", CHANGELOGS, state(lambda path: there(wrong_spark_crc, path), "changelog", hidden=".crc")
    ),
    ReleaseDamage("delta-crc-wrong", LOGS, state(lambda path: there(wrong_spark_crc, path), "delta", hidden=".crc")),
)
