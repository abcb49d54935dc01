"""Logs of the file sources of a fork: continued from recorded batches, and compacted where Spark looks for it.

Spark derives the compaction interval of a log from its last two compact entries; from one alone, with the configured
interval; without any, it is the configured one. It reads the newest compact entry that this interval gives, and no
start succeeds without it. Only the session of a query knows the configured interval. So a rebuilt log has plain
entries, and its compact entries are written at the start of its query.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import SOURCES, progress_when_listed
from airflow_provider_ha.checkpoints.spark.closure import source_log
from airflow_provider_ha.checkpoints.spark.files import names
from airflow_provider_ha.checkpoints.spark.metadata_log import COMPACT, CompactibleLog, read_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.errors import CheckpointCorruptError


def write_sources(directory: WritableTree, entries: Iterable[BatchEntry]) -> None:
    """Continue the file sources' logs of a fork up to the last of *entries*, with plain entries.

    The complete log may precede the batches, which are put back one by one: a batch reads only its own range.

    :param directory: A fork that ends before the first entry; its logs are own files, or links that stay unchanged.
    :param entries: Recorded batches, ascending, that follow the fork's last one without a gap.
    :raises CheckpointCorruptError: An entry of a log is not among the records.
    """
    lines: dict[str, dict[int, tuple[str, ...]]] = {}
    wanted: dict[str, int] = {}
    for entry in entries:
        for source, last in entry.log_offsets.items():
            wanted[source] = max(last, wanted.get(source, -1))
            lines.setdefault(source, {}).update(_by_log_offset(entry.sources.get(source, ())))
    for source, last in wanted.items():
        log = CompactibleLog(directory, f"{SOURCES}/{source}")
        for number in range(log.last() + 1, last + 1):
            if number not in lines[source]:
                raise CheckpointCorruptError(f"{SOURCES}/{source}/{number}", "the records do not contain its lines")
            _write(directory, f"{SOURCES}/{source}/{number}", lines[source][number])


def compact_sources(directory: WritableTree, configured: int) -> None:
    """Write the compact entries that Spark will look for in the file sources' logs of a query; repeatable.

    :param directory: The query's own checkpoint, before its start.
    :param configured: The session's ``spark.sql.streaming.fileSource.log.compactInterval``.
    :raises CheckpointCorruptError: An entry of a log is damaged or missing.
    """
    for source in names(directory, SOURCES) if configured > 0 else ():  # Spark refuses 0, in its own words
        log = CompactibleLog(directory, f"{SOURCES}/{source}")
        interval, last = compact_interval(log.compact, configured), log.last()
        newest = log.newest_compact(last)
        missing = [number for number in range(newest + 1, last + 1) if (number + 1) % interval == 0]
        # guard: logs-without-their-compaction
        if missing and _is_of_files(directory, f"{SOURCES}/{source}"):
            lines: list[str] = []
            for number in range(max(newest, 0), missing[-1] + 1):
                lines += log.lines(number)
                if number in missing:
                    _write(directory, f"{SOURCES}/{source}/{number}{COMPACT}", lines)


def compact_interval(compact: Iterable[int], configured: int) -> int:
    """Return the interval that Spark derives from existing compact entries (CompactibleFileStreamLog)."""
    found = sorted(compact)
    if not found:
        return configured
    if len(found) > 1:
        return found[-1] - found[-2]
    length = found[0] + 1
    if configured < length // 2:
        return next((n for n in range(configured, length // 2 + 1) if length % n == 0), length)
    return length


def _is_of_files(directory: Tree, log: str) -> bool:
    """Return whether Spark compacts a log: that of another source is one file with its first offset."""
    planned = progress_when_listed(directory).planned
    if planned < 0:
        return False
    offsets = read_offsets(directory, planned)
    places = range(len(offsets.offsets))
    return any(offsets.log_offset(at) is not None and source_log(directory, offsets, at) == log for at in places)


def _write(directory: WritableTree, path: str, lines: Iterable[str]) -> None:
    directory.write(path, "\n".join(["v1", *lines]).encode())


def _by_log_offset(lines: Iterable[str]) -> dict[int, tuple[str, ...]]:
    grouped: dict[int, list[str]] = {}
    for line in lines:
        grouped.setdefault(int(json.loads(line)["batchId"]), []).append(line)
    return {number: tuple(own) for number, own in grouped.items()}
