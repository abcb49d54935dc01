"""Verifying the file sources' logs: the damage that Spark does not see.

Invariant: a log that is short of one line is refused. Spark would start from it without an error, and read old input
again or never read new input (spark-facts section 7).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_ha.checkpoints.format import crc, files
from airflow_provider_ha.checkpoints.format.closure import source_log
from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT, CompactibleLog
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry
from airflow_provider_ha.checkpoints.verification.findings import Code
from airflow_provider_ha.checkpoints.verification.report import Findings
from airflow_provider_ha.errors import CheckpointCorruptError


def check_sources(directory: Path, offsets: OffsetsEntry, findings: Findings) -> None:
    """Report what is wrong with the logs that a query needs whose newest planned batch is that of *offsets*."""
    for log, entry in _file_sources(directory, offsets):
        try:
            # Spark also reads what lies beyond the offset: files that it listed, and planned no batch for.
            check_log(directory, log, entry, last=max(entry, log.last()))
        except CheckpointCorruptError as error:  # noqa: PERF203  # each source for itself
            code = Code.SOURCE_LOG_MISSING if isinstance(error, files.FileGoneError) else Code.SOURCE_LOG_CORRUPT
            findings.add(code, error.path, error.reason, batch=offsets.batch, blocks=True)


def sources_whole(directory: Path, offsets: OffsetsEntry) -> bool:
    """Whether the source logs can be cut at *offsets*: everything up to it is there and whole."""
    try:
        for log, entry in _file_sources(directory, offsets):
            check_log(directory, log, entry, last=entry)
    except CheckpointCorruptError:
        return False
    return True


def check_log(directory: Path, log: CompactibleLog, entry: int, *, last: int) -> None:
    """Look into every entry that is needed to know all files up to *entry*, and those after it up to *last*.

    :raises CheckpointCorruptError: One is missing, cannot be read, or is not whole.
    """
    needed = {int(Path(path).name.removesuffix(COMPACT)) for path in log.closure(entry)}
    for number in sorted(needed | {beyond for beyond in log.entries if entry < beyond <= last}):
        path = log.path(number)
        found = {json.loads(line).get("batchId", number) for line in log.lines(number)}
        wanted = set(range(number + 1)) if path.endswith(COMPACT) else {number}
        if not wanted <= found:
            # Every entry has files of its own: Spark writes none without. A compact one repeats all before it.
            raise CheckpointCorruptError(path, f"it names no file of log offset {min(wanted - found)}: it is cut")
        check_hidden_sum(directory, path)


def check_hidden_sum(directory: Path, path: str) -> None:
    """Compare an entry of a log with the checksum that Hadoop wrote beside it, when it is there.

    Spark never does: an offset or a path that lost a bit is another one, silently.

    :raises CheckpointCorruptError: The entry was changed after Spark wrote it.
    """
    hidden = f"{Path(path).parent}/.{Path(path).name}.crc"
    if files.exists(directory, hidden) and crc.was_changed(files.read(directory, path), files.read(directory, hidden)):
        raise CheckpointCorruptError(path, "it was changed after Spark wrote it: its hidden checksum does not fit")


def _file_sources(directory: Path, offsets: OffsetsEntry) -> Iterator[tuple[CompactibleLog, int]]:
    for position in range(len(offsets.offsets)):
        entry = offsets.log_offset(position)
        if entry is not None and entry >= 0:
            yield CompactibleLog(directory, source_log(directory, offsets, position)), entry
