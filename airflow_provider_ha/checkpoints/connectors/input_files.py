"""File sources: they record the files of each batch, which are still there or not, on this host or on S3."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

from airflow_provider_ha.checkpoints.connectors.places import LOCAL
from airflow_provider_ha.checkpoints.connectors.sink_connector import Findings
from airflow_provider_ha.checkpoints.connectors.source_type import Reading, SourceType
from airflow_provider_ha.checkpoints.model import BatchEntry, SourceInput, Verdict
from airflow_provider_ha.checkpoints.trees.at_once import each
from airflow_provider_ha.checkpoints.trees.object_tree import SCHEMES
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.storage.s3_reader import S3Reader


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Which input files are gone.

    :param missing: Batch -> the files that are gone.
    :param asked: Schemes of the files that were looked for.
    :param error: Why the others could not be looked for.
    """

    missing: Mapping[int, tuple[str, ...]]
    asked: frozenset[str]
    error: StorageUnavailableError | None = None


class FileSource(SourceType):
    """Files of a directory, or of S3."""

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


def judge_files(missing: Mapping[int, tuple[str, ...]], replay: tuple[BatchEntry, ...], findings: Findings) -> None:
    """Judge file sources: what has to be replayed has to be there."""
    for entry in replay:
        gone = missing.get(entry.batch)
        if gone:
            findings.add(
                Verdict.IMPOSSIBLE,  # guard: replays-without-their-input
                f"batch {entry.batch} has to be replayed, but its input {gone[0]} is gone",
                "put the file back where it was, unchanged",
                "restore a newer cut: what it has behind it is not read again",
                "restore as another job with its own output: nothing is replayed there",
            )
            return


def look_for(entries: Iterable[BatchEntry], s3: S3Options | None = None) -> InputFiles:
    """Ask for every input file of some batches: one request for each that lies on S3.

    :param s3: How S3 is reached; as the environment says by default.
    """
    recorded = {entry.batch: tuple(_paths(entry)) for entry in entries}
    every = {path for paths in recorded.values() for path in paths}
    gone = {path for path in every if urlsplit(path).scheme in LOCAL and not _is_here(path)}
    on_s3 = sorted(path for path in every if urlsplit(path).scheme in SCHEMES)
    failed: StorageUnavailableError | None = None
    try:
        gone |= set(_gone_from_s3(on_s3, s3 or S3Options.from_env()))
    except StorageUnavailableError as error:
        failed = error
    missing = {batch: tuple(path for path in paths if path in gone) for batch, paths in recorded.items()}
    return InputFiles(
        missing={batch: paths for batch, paths in missing.items() if paths},
        asked=LOCAL if failed else LOCAL | SCHEMES,
        error=failed,
    )


def _scheme(line: str) -> str:
    try:
        return urlsplit(str(json.loads(line)["path"])).scheme
    except (ValueError, KeyError, TypeError):
        return ""


def _paths(entry: BatchEntry) -> Iterator[str]:
    for lines in entry.sources.values():
        yield from (str(json.loads(line).get("path", "")) for line in lines)


def _is_here(path: str) -> bool:
    place = unquote(urlsplit(path).path)
    return not place or Path(place).exists()


def _gone_from_s3(uris: list[str], options: S3Options) -> Iterator[str]:
    reader = cache(lambda bucket: S3Reader(f"s3://{bucket}", options))

    def is_there(uri: str) -> bool:
        parts = urlsplit(uri)
        key = unquote(parts.path).lstrip("/")
        first = next(reader(parts.netloc).list(key), None)  # of all that begin so, the shortest key comes first
        return first is not None and first.key == key

    return (uri for uri, there in zip(uris, each(is_there, uris), strict=True) if not there)
