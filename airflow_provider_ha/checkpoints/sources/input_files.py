"""File sources: they record the files of each batch with their times; a file can be unchanged, replaced, or gone.

Spark records no length. The driver reads it from the file system when a batch is planned (:func:`measure`), and it is
recorded with the batch if the file still has the time recorded by Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from os.path import commonprefix
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.plan_model import SourceInput, Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sources.source_type import SourceReading, SourceType
from airflow_provider_ha.checkpoints.spark.object_tree import SCHEMES, each
from airflow_provider_ha.checkpoints.spark.places import HDFS, LOCAL, StorageAccess
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError, HaError, StorageUnavailableError
from airflow_provider_ha.storage.s3_store import S3Store


_SECOND = 1000  # milliseconds
_PAGE = 1000  # keys of a listing
MEASURED_AT_MOST = 1000
"""Files per batch: the lengths of larger batches are not requested."""


class InputFile(NamedTuple):
    """One input file, from a source's log.

    :param timestamp: Modification time, in milliseconds since 1970; ``None`` if unrecorded.
    """

    path: str
    timestamp: int | None
    length: int | None = None

    def is_same(self, now: InputFileStatus) -> bool:
        """Return whether the existing file is this one: some clocks have whole seconds only."""
        if self.length is not None and now.length != self.length:
            return False
        if self.timestamp is None or now.mtime == self.timestamp:
            return True
        whole = 0 in (now.mtime % _SECOND, self.timestamp % _SECOND)
        return whole and now.mtime // _SECOND == self.timestamp // _SECOND


class InputFileStatus(NamedTuple):
    """An existing file.

    :param mtime: Modification time, in milliseconds since 1970.
    """

    mtime: int
    length: int


@dataclass(frozen=True, slots=True)
class MissingInputFiles:
    """Missing input files.

    :param error: Why the others could not be checked.
    :param replaced: The files in *missing* that were replaced.
    """

    missing: Mapping[int, tuple[str, ...]]
    asked: frozenset[str]
    error: HaError | None = None
    replaced: frozenset[str] = frozenset()


class FileSource(SourceType):
    """Files of a directory, of S3 or of HDFS."""

    label = "files"
    asked = "existence, time of change and length of the input files of replayed batches"
    silence = (
        "`unknown`, also on file systems that cannot be queried; without a replay there is no request. Without a "
        "recorded length, the time decides"
    )

    def takes(self, reading: SourceReading) -> bool:
        """Match an offset in a log of files."""
        return reading.has_log

    def input(self, reading: SourceReading) -> SourceInput:
        """Return the number of files that are read again; files on other file systems were not checked."""
        gone = {
            path for batch in {batch for batch, _ in reading.lines} for path in reading.facts.missing.get(batch, ())
        }
        asked = all(_scheme(line) in (reading.facts.asked or ()) for _, line in reading.lines)
        return SourceInput(
            source=reading.name, unit="files", amount=len(reading.lines), gone=len(gone) if asked else None
        )


def judge_files(
    missing: Mapping[int, tuple[str, ...]],
    replay: Iterable[BatchEntry],
    findings: RestoreFindings,
    replaced: frozenset[str] = frozenset(),
) -> None:
    """Judge file sources: the files to replay must exist and be unchanged.

    :param missing: Missing or replaced input files by batch.
    """
    for entry in replay:
        gone = missing.get(entry.batch)
        if gone:
            what = "was replaced since" if gone[0] in replaced else "is gone"
            findings.add(
                Verdict.IMPOSSIBLE,  # guard: replays-without-their-input
                f"batch {entry.batch} has to be replayed, but its input {gone[0]} {what}",
                "put the file back where it was, unchanged and with its time of change",
                "restore a newer cut: the input before it is not read again",
                "restore as another job with its own output: it replays no batch",
            )
            return


def judge_unasked(replay: Iterable[BatchEntry], asked: frozenset[str], findings: RestoreFindings) -> None:
    """Judge file sources on file systems that cannot be read from here: their files are unknown."""
    schemes = sorted({urlsplit(file.path).scheme for entry in replay for file in input_files(entry)} - asked)
    for scheme in (scheme for scheme in schemes if scheme not in SCHEMES | {HDFS}):
        findings.add_unknown(
            f"input files of the replayed batches are on a file system ({scheme}:) that cannot be queried from here",
            "check that these files exist, unchanged",
        )


def look_for(entries: Iterable[BatchEntry], reach: StorageAccess | None = None) -> MissingInputFiles:
    """Check every input file of some batches: one request per file on S3 or HDFS.

    :param reach: Access to S3 and HDFS; by default from the environment.
    """
    reach = reach or StorageAccess()
    recorded = {entry.batch: tuple(input_files(entry)) for entry in entries}
    every = list(dict.fromkeys(file for files in recorded.values() for file in files))
    changed: dict[InputFile, InputFileStatus | None] = {}
    asked, failed = LOCAL, None
    ways: tuple[tuple[frozenset[str], Callable[[list[InputFile]], Iterable[InputFileStatus | None]]], ...] = (
        (LOCAL, lambda files: map(_here, files)),
        (SCHEMES, lambda files: _on_s3(files, reach.s3 or S3Options.from_env())),
        (frozenset({HDFS}), lambda files: _on_hdfs(files, reach)),
    )
    for schemes, ask in ways:
        files = [file for file in every if urlsplit(file.path).scheme in schemes]
        try:
            changed |= zip(files, ask(files), strict=True) if files else ()
            asked |= schemes
        except (StorageUnavailableError, ConfigurationError) as error:
            failed = failed or error
    # guard: replaced-inputs-are-the-same
    replaced = {file for file, now in changed.items() if now is not None and not file.is_same(now)}
    gone = {file for file, now in changed.items() if now is None} | replaced
    missing = {batch: tuple(file.path for file in files if file in gone) for batch, files in recorded.items()}
    return MissingInputFiles(
        missing={batch: paths for batch, paths in missing.items() if paths},
        asked=asked,
        error=failed,
        replaced=frozenset(file.path for file in replaced),
    )


def measure(entry: BatchEntry, reach: StorageAccess) -> dict[str, tuple[int | None, ...]]:
    """Return the sizes of a batch's files by source, in bytes; ``None`` for a file that changed since Spark saw it.

    A batch of more files than :data:`MEASURED_AT_MOST` is not measured.

    :raises StorageUnavailableError: A file system does not answer.
    :raises ConfigurationError: A file system is not accessible from here.
    """
    files = list(input_files(entry))
    if len(files) > MEASURED_AT_MOST:
        return {}
    by_way: dict[str, list[InputFile]] = {}
    for file in files:
        by_way.setdefault(urlsplit(file.path).scheme, []).append(file)
    found: dict[InputFile, InputFileStatus | None] = {}
    for scheme, own in by_way.items():
        if scheme in LOCAL:
            found |= zip(own, map(_here, own), strict=True)
        elif scheme in SCHEMES:
            found |= _listed_on_s3(own, reach.s3 or S3Options.from_env())
        elif scheme == HDFS:
            found |= zip(own, _on_hdfs(own, reach), strict=True)

    def length(file: InputFile) -> int | None:
        now = found.get(file)
        return now.length if now is not None and file.is_same(now) else None

    return {source: tuple(map(length, _files_of(source, entry))) for source in entry.sources}


def _scheme(line: str) -> str:
    try:
        return urlsplit(str(json.loads(line)["path"])).scheme
    except (ValueError, KeyError, TypeError):
        return ""


def input_files(entry: BatchEntry) -> Iterator[InputFile]:
    """Yield the input files in the records of a batch."""
    for source in entry.sources:
        yield from _files_of(source, entry)


def _files_of(source: str, entry: BatchEntry) -> Iterator[InputFile]:
    lines = entry.sources[source]
    lengths = entry.lengths.get(source, ())
    for line, length in zip(lines, lengths if len(lengths) == len(lines) else (None,) * len(lines), strict=True):
        try:
            said = json.loads(line)
        except ValueError:
            said = {}  # a line that Spark would not read either: the file does not exist
        timestamp = said.get("timestamp")
        yield InputFile(str(said.get("path", "")), timestamp if isinstance(timestamp, int) else None, length)


def _here(file: InputFile) -> InputFileStatus | None:
    """Return a local file; ``None`` when it is missing."""
    place = unquote(urlsplit(file.path).path)
    try:
        status = Path(place).stat() if place else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageUnavailableError(f"input file {place} cannot be looked up: {error}") from error
    if status is None:
        return InputFileStatus(file.timestamp or 0, file.length or 0)
    return InputFileStatus(status.st_mtime_ns // 1_000_000, status.st_size)


def _on_s3(files: list[InputFile], options: S3Options) -> list[InputFileStatus | None]:
    reader = cache(lambda bucket: S3Store(f"s3://{bucket}", options))

    def ask(file: InputFile) -> InputFileStatus | None:
        bucket, key = _place(file)
        first = next(reader(bucket).list(key), None)  # of all keys with this prefix, the shortest comes first
        return InputFileStatus(first.mtime, first.size) if first is not None and first.key == key else None

    return each(ask, files)


def _listed_on_s3(files: list[InputFile], options: S3Options) -> dict[InputFile, InputFileStatus | None]:
    """Return the listed files: one request per thousand keys, and never more than one per file."""
    wanted = {_place(file): file for file in files}
    found: dict[InputFile, InputFileStatus | None] = {}
    for bucket in {bucket for bucket, _ in wanted}:
        keys = {key for of, key in wanted if of == bucket}
        listed = S3Store(f"s3://{bucket}", options).list(commonprefix(sorted(keys)))  # noqa: RUF071  # a common key prefix
        for item in islice(listed, _PAGE * len(keys)):
            if item.key in keys:
                found[wanted[bucket, item.key]] = InputFileStatus(item.mtime, item.size)
                keys.remove(item.key)
            if not keys:
                break
    return found


def _place(file: InputFile) -> tuple[str, str]:
    parts = urlsplit(file.path)
    return parts.netloc, unquote(parts.path).lstrip("/")


def _on_hdfs(files: list[InputFile], reach: StorageAccess) -> list[InputFileStatus | None]:
    def ask(file: InputFile) -> InputFileStatus | None:
        parts = urlsplit(file.path)
        folder, _, name = unquote(parts.path).rpartition("/")
        found = reach.files(f"{HDFS}://{parts.netloc}{folder}").info(name)
        return InputFileStatus(found.mtime, found.size) if found is not None else None

    return each(ask, files)
