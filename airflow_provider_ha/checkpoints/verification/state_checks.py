"""Verifying the state: whether every store can load what the next batch reads, and nothing newer lies in its way.

Invariant: what Spark tries first decides, unless the release goes on from an older snapshot by itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_ha.checkpoints.format import files
from airflow_provider_ha.checkpoints.format.content import ChecksumMismatchError
from airflow_provider_ha.checkpoints.format.layout import STATE, Progress, numbers
from airflow_provider_ha.checkpoints.format.metadata_log import CommitsEntry, OffsetsEntry
from airflow_provider_ha.checkpoints.format.releases import Release
from airflow_provider_ha.checkpoints.format.state import StateReader
from airflow_provider_ha.checkpoints.format.store_files import Chain
from airflow_provider_ha.checkpoints.verification.findings import Code
from airflow_provider_ha.checkpoints.verification.report import Findings
from airflow_provider_ha.errors import CheckpointCorruptError


# Java's writeUTF of the version, then the schemas of key and value as JSON.
_SCHEMA_HEAD = re.compile(rb"\x00\x02v[1-9]")


def check_state(
    reader: StateReader, offsets: OffsetsEntry, commits: CommitsEntry, release: Release, findings: Findings
) -> None:
    """Report every store that cannot load the state after the batch of these entries."""
    try:
        for chains in reader.chains(offsets, commits):
            _check_store(reader, chains, commits.batch, release, findings)
    except CheckpointCorruptError as error:
        _add(findings, error, commits.batch, blocks=True)


def state_whole(reader: StateReader, offsets: OffsetsEntry, commits: CommitsEntry) -> bool:
    """Whether the state after the batch of these entries can be loaded from what is there."""
    try:
        for _ in reader.files(offsets, commits):
            pass
    except CheckpointCorruptError:
        return False
    return True


def check_stale(reader: StateReader, reached: Progress, findings: Findings) -> None:
    """Report state of an older timeline: versions that no planned batch can have written.

    With checkpoint format 1 a snapshot of the old timeline is loaded a few batches later, without an error. Files of
    format 2 carry an id and mean nothing unless a commit names them.
    """
    newest = reached.planned + 1
    for store in reader.stores():
        by_number = [name for name in store.names if "_" not in name]
        stale = [
            name
            for name in by_number
            if (match := re.match(r"(\d+)\.(delta|snapshot|zip|changelog)\Z", name)) and int(match[1]) > newest
        ]
        for name in sorted(stale):
            message = f"it is newer than version {newest}, the newest that batch {reached.planned} can write"
            findings.add(Code.STATE_STALE, store.path(name), message, batch=reached.planned, blocks=True)


def check_schemas(directory: Path, findings: Findings) -> None:
    """Report state schemas that are there and cannot be read. One that is gone is written again by Spark."""
    for operator in numbers(directory / STATE):
        place = f"{STATE}/{operator}/0"
        inner = [f"{place}/{name}" for name in files.names(directory / place) if name[:1].isalpha()]
        for path in (f"{store}/_metadata/schema" for store in [place, *inner]):
            if files.exists(directory, path) and not _is_schema(files.read(directory, path)):
                message = "it is not a state schema: it is cut or garbled"
                findings.add(Code.STATE_METADATA_CORRUPT, path, message, blocks=True)


def _is_schema(data: bytes) -> bool:
    return bool(_SCHEMA_HEAD.match(data)) and data.count(b'"type":"struct"') > 1 and data.endswith(b"]}")


def _check_store(reader: StateReader, chains: list[Chain], batch: int, release: Release, findings: Findings) -> None:
    try:
        reader.whole(chains[0])
    except CheckpointCorruptError as error:
        # A directory in the place of a snapshot is not seen as a broken one: 4.2 fails on it.
        hopeless = isinstance(error, files.NotAFileError) and error.path.endswith(".snapshot")
        older = release.falls_back and not hopeless and _any_whole(reader, chains[1:])
        _add(findings, error, batch, blocks=not older)
        if older:
            findings.add(Code.STATE_FALLBACK, error.path, "Spark goes on from an older snapshot", batch=batch)


def _any_whole(reader: StateReader, chains: list[Chain]) -> bool:
    try:
        return bool(chains and reader.first_whole(chains))
    except CheckpointCorruptError:
        return False


def _add(findings: Findings, error: CheckpointCorruptError, batch: int, *, blocks: bool) -> None:
    code = Code.STATE_CORRUPT
    if isinstance(error, files.FileGoneError):
        code = Code.STATE_MISSING
    elif isinstance(error, ChecksumMismatchError):
        code = Code.CHECKSUM_MISMATCH
    findings.add(code, error.path, error.reason, batch=batch, blocks=blocks)
