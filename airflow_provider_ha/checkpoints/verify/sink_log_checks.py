"""Checks of a file sink's log: all entries that readers and the next compaction need, and their files.

Invariant: the rule is the same as for every restore plan (``connectors.file_sink_log``). Entries before the newest
compact entry are never read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from airflow_provider_ha.checkpoints.connectors.file_sink_log import (
    LOG,
    files_of_entry,
    missing_entries,
    needed_entries,
)
from airflow_provider_ha.checkpoints.connectors.places import local_path
from airflow_provider_ha.checkpoints.format.compactible_log import CompactibleLog
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.report import Findings
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError
from airflow_provider_ha.uris import of_log


_ENTRY = "v1, and one JSON object with path and size for each output file of the batch"


def check_sink_log(sink: Tree, findings: Findings) -> None:
    """Report problems of the log of the file sink in *sink*, and of the output files that it names.

    :raises StorageUnavailableError: An entry could not be read.
    """
    log = CompactibleLog(sink, LOG)
    for entry, found in missing_entries(log).items():
        path, expected = str(sink / LOG / str(entry)), "every entry after the last compact one"
        findings.add(Finding(Code.SINK_LOG_MISSING, path, entry, found, expected, blocks=True))
    for entry, name in needed_entries(log).items():
        try:
            named = files_of_entry(sink, log, entry)
        except CheckpointCorruptError as error:
            path = str(sink / error.path)
            findings.add(Finding(Code.SINK_LOG_CORRUPT, path, entry, error.reason, _ENTRY, blocks=True))
            continue
        _check_files(sink, named, name, entry, findings)


def _check_files(sink: Tree, named: Mapping[str, int], name: str, entry: int, findings: Findings) -> None:
    """Report each kind of problem among an entry's output files once, with the first affected file."""
    troubles: dict[Code, list[tuple[str, str, str]]] = {}
    for code, path, found, expected in _troubles(sink, named):
        troubles.setdefault(code, []).append((path, found, expected))
    for code, ((path, found, expected), *others) in troubles.items():
        more = f", like {len(others)} more of the {len(named)} files of {LOG}/{name}" if others else ""
        # Spark never reads these files again: the loss affects readers, not a start.
        findings.add(Finding(code, path, entry, f"{found}{more}", expected))


def _troubles(sink: Tree, named: Mapping[str, int]) -> Iterator[tuple[Code, str, str, str]]:
    for uri, size in named.items():
        trouble = _trouble(sink, uri, size)
        if trouble is not None:
            yield trouble


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
    return Code.SINK_FILE_SIZE, shown, f"it has {found} bytes", f"{size} bytes, as the log says"


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
