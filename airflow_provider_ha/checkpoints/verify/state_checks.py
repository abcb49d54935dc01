"""Checks of the state: whether every store can load the version that the next batch reads.

Invariant: the file that Spark tries first decides, unless the release falls back to an older snapshot.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from airflow_provider_ha.checkpoints.format.content import ChecksumMismatchError
from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.metadata_log import CommitsEntry, OffsetsEntry
from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.format.sst import TableDataError
from airflow_provider_ha.checkpoints.format.state import Need, StateReader
from airflow_provider_ha.checkpoints.format.store_files import Chain
from airflow_provider_ha.checkpoints.trees import files
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.codes import Code
from airflow_provider_ha.checkpoints.verify.findings import Finding
from airflow_provider_ha.checkpoints.verify.logs import Logs
from airflow_provider_ha.checkpoints.verify.report import Findings, Reason
from airflow_provider_ha.checkpoints.verify.statefulness import Statefulness, has_state_directory
from airflow_provider_ha.errors import CheckpointCorruptError


# Java's writeUTF of the version, then the schemas of key and value as JSON.
_STATE_DIRECTORY = "the state of every stateful operator"
_SCHEMA_HEAD = re.compile(rb"\x00\x02v[1-9]")
_EXPECTED = {
    Code.STATE_MISSING: "a file of",
    Code.STATE_CORRUPT: "a complete file of",
    Code.CHECKSUM_MISMATCH: "a file that matches its checksum, of",
}


def check_state(
    reader: StateReader, offsets: OffsetsEntry, commits: CommitsEntry, release: Release, findings: Findings
) -> None:
    """Report every store that cannot load the state after the batch of these entries."""
    try:
        for need in reader.stores_needed(offsets, commits):
            _check_store(reader, need, commits.batch, release, findings)
    except CheckpointCorruptError as error:
        _add(findings, error, commits.batch, blocks=True)


def state_lacks(reader: StateReader, offsets: OffsetsEntry, commits: CommitsEntry) -> list[Reason]:
    """Return the reasons why the state after the batch of these entries cannot be loaded."""
    found: list[Reason] = []
    try:
        for need in reader.stores_needed(offsets, commits):
            error = reader.lacks(need)
            if error is not None:
                found.append(Reason(_code(error), error.path, error.reason))
    except CheckpointCorruptError as error:
        found.append(Reason(_code(error), error.path, error.reason))
    return found


def check_state_directory(directory: Tree, logs: Logs, kind: Statefulness, findings: Findings) -> None:
    """Report that a query with state has no state directory."""
    if logs.next_base < 0 or has_state_directory(directory):
        return
    for lacks in state_directory_lacks(directory, kind):
        findings.add(Finding(lacks.code, lacks.path, logs.next_base, lacks.found, _STATE_DIRECTORY, blocks=True))


def state_directory_lacks(directory: Tree, kind: Statefulness) -> list[Reason]:
    """Return the reason when a query with state has no state directory."""
    if kind is not Statefulness.STATEFUL or has_state_directory(directory):
        return []
    return [Reason(Code.STATE_MISSING, STATE, "it is not there, although the logs belong to a query with state")]


def check_schemas(directory: Tree, findings: Findings) -> None:
    """Report unreadable state schemas. Spark writes a missing one again."""
    for operator in numbers(directory, STATE):
        place = f"{STATE}/{operator}/0"
        inner = [f"{place}/{name}" for name in files.names(directory, place) if name[:1].isalpha()]
        for path in (f"{store}/_metadata/schema" for store in [place, *inner]):
            if files.exists(directory, path) and not _is_schema(files.read(directory, path)):
                found, expected = (
                    "it is truncated or garbled",
                    "a state schema or no file: Spark writes a missing one again",
                )
                findings.add(Finding(Code.STATE_METADATA_CORRUPT, path, None, found, expected, blocks=True))


def _is_schema(data: bytes) -> bool:
    return bool(_SCHEMA_HEAD.match(data)) and data.count(b'"type":"struct"') > 1 and data.endswith(b"]}")


def _check_store(reader: StateReader, need: Need, batch: int, release: Release, findings: Findings) -> None:
    chains: list[Chain] = []
    try:
        chains = need()
        reader.whole(chains[0])
    except CheckpointCorruptError as error:
        older = _goes_on(error, release) and _any_whole(reader, lambda: chains[1:], need.repairs)
        _add(findings, error, batch, blocks=not older)
        if older:
            found = "it is bad, but this release continues from an older snapshot and the changes since"
            findings.add(Finding(Code.STATE_FALLBACK, error.path, batch, found, "a whole file"))


def _goes_on(error: CheckpointCorruptError, release: Release) -> bool:
    """Whether a release falls back to older files on *error*."""
    # Spark does not treat a directory in the place of a snapshot as a broken snapshot.
    if isinstance(error, files.NotAFileError) and error.path.endswith(".snapshot"):
        return release.skips_directories
    # Bad rows appear when they are read: the store is open by then, so there is no fallback.
    return release.falls_back and not isinstance(error, TableDataError)


def _any_whole(reader: StateReader, *ways: Callable[[], list[Chain]]) -> bool:
    return any(_is_whole(reader, find) for find in ways)


def _is_whole(reader: StateReader, find: Callable[[], list[Chain]]) -> bool:
    try:
        chains = find()
        return bool(chains and reader.first_whole(chains))
    except CheckpointCorruptError:
        return False


def _add(findings: Findings, error: CheckpointCorruptError, batch: int, *, blocks: bool) -> None:
    expected = f"{_EXPECTED[_code(error)]} state version {batch + 1}, which batch {batch} wrote"
    findings.add(Finding(_code(error), error.path, batch, error.reason, expected, blocks=blocks))


def _code(error: CheckpointCorruptError) -> Code:
    if isinstance(error, files.FileGoneError):
        return Code.STATE_MISSING
    return Code.CHECKSUM_MISMATCH if isinstance(error, ChecksumMismatchError) else Code.STATE_CORRUPT
