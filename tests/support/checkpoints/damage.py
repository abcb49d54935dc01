"""Damage to real checkpoints, and what Spark 4.2.0 does with each: the table that verification is measured by.

Every line was run: ``tests/integration/checkpoints/test_verdicts_against_spark.py`` starts Spark on each of them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Damage:
    """One damage.

    :param name: Unique within its shape.
    :param apply: Does it to a copy.
    :param startable: Whether Spark 4.2.0 goes on with the right counts.
    :param code: A finding that must be there; ``None`` when there must be none.
    """

    shape: str
    name: str
    apply: Callable[[Path], None]
    startable: bool
    code: str | None

    @property
    def id(self) -> str:
        """Name of the test case."""
        return f"{self.shape}-{self.name}"


def one(directory: Path, pattern: str) -> Path:
    """Return the only path below *directory* that matches *pattern*."""
    (found,) = [path for path in directory.glob(pattern) if not path.name.startswith(".")]
    return found


def append(pattern: str) -> Callable[[Path], None]:
    """Put something behind the end of a file."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        path.write_bytes(path.read_bytes() + b"garbage" * 5)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return apply


def flip(pattern: str, at: int) -> Callable[[Path], None]:
    """Flip a byte of a file, and drop the hidden checksum that would tell."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        content = bytearray(path.read_bytes())
        content[at] ^= 0xFF
        path.write_bytes(content)
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return apply


def newest_sst(checkpoint: Path) -> Path:
    """Return the newest table file of partition 0."""
    return max((checkpoint / "state/0/0/SSTs").glob("*.sst"), key=lambda path: path.name)


def remove(pattern: str) -> Callable[[Path], None]:
    """Remove a file or directory, and its hidden checksum."""

    def apply(checkpoint: Path) -> None:
        hidden_too = Path(pattern).name.startswith(".")
        for path in [path for path in checkpoint.glob(pattern) if hidden_too or not path.name.startswith(".")]:
            hidden = path.parent / f".{path.name}.crc"
            hidden.unlink(missing_ok=True)
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return apply


def empty(pattern: str) -> Callable[[Path], None]:
    """Cut a file to nothing."""

    def apply(checkpoint: Path) -> None:
        one(checkpoint, pattern).write_bytes(b"")

    return apply


def halve(pattern: str) -> Callable[[Path], None]:
    """Cut a file in half, and drop the hidden checksum that would tell."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return apply


def cut(pattern: str, count: int) -> Callable[[Path], None]:
    """Cut the last *count* bytes off a file."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        path.write_bytes(path.read_bytes()[:-count])
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return apply


def cut_line(pattern: str) -> Callable[[Path], None]:
    """Cut the last line off a log entry: what is left is a whole entry to look at."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        path.write_text("\n".join(path.read_text().rstrip("\n").split("\n")[:-1]))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return apply


def replace(pattern: str, old: bytes, new: bytes) -> Callable[[Path], None]:
    """Replace bytes in a file; its checksums stay as they were."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        content = path.read_bytes()
        assert old in content
        path.write_bytes(content.replace(old, new, 1))

    return apply


def flip_sst(checkpoint: Path) -> None:
    """Flip a byte in the newest table file."""
    path = newest_sst(checkpoint)
    content = bytearray(path.read_bytes())
    content[20] ^= 0xFF
    path.write_bytes(content)


def flip_sst_unseen(checkpoint: Path) -> None:
    """Flip a byte of the rows in the newest table file, and drop the hidden checksum that would tell at once."""
    flip_sst(checkpoint)
    path = newest_sst(checkpoint)
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def wrong_spark_crc(pattern: str) -> Callable[[Path], None]:
    """Let Spark's checksum file name another sum."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        content = json.loads(path.read_text())
        path.write_text(json.dumps(content | {"value": content["value"] ^ 1}))
        (path.parent / f".{path.name}.crc").unlink(missing_ok=True)

    return apply


def stale_hidden_crc(pattern: str) -> Callable[[Path], None]:
    """Let Hadoop's hidden checksum file name another sum."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        hidden = path.parent / f".{path.name}.crc"
        content = bytearray(hidden.read_bytes())
        content[-1] ^= 0xFF
        hidden.write_bytes(content)

    return apply


def stale_newest_sst(checkpoint: Path) -> None:
    """Let the hidden checksum file of the newest table name another sum."""
    stale_hidden_crc(str(newest_sst(checkpoint).relative_to(checkpoint)))(checkpoint)


def as_directory(pattern: str) -> Callable[[Path], None]:
    """Put a directory in the place of a file."""

    def apply(checkpoint: Path) -> None:
        path = one(checkpoint, pattern)
        path.unlink()
        path.mkdir()

    return apply


def remove_each(pattern: str) -> Callable[[Path], None]:
    """Remove every file of that name."""

    def apply(checkpoint: Path) -> None:
        for path in sorted(checkpoint.glob(pattern)):
            remove(str(path.relative_to(checkpoint)))(checkpoint)

    return apply


def both(*damages: Callable[[Path], None]) -> Callable[[Path], None]:
    """Do several damages."""

    def apply(checkpoint: Path) -> None:
        for damage in damages:
            damage(checkpoint)

    return apply


def leave_crc(pattern: str, name: str) -> Callable[[Path], None]:
    """Put the hidden checksum of one file where the one of *name* belongs, which is not there."""

    def apply(checkpoint: Path) -> None:
        path, left = one(checkpoint, pattern), checkpoint / name
        assert not left.exists()
        shutil.copy(path.parent / f".{path.name}.crc", left.parent / f".{left.name}.crc")

    return apply


def nothing(_checkpoint: Path) -> None:
    """Leave it as it is."""


def starts(shape: str, name: str, apply: Callable[[Path], None], code: str | None = None) -> Damage:
    """Spark goes on with the right counts, whether or not there is something to report."""
    return Damage(shape, name, apply, startable=True, code=code)


def fails(shape: str, name: str, apply: Callable[[Path], None], code: str) -> Damage:
    """Spark does not start, or goes on with wrong counts."""
    return Damage(shape, name, apply, startable=False, code=code)


STATEFUL = ("hdfs", "rocksdb1", "rocksdb1-changelog", "rocksdb2", "rocksdb2-changelog")
ALL = (*STATEFUL, "rocksdb2-join", "hdfs-zstd", "hdfs-snappy", "hdfs-global", "stateless")
last_commit_lost = remove("commits/8")
partitions_changed = both(
    replace("offsets/8", b'shuffle.partitions":"2"', b'shuffle.partitions":"3"'), remove("offsets/.8.crc")
)

DAMAGES: tuple[Damage, ...] = (
    *(starts(shape, "none", nothing) for shape in ALL),
    # A batch in flight: the most ordinary state after a kill.
    *(starts(shape, "in-flight", last_commit_lost) for shape in (*STATEFUL, "stateless")),
    # Logs.
    fails("rocksdb2", "metadata-removed", remove("metadata"), "METADATA_MISSING"),
    fails("stateless", "metadata-empty", empty("metadata"), "METADATA_CORRUPT"),
    fails("rocksdb2", "offsets-last-empty", empty("offsets/8"), "OFFSETS_CORRUPT"),
    fails("rocksdb2", "offsets-last-cut", cut_line("offsets/8"), "OFFSETS_CORRUPT"),
    fails("rocksdb2", "offsets-before-last-removed", remove("offsets/7"), "OFFSETS_MISSING"),
    starts("rocksdb2", "offsets-old-empty", empty("offsets/3"), "OFFSETS_CORRUPT"),
    fails("rocksdb2", "commits-last-empty", empty("commits/8"), "COMMITS_CORRUPT"),
    fails("rocksdb2", "commits-last-cut", cut_line("commits/8"), "COMMITS_CORRUPT"),
    starts("hdfs", "commits-last-cut", cut_line("commits/8"), "COMMITS_CORRUPT"),
    starts("rocksdb2", "commits-old-empty", empty("commits/3"), "COMMITS_CORRUPT"),
    fails("stateless", "commits-ahead", remove("offsets/8"), "COMMITS_AHEAD"),
    fails("rocksdb2", "two-commits-lost", remove("commits/[78]"), "COMMITS_BEHIND"),
    starts("rocksdb1", "two-commits-lost", remove("commits/[78]"), "COMMITS_BEHIND"),
    starts("hdfs", "two-commits-lost", remove("commits/[78]"), "COMMITS_BEHIND"),
    starts("hdfs", "commits-removed", remove("commits"), "COMMITS_BEHIND"),
    fails("rocksdb2", "commits-removed", remove("commits"), "COMMITS_BEHIND"),
    fails("hdfs", "offsets-removed", remove("offsets"), "OFFSETS_MISSING"),
    # The file source's log: Spark notices none of these by itself.
    fails("rocksdb2", "source-last-removed", remove("sources/0/8"), "SOURCE_LOG_MISSING"),
    fails("rocksdb2", "source-last-empty", empty("sources/0/8"), "SOURCE_LOG_CORRUPT"),
    fails("hdfs", "source-compact-removed", remove("sources/0/7.compact"), "SOURCE_LOG_MISSING"),
    fails("hdfs", "source-compact-cut", cut_line("sources/0/7.compact"), "SOURCE_LOG_CORRUPT"),
    fails("hdfs", "source-path-changed", replace("sources/0/7.compact", b"/003", b"/0x"), "SOURCE_LOG_CORRUPT"),
    fails("hdfs", "offset-changed", replace("offsets/8", b'"logOffset":8', b'"logOffset":7'), "OFFSETS_CORRUPT"),
    fails("rocksdb2", "partitions-changed", partitions_changed, "STATE_CORRUPT"),
    fails("hdfs", "partitions-changed", partitions_changed, "STATE_MISSING"),
    fails("rocksdb2", "unfinished-repartition", both(last_commit_lost, partitions_changed), "REPARTITION_UNFINISHED"),
    starts("hdfs", "offsets-stale-crc", stale_hidden_crc("offsets/8")),
    starts("hdfs", "source-stale-crc", stale_hidden_crc("sources/0/7.compact")),
    # Hidden checksums where Spark will write: it dies at the name of a log entry's, and writes over a state file's.
    fails("hdfs", "offsets-crc-left", leave_crc("offsets/8", "offsets/9"), "CHECKSUM_LEFT"),
    fails("stateless", "commits-crc-left", leave_crc("commits/8", "commits/9"), "CHECKSUM_LEFT"),
    fails("hdfs", "source-crc-left", leave_crc("sources/0/8", "sources/0/9"), "CHECKSUM_LEFT"),
    fails("rocksdb2", "commit-removed-alone", lambda c: (c / "commits/8").unlink(), "CHECKSUM_LEFT"),
    starts("stateless", "offsets-crc-left-later", leave_crc("offsets/8", "offsets/20"), "CHECKSUM_LEFT"),
    starts("hdfs", "offsets-old-removed-alone", lambda c: (c / "offsets/3").unlink()),
    starts("hdfs", "delta-crc-left", leave_crc("state/0/0/9.delta", "state/0/0/10.delta")),
    starts("rocksdb1", "zip-crc-left", leave_crc("state/0/0/9.zip", "state/0/0/10.zip")),
    # HDFS state.
    fails("hdfs", "delta-removed", remove("state/0/0/9.delta"), "STATE_MISSING"),
    fails("hdfs", "delta-half", halve("state/0/0/9.delta"), "STATE_CORRUPT"),
    fails("hdfs", "delta-empty", empty("state/0/0/9.delta"), "STATE_CORRUPT"),
    fails("hdfs", "delta-directory", as_directory("state/0/0/9.delta"), "STATE_CORRUPT"),
    starts("hdfs", "delta-cut-in-end-mark", cut("state/0/0/9.delta", 5)),
    starts("hdfs", "delta-stale-crc", stale_hidden_crc("state/0/0/9.delta")),
    starts("hdfs", "snapshot-half", halve("state/0/0/8.snapshot"), "STATE_FALLBACK"),
    starts("hdfs", "snapshot-empty", empty("state/0/0/8.snapshot"), "STATE_FALLBACK"),
    fails("hdfs", "delta-flipped", replace("state/0/0/9.delta", b"k", b"x"), "STATE_CORRUPT"),
    fails("hdfs", "partition-removed", remove("state/0/1"), "STATE_MISSING"),
    starts("hdfs", "schema-removed", remove("state/0/0/_metadata/schema")),
    fails("hdfs", "schema-empty", empty("state/0/0/_metadata/schema"), "STATE_METADATA_CORRUPT"),
    starts("hdfs", "operator-metadata-removed", remove("state/0/_metadata/metadata"), "STATE_METADATA_CORRUPT"),
    starts("hdfs", "operator-metadata-empty", empty("state/0/_metadata/metadata"), "STATE_METADATA_CORRUPT"),
    fails("hdfs-zstd", "delta-half", halve("state/0/0/3.delta"), "STATE_CORRUPT"),
    fails("hdfs-snappy", "delta-half", halve("state/0/0/3.delta"), "STATE_CORRUPT"),
    fails("hdfs-global", "delta-removed", remove("state/0/0/3.delta"), "STATE_MISSING"),
    fails("hdfs", "state-emptied", remove("state/0"), "STATE_MISSING"),
    fails("hdfs", "snapshot-directory", as_directory("state/0/0/8.snapshot"), "STATE_CORRUPT"),
    starts("hdfs", "delta-longer", append("state/0/0/9.delta")),
    starts("hdfs-zstd", "delta-cut-in-end-mark", cut("state/0/0/3.delta", 3)),
    starts("hdfs-zstd", "delta-longer", append("state/0/0/3.delta")),
    starts("hdfs-snappy", "delta-longer", append("state/0/0/3.delta")),
    fails("hdfs-snappy", "delta-cut", cut("state/0/0/3.delta", 1), "STATE_CORRUPT"),
    # RocksDB without changelog. Spark reads zips from their beginning and does not need their end.
    starts("rocksdb1", "zip-without-directory", cut("state/0/0/9.zip", 200)),
    fails("rocksdb1", "zip-flipped", flip("state/0/0/9.zip", 300), "STATE_CORRUPT"),
    fails("rocksdb1", "zip-removed", remove("state/0/0/9.zip"), "STATE_MISSING"),
    fails("rocksdb1", "zip-half", halve("state/0/0/9.zip"), "STATE_CORRUPT"),
    fails("rocksdb1", "zip-stale-crc", stale_hidden_crc("state/0/0/9.zip"), "CHECKSUM_MISMATCH"),
    fails("rocksdb2", "zip-half", halve("state/0/0/9_*.zip"), "STATE_CORRUPT"),
    fails("rocksdb2", "zip-removed", remove("state/0/0/9_*.zip"), "STATE_MISSING"),
    fails("rocksdb2", "sst-removed", lambda c: newest_sst(c).unlink(), "STATE_MISSING"),
    fails("rocksdb2", "sst-flipped", flip_sst, "STATE_CORRUPT"),
    fails("rocksdb2", "zip-crc-wrong", wrong_spark_crc("state/0/0/9_*.zip.crc"), "CHECKSUM_MISMATCH"),
    starts("rocksdb2", "zip-crc-removed", remove("state/0/0/9_*.zip.crc")),
    fails("rocksdb2", "zip-crc-empty", empty("state/0/0/9_*.zip.crc"), "CHECKSUM_MISMATCH"),
    starts("rocksdb2", "zip-stale-crc", stale_hidden_crc("state/0/0/9_*.zip")),
    fails("rocksdb2", "state-removed", remove("state/0"), "STATE_MISSING"),
    fails("rocksdb2", "partition-removed", remove("state/0/1"), "STATE_MISSING"),
    fails("rocksdb2-join", "one-store-removed", remove("state/0/1/right-keyToNumValues"), "STATE_MISSING"),
    # RocksDB with changelog: the zip of the newest version has changelogs behind it.
    starts("rocksdb1-changelog", "zip-half", halve("state/0/0/9.zip"), "STATE_FALLBACK"),
    starts("rocksdb1-changelog", "zip-empty", empty("state/0/0/9.zip"), "STATE_FALLBACK"),
    starts("rocksdb1-changelog", "zip-removed", remove("state/0/0/9.zip")),
    starts("rocksdb1-changelog", "sst-removed", lambda c: newest_sst(c).unlink(), "STATE_FALLBACK"),
    starts("rocksdb1-changelog", "sst-flipped", flip_sst, "STATE_FALLBACK"),
    fails("rocksdb1-changelog", "sst-flipped-unseen", flip_sst_unseen, "STATE_CORRUPT"),
    starts("rocksdb1-changelog", "sst-stale-crc", stale_newest_sst, "CHECKSUM_MISMATCH"),
    starts("rocksdb1-changelog", "changelog-removed", remove("state/0/0/9.changelog")),
    fails(
        "rocksdb1-changelog",
        "zip-removed-changelog-half",
        both(remove("state/0/0/9.zip"), halve("state/0/0/9.changelog")),
        "STATE_CORRUPT",
    ),
    starts("rocksdb2-changelog", "zip-half", halve("state/0/0/9_*.zip"), "STATE_FALLBACK"),
    starts("rocksdb2-changelog", "zip-empty", empty("state/0/0/9_*.zip"), "STATE_FALLBACK"),
    starts("rocksdb2-changelog", "zip-removed", remove("state/0/0/9_*.zip")),
    starts("rocksdb2-changelog", "sst-removed", lambda c: newest_sst(c).unlink(), "STATE_FALLBACK"),
    fails("rocksdb2-changelog", "sst-flipped-unseen", flip_sst_unseen, "STATE_CORRUPT"),
    starts("rocksdb2-changelog", "changelog-removed", remove("state/0/0/9_*.changelog")),
    # The changelogs behind the newest zip know the versions back to 6 only; that of version 6 knows those below it.
    starts(
        "rocksdb2-changelog",
        "zip-removed-base-half",
        both(remove("state/0/0/9_*.zip"), halve("state/0/0/6_*.zip")),
        "STATE_FALLBACK",
    ),
    starts(
        "rocksdb2-changelog",
        "zip-and-base-removed",
        both(remove("state/0/0/9_*.zip"), remove("state/0/0/6_*.zip")),
        "STATE_FALLBACK",
    ),
    # Without any zip the changelogs are the first way that is tried, and those behind the lineage are not found.
    fails("rocksdb2-changelog", "every-zip-removed", remove_each("state/0/0/[369]_*.zip"), "STATE_MISSING"),
    fails(
        "rocksdb2-changelog",
        "zip-and-old-changelog-removed",
        both(remove("state/0/0/9_*.zip"), remove("state/0/0/8_*.changelog")),
        "STATE_MISSING",
    ),
)
