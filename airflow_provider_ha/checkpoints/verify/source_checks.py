"""Checks of the file sources' logs for damage that Spark does not notice.

Invariant: a log that lacks a single line is refused. Spark would start from it without an error, and read old input
again or never read new input (spark-facts section 7).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_ha.checkpoints.format.closure import source_log
from airflow_provider_ha.checkpoints.format.compactible_log import COMPACT, CompactibleLog
from airflow_provider_ha.checkpoints.format.metadata_log import OffsetsEntry
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings, Reason
from airflow_provider_ha.checkpoints.verify.source_entries import SourceEntries
from airflow_provider_ha.errors import CheckpointCorruptError


_ENTRY = re.compile(rb"v[1-9]\n.+")
_BEGINNING = "the start of the source as written by Spark: a version line and a number"
_EXPECTED = "an entry that names the input files of every log offset from the last compact entry on"


def check_sources(directory: Tree, offsets: OffsetsEntry, findings: Findings, known: SourceEntries) -> None:
    """Report problems of the source logs for a query whose newest planned entry is *offsets*."""
    # Spark also reads entries beyond the offset: files that it listed before it planned a batch for them.
    for bad in _problems(directory, offsets, known, beyond=True):
        findings.add(Finding(bad.code, bad.path, offsets.batch, bad.found, _EXPECTED, blocks=True))
    for bad in _beginnings_lack(directory, offsets):
        findings.add(Finding(bad.code, bad.path, offsets.batch, bad.found, _BEGINNING, blocks=True))


def source_lacks(directory: Tree, offsets: OffsetsEntry, known: SourceEntries) -> list[Reason]:
    """Return the reasons why the source logs cannot be cut at *offsets*."""
    return [*_problems(directory, offsets, known, beyond=False), *_beginnings_lack(directory, offsets)]


def _problems(directory: Tree, offsets: OffsetsEntry, known: SourceEntries, *, beyond: bool) -> Iterator[Reason]:
    for log, entry in _file_sources(directory, offsets):
        try:
            check_log(directory, log, entry, last=max(entry, log.last()) if beyond else entry, known=known)
        except CheckpointCorruptError as error:  # noqa: PERF203  # continue with the next source
            code = Code.SOURCE_LOG_MISSING if isinstance(error, files.FileGoneError) else Code.SOURCE_LOG_CORRUPT
            yield Reason(code, error.path, error.reason)


def _beginnings_lack(directory: Tree, offsets: OffsetsEntry) -> Iterator[Reason]:
    """Yield problems with the start of a source that counts from one.

    The rate source has integer offsets, and its log records its start time: with another time Spark fails or creates
    other
    rows (``RateStreamMicroBatchStream``; tested on 3.5). Sources without a log have no recorded start.
    """
    for position, value in enumerate(offsets.offsets):
        if value is None or not value.isdigit():
            continue
        log = source_log(directory, offsets, position)
        path = f"{log}/0"
        if not (directory / log).is_directory():
            continue
        if not files.exists(directory, path):
            yield Reason(Code.SOURCE_LOG_MISSING, path, "it is not there")
        elif not _ENTRY.match(files.read(directory, path)):
            yield Reason(Code.SOURCE_LOG_CORRUPT, path, "it is cut or garbled")


def check_log(directory: Tree, log: CompactibleLog, entry: int, *, last: int, known: SourceEntries) -> None:
    """Check all entries needed to know the files up to *entry*, and later ones up to *last*.

    :param known: Entries checked before are not read again; new results are added.
    :raises CheckpointCorruptError: An entry is missing, unreadable or incomplete.
    """
    needed = {int(Path(path).name.removesuffix(COMPACT)) for path in log.closure(entry)}
    for number in sorted(needed | {beyond for beyond in log.entries if entry < beyond <= last}):
        error = known.damage(directory, log, number)
        if error is not None:
            raise error


def _file_sources(directory: Tree, offsets: OffsetsEntry) -> Iterator[tuple[CompactibleLog, int]]:
    for position in range(len(offsets.offsets)):
        entry = offsets.log_offset(position)
        if entry is not None and entry >= 0:
            yield CompactibleLog(directory, source_log(directory, offsets, position)), entry
