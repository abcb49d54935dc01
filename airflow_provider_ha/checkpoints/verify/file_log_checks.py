"""Checks of the logs of file sources and of a file sink, for damage and gaps that Spark does not notice.

Invariant: a log that lacks a single line is refused. Spark would start from it without an error, and read old input
again or never read new input (spark-facts section 7).

Invariant: the rule is the same as for every restore plan (``connectors.file_sink_log``). Entries before the newest
compact entry are never read.

A file sink skips a batch in its log without executing the plan, and reads its log back at every compaction (spark-facts
sections 0 and 5). With a log that is ahead, behind or broken, a start therefore fails or loses rows.

Invariant: the sink is read between two reads of the checkpoint's logs. Batches that a running query writes in between
never make the sink appear ahead or behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG, files_of_entry, missing_entries, needed_entries
from airflow_provider_ha.checkpoints.spark import files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.closure import source_log
from airflow_provider_ha.checkpoints.spark.metadata_log import COMPACT, CommitsEntry, CompactibleLog, OffsetsEntry
from airflow_provider_ha.checkpoints.spark.places import local_path
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.state_checks import state_lacks
from airflow_provider_ha.checkpoints.verify.subject import SourceEntries, Statefulness, VerificationSubject
from airflow_provider_ha.checkpoints.verify.verification_report import Finding, Findings, Reason, SinkLogState
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError, StorageUnavailableError
from airflow_provider_ha.uris import of_log


_SINK_ENTRY = "v1, and one JSON object with path and size for each output file of the batch"


def check_sink_log(sink: Tree, findings: Findings) -> None:
    """Report problems of the log of the file sink in *sink*, and of the output files that it names."""
    log = CompactibleLog(sink, LOG)
    for entry, found in missing_entries(log).items():
        path, expected = str(sink / LOG / str(entry)), "every entry after the last compact one"
        findings.add(Finding(Code.SINK_LOG_MISSING, path, entry, found, expected, blocks=True))
    for entry, name in needed_entries(log).items():
        try:
            named = files_of_entry(sink, log, entry)
        except CheckpointCorruptError as error:
            path = str(sink / error.path)
            findings.add(Finding(Code.SINK_LOG_CORRUPT, path, entry, error.reason, _SINK_ENTRY, blocks=True))
            continue
        _check_files(sink, named, name, entry, findings)


def _check_files(sink: Tree, named: Mapping[str, int], name: str, entry: int, findings: Findings) -> None:
    """Report each kind of problem among an entry's output files once, with the first affected file."""
    troubles: dict[Code, list[tuple[str, str, str]]] = {}
    for uri, size in named.items():
        if trouble := _trouble(sink, uri, size):
            troubles.setdefault(trouble[0], []).append(trouble[1:])
    for code, ((path, found, expected), *others) in troubles.items():
        more = f", like {len(others)} more of the {len(named)} files of {LOG}/{name}" if others else ""
        # Spark never reads these files again: the loss affects readers, not a start.
        findings.add(Finding(code, path, entry, f"{found}{more}", expected))


def _trouble(sink: Tree, uri: str, size: int) -> tuple[Code, str, str, str] | None:
    expected = f"an output file of {size} bytes"
    try:
        shown, found = _size(sink, uri)
    except ConfigurationError as error:
        return (
            Code.UNREADABLE,
            uri,
            error.message,
            "a file on a file system of this host, or on the log's own storage",
        )
    except files.FileGoneError as error:
        return Code.SINK_FILE_MISSING, error.path, "it is not there", expected
    except files.UnreadableError as error:
        return Code.UNREADABLE, error.path, error.message, "a file that can be read"
    if found == size:
        return None
    return Code.SINK_FILE_SIZE, shown, f"it has {found} bytes", f"{size} bytes, as in the log"


def _size(sink: Tree, uri: str) -> tuple[str, int]:
    """Return an output file as displayed, and its size in bytes."""
    inside = sink.below(uri)
    if inside is not None:
        try:
            return uri, sink.file_size(inside)
        except CheckpointCorruptError:
            raise files.FileGoneError(uri, "it is needed and not there") from None
    path = local_path(of_log(uri))
    try:
        return str(path), path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        raise files.FileGoneError(str(path), "it is needed and not there") from None
    except OSError as error:
        raise files.UnreadableError(str(path), error) from error


def check_sink(sink: Tree, subject: VerificationSubject, findings: Findings) -> SinkLogState:
    """Report problems of the file sink in *sink*, compared with the checkpoint that was read before.

    :raises StorageUnavailableError: The output directory is missing although batches were committed, or could not be
        read.
    """
    logs = subject.logs
    if not sink.is_directory():
        if logs.next_base >= 0:
            raise StorageUnavailableError(f"{sink} is not a directory", next_step="Name the output directory")
        return SinkLogState(sink, -1)
    has, reached = CompactibleLog(sink, LOG).last(), progress(subject.directory)
    place = str(sink / LOG)
    if has < 0 <= logs.next_base:
        found, expected = "it has no entry", f"the entries up to batch {logs.next_base}"
        findings.add(Finding(Code.SINK_LOG_MISSING, place, None, found, expected, blocks=True))
    elif has < logs.next_base:
        found, expected = (
            f"its last batch is {has}",
            f"batch {logs.next_base}, committed in the checkpoint",
        )
        findings.add(Finding(Code.SINK_BEHIND, place, logs.next_base, found, expected, blocks=True))
    elif has > reached.planned:
        found = f"its last batch is {has}"
        expected = f"none after batch {reached.planned}, the last planned one" if reached.planned >= 0 else "none"
        findings.add(Finding(Code.SINK_UNPLANNED, place, has, found, expected, blocks=True))
    elif reached == logs.progress:
        _check_in_flight(place, has, subject, findings)
    check_sink_log(sink, findings)
    return SinkLogState(sink, has)


def _check_in_flight(place: str, has: int, subject: VerificationSubject, findings: Findings) -> None:
    """Report that the sink already has the next batch: Spark skips it, including the state that it writes."""
    logs, reached = subject.logs, subject.logs.progress
    if not reached.in_flight or has < reached.planned:
        return
    blocks, offsets = False, logs.offsets.get(has)
    if subject.kind is Statefulness.STATEFUL and offsets is not None:
        # With format 2 the commit needs ids that are not passed in. With format 1 the state of the first attempt
        # counts.
        by_id = any(entry.state_ids for entry in logs.commits.values())
        blocks = by_id or bool(state_lacks(subject.reader, offsets, CommitsEntry(has, 1, {}, {})))
    found = f"it has batch {has}, which is planned but not committed: Spark skips it"
    expected = f"no batch after {reached.committed}, the last committed one" if reached.committed >= 0 else "none yet"
    findings.add(Finding(Code.SINK_AHEAD, place, has, found, expected, blocks=blocks))


_SOURCE_ENTRY = re.compile(rb"v[1-9]\n.+")
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
        elif not _SOURCE_ENTRY.match(files.read(directory, path)):
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
