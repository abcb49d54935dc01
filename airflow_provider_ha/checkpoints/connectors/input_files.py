"""File sources: they record the files of each batch with their time, and these are still there, replaced, or gone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.connectors.places import HDFS, LOCAL, Reach
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.connectors.source_type import Reading, SourceType
from airflow_provider_ha.checkpoints.model import BatchEntry, SourceInput, Verdict
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.object_tree import SCHEMES
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError, HaError, StorageUnavailableError
from airflow_provider_ha.storage.s3_reader import S3Reader


_SECOND = 1000  # milliseconds


class InputFile(NamedTuple):
    """One input file, as a source's log has it.

    :param path: Its URI.
    :param timestamp: When it was changed last, in milliseconds since 1970; ``None`` when that is not recorded.
    """

    path: str
    timestamp: int | None

    def is_same(self, mtime: int) -> bool:
        """Whether a file that was changed last at *mtime* is this one: some clocks have whole seconds only."""
        if self.timestamp is None or mtime == self.timestamp:
            return True
        whole = 0 in (mtime % _SECOND, self.timestamp % _SECOND)
        return whole and mtime // _SECOND == self.timestamp // _SECOND


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Which input files are gone.

    :param missing: Batch -> the files that are gone, or are others by now.
    :param asked: Schemes of the files that were looked for.
    :param error: Why the others could not be looked for.
    :param replaced: Those of *missing* that are others by now.
    """

    missing: Mapping[int, tuple[str, ...]]
    asked: frozenset[str]
    error: HaError | None = None
    replaced: frozenset[str] = frozenset()


class FileSource(SourceType):
    """Files of a directory, of S3 or of HDFS."""

    label = "files"
    asked = "of each input file of a batch that is replayed: whether it is there, and its time of change"
    silence = "`unknown`, on S3 and HDFS as on file systems that cannot be asked; without a replay nothing is asked"

    def takes(self, reading: Reading) -> bool:
        """An offset in a log of files."""
        return reading.has_log

    def input(self, reading: Reading) -> SourceInput:
        """Return how many files are read again; those on other file systems were not looked for."""
        gone = {
            path for batch in {batch for batch, _ in reading.lines} for path in reading.facts.missing.get(batch, ())
        }
        asked = all(_scheme(line) in reading.facts.asked for _, line in reading.lines)
        return SourceInput(
            source=reading.name, unit="files", amount=len(reading.lines), gone=len(gone) if asked else None
        )


def judge_files(
    missing: Mapping[int, tuple[str, ...]],
    replay: Iterable[BatchEntry],
    findings: Findings,
    replaced: frozenset[str] = frozenset(),
) -> None:
    """Judge file sources: what has to be replayed has to be there, and has to be what it was.

    :param missing: Batch -> input files that are gone, or are others by now.
    :param replaced: Those that are others by now.
    """
    for entry in replay:
        gone = missing.get(entry.batch)
        if gone:
            what = "was replaced since" if gone[0] in replaced else "is gone"
            findings.add(
                Verdict.IMPOSSIBLE,  # guard: replays-without-their-input
                f"batch {entry.batch} has to be replayed, but its input {gone[0]} {what}",
                "put the file back where it was, unchanged and with its time of change",
                "restore a newer cut: what it has behind it is not read again",
                "restore as another job with its own output: nothing is replayed there",
            )
            return


def judge_unasked(replay: Iterable[BatchEntry], asked: frozenset[str], findings: Findings) -> None:
    """Judge file sources on file systems that cannot be asked from here: what lies there is not known."""
    schemes = sorted({urlsplit(file.path).scheme for entry in replay for file in _files(entry)} - asked)
    # guard: inputs-on-other-file-systems-are-there
    for scheme in (scheme for scheme in schemes if scheme not in SCHEMES | {HDFS}):
        findings.add_unknown(
            f"input files of the batches that are replayed lie on a file system ({scheme}:) that cannot be asked from "
            "here",
            "look whether these files are there, unchanged",
        )


def look_for(entries: Iterable[BatchEntry], reach: Reach | None = None) -> InputFiles:
    """Ask for every input file of some batches: one request for each that lies on S3 or HDFS.

    :param reach: How S3 and HDFS are reached; as the environment says by default.
    """
    reach = reach or Reach()
    recorded = {entry.batch: tuple(_files(entry)) for entry in entries}
    every = sorted({file for files in recorded.values() for file in files})
    changed: dict[InputFile, int | None] = {}
    asked, failed = LOCAL, None
    ways: tuple[tuple[frozenset[str], Callable[[list[InputFile]], Iterable[int | None]]], ...] = (
        (LOCAL, lambda files: map(_mtime_here, files)),
        (SCHEMES, lambda files: _mtimes_on_s3(files, reach.s3 or S3Options.from_env())),
        (frozenset({HDFS}), lambda files: _mtimes_on_hdfs(files, reach)),
    )
    for schemes, ask in ways:
        files = [file for file in every if urlsplit(file.path).scheme in schemes]
        try:
            changed |= zip(files, ask(files), strict=True) if files else ()
            asked |= schemes
        except (StorageUnavailableError, ConfigurationError) as error:
            failed = failed or error
    # guard: replaced-inputs-are-the-same
    replaced = {file for file, mtime in changed.items() if mtime is not None and not file.is_same(mtime)}
    gone = {file for file, mtime in changed.items() if mtime is None} | replaced
    missing = {batch: tuple(file.path for file in files if file in gone) for batch, files in recorded.items()}
    return InputFiles(
        missing={batch: paths for batch, paths in missing.items() if paths},
        asked=asked,
        error=failed,
        replaced=frozenset(file.path for file in replaced),
    )


def _scheme(line: str) -> str:
    try:
        return urlsplit(str(json.loads(line)["path"])).scheme
    except (ValueError, KeyError, TypeError):
        return ""


def _files(entry: BatchEntry) -> Iterator[InputFile]:
    for lines in entry.sources.values():
        for line in lines:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            timestamp = said.get("timestamp")
            yield InputFile(str(said.get("path", "")), timestamp if isinstance(timestamp, int) else None)


def _mtime_here(file: InputFile) -> int | None:
    """Return when a file of this host was changed last; ``None`` when it is not there."""
    place = unquote(urlsplit(file.path).path)
    try:
        return Path(place).stat().st_mtime_ns // 1_000_000 if place else file.timestamp or 0
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StorageUnavailableError(f"input file {place} cannot be looked up: {error}") from error


def _mtimes_on_s3(files: list[InputFile], options: S3Options) -> list[int | None]:
    reader = cache(lambda bucket: S3Reader(f"s3://{bucket}", options))

    def ask(file: InputFile) -> int | None:
        parts = urlsplit(file.path)
        key = unquote(parts.path).lstrip("/")
        first = next(reader(parts.netloc).list(key), None)  # of all that begin so, the shortest key comes first
        return first.mtime if first is not None and first.key == key else None

    return each(ask, files)


def _mtimes_on_hdfs(files: list[InputFile], reach: Reach) -> list[int | None]:
    def ask(file: InputFile) -> int | None:
        parts = urlsplit(file.path)
        folder, _, name = unquote(parts.path).rpartition("/")
        found = reach.files(f"{HDFS}://{parts.netloc}{folder}").info(name)
        return found.mtime if found is not None else None

    return each(ask, files)
