"""Conf and times pinned by an entry of the offset log, and the values that a release cannot read.

A start sets all pinned confs of its release in the session, and a value of the wrong kind ends it
(``OffsetSeqMetadata.setSessionConf``, ``SQLConf``: 3.2 to 4.3). A release reads only the confs it pins.

Invariant: only the newest planned entry is read this way. Older ones no longer pin a conf.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.format.releases import Release


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
    :param accepts: Whether a release accepts a value.
    :param expected: Accepted values, as a clause.
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
