"""Verifying the file sources' logs: the damage that Spark does not see.

Invariant: a log that is short of one line is refused. Spark would start from it without an error, and read old input
again or never read new input (spark-facts section 7).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from airflow_provider_ha.checkpoints.format import files
from airflow_provider_ha.checkpoints.format.closure import source_log
from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT, CompactibleLog
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry
from airflow_provider_ha.checkpoints.format.tree import Directory
from airflow_provider_ha.checkpoints.verification.codes import Code
from airflow_provider_ha.checkpoints.verification.findings import Finding
from airflow_provider_ha.checkpoints.verification.report import Findings, Reason
from airflow_provider_ha.checkpoints.verification.source_entries import SourceEntries
from airflow_provider_ha.errors import CheckpointCorruptError


_EXPECTED = "an entry that names the input files of every log offset from the last compact entry on"


def check_sources(directory: Directory, offsets: OffsetsEntry, findings: Findings, known: SourceEntries) -> None:
    """Report what is wrong with the logs that a query needs whose newest planned batch is that of *offsets*."""
    # Spark also reads what lies beyond the offset: files that it listed, and planned no batch for.
    for bad in _problems(directory, offsets, known, beyond=True):
        findings.add(Finding(bad.code, bad.path, offsets.batch, bad.found, _EXPECTED, blocks=True))


def source_lacks(directory: Directory, offsets: OffsetsEntry, known: SourceEntries) -> list[Reason]:
    """Return why the source logs cannot be cut at *offsets*; nothing when all up to it is there and whole."""
    return list(_problems(directory, offsets, known, beyond=False))


def _problems(directory: Directory, offsets: OffsetsEntry, known: SourceEntries, *, beyond: bool) -> Iterator[Reason]:
    for log, entry in _file_sources(directory, offsets):
        try:
            check_log(directory, log, entry, last=max(entry, log.last()) if beyond else entry, known=known)
        except CheckpointCorruptError as error:  # noqa: PERF203  # each source for itself
            code = Code.SOURCE_LOG_MISSING if isinstance(error, files.FileGoneError) else Code.SOURCE_LOG_CORRUPT
            yield Reason(code, error.path, error.reason)


def check_log(directory: Directory, log: CompactibleLog, entry: int, *, last: int, known: SourceEntries) -> None:
    """Look into every entry that is needed to know all files up to *entry*, and those after it up to *last*.

    :param known: What was looked into before is not read again; what is looked into now is added.
    :raises CheckpointCorruptError: One is missing, cannot be read, or is not whole.
    """
    needed = {int(Path(path).name.removesuffix(COMPACT)) for path in log.closure(entry)}
    for number in sorted(needed | {beyond for beyond in log.entries if entry < beyond <= last}):
        error = known.damage(directory, log, number)
        if error is not None:
            raise error


def _file_sources(directory: Directory, offsets: OffsetsEntry) -> Iterator[tuple[CompactibleLog, int]]:
    for position in range(len(offsets.offsets)):
        entry = offsets.log_offset(position)
        if entry is not None and entry >= 0:
            yield CompactibleLog(directory, source_log(directory, offsets, position)), entry
