"""Differences between Spark releases: behaviour on damaged checkpoints, and the pinned conf that they can read.

Invariant: each difference was observed by starting that release on a damaged copy. An untested release is judged as
the nearest older tested one.

A start sets all pinned confs of its release in the session, and a value of the wrong kind ends it
(``OffsetSeqMetadata.setSessionConf``, ``SQLConf``: 3.2 to 4.3). A release reads only the confs it pins.

Invariant: only the newest planned entry is read this way. Older ones no longer pin a conf.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.errors import ConfigurationError


_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)?\S*")
# Judged when no Spark is installed and none was named.
_DEFAULT = "4.2.0"


@dataclass(frozen=True, slots=True)
class Release:
    """A Spark release's treatment of damage.

    :param version: ``(major, minor)``.
    """

    version: tuple[int, int]

    @property
    def needs_query_id(self) -> bool:
        """Return whether a missing ``metadata`` is refused (SPARK-55058); older releases make a new query id."""
        return self.version >= (4, 2)

    def inner_version(self, *, by_id: bool) -> str:
        """Return the version of the metadata in a zip that is read; any other one is refused.

        ``RocksDBCheckpointMetadata.VERSION`` is 1, but in 4.0 it is the checkpoint format of the first query of a JVM
        that uses RocksDB. A zip of version 1 in format 2 is of a JVM that began with a query of format 1; only such a
        JVM reads it, and only another one reads version 2.
        """
        return "v2" if by_id and self.version == (4, 0) else "v1"

    @property
    def knows_changelogs(self) -> bool:
        """Return whether a RocksDB store is loaded from an older zip and the changelogs since; 3.4 knows only zips."""
        return self.version >= (3, 5)

    @property
    def reads_version_of_changelogs(self) -> bool:
        """Return whether a changelog is assumed to begin with its version, as a text with its length first."""
        return self.version >= (4, 0)

    @property
    def newest_join_format(self) -> int:
        """The newest format of a join's state: 3 since 4.1, 4 since 4.2 (``SQLConf``)."""
        return 4 if self.version >= (4, 2) else 3 if self.version >= (4, 1) else 2

    @property
    def falls_back(self) -> bool:
        """Return whether a store whose newest snapshot is bad is loaded from an older one and the changes since."""
        return self.version >= (4, 2)

    @property
    def skips_directories(self) -> bool:
        """Return whether a directory as a snapshot is ignored: 3.3, 3.5 and 4.1 continue, 4.2 and 4.3 fail."""
        return self.version < (4, 2)

    @property
    def refuses_unfinished_repartition(self) -> bool:
        """Return whether a repartition that was begun and not committed is refused."""
        return self.version >= (4, 2)

    @property
    def accepts_empty_spark_crc(self) -> bool:
        """Return whether an empty checksum file counts as none."""
        return self.version == (4, 1)

    def checks_hadoop_crc_of_zip(self, *, by_id: bool) -> bool:
        """Return whether a RocksDB zip is compared with its hidden checksum: 4.1 in both formats, 4.2 only in format 1.

        :param by_id: Whether the zip belongs to checkpoint format 2.
        """
        return not by_id or self.version < (4, 2)

    def checks_spark_crc(self, *, by_id: bool, of_zip: bool) -> bool:
        """Return whether Spark's visible checksum files are enforced.

        :param by_id: Whether the file belongs to checkpoint format 2: since 4.2 other files are not checked.
        :param of_zip: Whether it is a RocksDB zip: 4.1 stops reading before its end, and does not compare.
        """
        return (self.version == (4, 1) and not of_zip) or (by_id and self.version >= (4, 2))


def release(version: str | None) -> Release:
    """Return the release of *version*.

    :param version: As ``4.2.0``; ``None`` for the installed pyspark.
    :raises ConfigurationError: It is not a version of Spark.
    """
    match = _VERSION.fullmatch(version or installed_version())
    if not match:
        raise ConfigurationError(f"{version!r} is not a version of Spark", next_step="Write it as 4.2.0")
    return Release((int(match[1]), int(match[2])))


def installed_version() -> str:
    """Return the version of the installed pyspark, read without importing it; the default without pyspark."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return _DEFAULT


SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
CODEC = "spark.sql.streaming.stateStore.compression.codec"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_TIMES = ("batchWatermarkMs", "batchTimestampMs")
_STREAMING = "spark.sql.streaming"
_INT = re.compile(r"[+-]?[0-9]{1,10}")
_LARGEST = (1 << 31) - 1
_CODECS = frozenset({"lz4", "lzf", "snappy", "zstd"})
_NOT_READ = "cannot be read by this release"


@dataclass(frozen=True, slots=True)
class _Pinned:
    """A pinned conf.

    :param since: First release, (major, minor), that reads it.
    """

    since: tuple[int, int]
    accepts: Callable[[str, Release], bool]
    expected: str


def time_refusals(metadata: Mapping[str, Any]) -> Iterator[str]:
    """Yield, as clauses, the times of the newest planned batch that every release refuses."""
    for time in _TIMES:
        value = metadata.get(time)
        if value is not None and not isinstance(value, int | float):
            yield f"its {time} is {value!r}, which is no number"


def conf_refusals(metadata: Mapping[str, Any], release: Release) -> Iterator[str]:
    """Yield, as clauses, what *release* cannot read of the conf that the newest planned batch pins."""
    conf = metadata.get("conf")
    if conf is None:
        return
    if not isinstance(conf, dict):
        yield "its conf is no JSON object"
        return
    for key, value in conf.items():
        if isinstance(value, dict | list):
            yield f"its {key} is no text"
    for key, pinned in _PINNED.items():
        if key not in conf or pinned.since > release.version or isinstance(conf[key], dict | list):
            continue
        if conf[key] is None or not pinned.accepts(str(conf[key]), release):
            yield f"its {key} is {conf[key]!r}, which {_NOT_READ}: it takes {pinned.expected}"


def is_codec(name: str) -> bool:
    """Return whether Spark can create a codec of this name. Class names pass: any library may have the class."""
    return name.lower() in _CODECS or "." in name


def _number(text: str) -> int | None:
    """Return what Java reads as an ``int``, blanks around it left out; ``None`` for anything else."""
    stripped = text.strip()
    number = int(stripped) if _INT.fullmatch(stripped) else _LARGEST + 1
    return number if -_LARGEST - 1 <= number <= _LARGEST else None


def _at_least(lowest: int) -> Callable[[str, Release], bool]:
    return lambda text, _: (number := _number(text)) is not None and number >= lowest


def _is_boolean(text: str, _: Release) -> bool:
    return text.strip().lower() in {"true", "false"}


def _one_of(*words: str) -> Callable[[str, Release], bool]:
    return lambda text, _: text.lower() in words


def _is_1_or_2(text: str, _: Release) -> bool:
    return _number(text) in {1, 2}


def _is_join_format(text: str, release: Release) -> bool:
    return (_number(text) or 0) in range(1, release.newest_join_format + 1)


_PINNED: Mapping[str, _Pinned] = {
    SHUFFLE_PARTITIONS: _Pinned((2, 2), _at_least(1), "a number above 0"),
    f"{_STREAMING}.multipleWatermarkPolicy": _Pinned((2, 4), _one_of("min", "max"), "min or max"),
    f"{_STREAMING}.flatMapGroupsWithState.stateFormatVersion": _Pinned((2, 4), _is_1_or_2, "1 or 2"),
    f"{_STREAMING}.aggregation.stateFormatVersion": _Pinned((2, 4), _is_1_or_2, "1 or 2"),
    JOIN_FORMAT: _Pinned((3, 0), _is_join_format, "the formats of a join's state that it knows"),
    f"{_STREAMING}.stateStore.rocksdb.formatVersion": _Pinned((3, 2), _at_least(0), "a number from 0"),
    f"{_STREAMING}.statefulOperator.useStrictDistribution": _Pinned((3, 2), _is_boolean, "true or false"),
    "spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan": _Pinned((3, 5), _is_boolean, "true or false"),
    ENCODING: _Pinned((4, 0), _one_of("unsaferow", "avro"), "unsaferow or avro"),
    f"{_STREAMING}.stateStore.rocksdb.mergeOperatorVersion": _Pinned((4, 2), _is_1_or_2, "1 or 2"),
    f"{_STREAMING}.stateStore.rowChecksum.enabled": _Pinned((4, 2), _is_boolean, "true or false"),
    "spark.sql.function.protobufExtensions.enabled": _Pinned((4, 2), _is_boolean, "true or false"),
    f"{_STREAMING}.queryEvolution.enableSourceEvolution": _Pinned((4, 2), _is_boolean, "true or false"),
    "spark.sql.dropDuplicates.deterministicKeyOrder.enabled": _Pinned((4, 3), _is_boolean, "true or false"),
    f"{_STREAMING}.statefulOperator.alwaysNullableOutput.enabled": _Pinned((4, 3), _is_boolean, "true or false"),
}
