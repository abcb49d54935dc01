"""Manifest of a savepoint: writing, parsing, and checks of its names, sizes and files.

Invariant: the manifest is written last, after every file is on disk; a directory without one is not a savepoint
(spark-facts section 1). The digests cover the bytes that were read from the source, so a bit that flips on the way to
the disk is found when the savepoint is read again.

Invariant: no name of a manifest becomes a path before it passed these checks. The author of an archive also wrote its
manifest.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.pins import SINKS, refuse_reserved
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint, SavepointPointer
from airflow_provider_ha.checkpoints.spark.atomic import write_aside
from airflow_provider_ha.checkpoints.spark.checksums import difference, digest_of
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, NotAFileError, read
from airflow_provider_ha.checkpoints.spark.releases import release
from airflow_provider_ha.checkpoints.spark.tree import OpenFile, Tree
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    ConfigurationError,
    RecordCorruptError,
)
from airflow_provider_ha.names import check_query


MANIFEST = "manifest.json"


def write_manifest(directory: Path, savepoint: Savepoint) -> None:
    """Write the manifest, which makes the directory a savepoint."""
    write_aside(directory / MANIFEST, savepoint.to_bytes())


def manifest_bytes(directory: Tree) -> bytes:
    """Return the bytes of the manifest.

    :raises CheckpointMissingError: The manifest is missing, so the directory is not a savepoint.
    :raises CheckpointCorruptError: It is not a file, or is larger than any manifest.
    """
    try:
        return read(directory, MANIFEST)
    except FileGoneError:
        raise CheckpointMissingError(
            f"{directory} is not a savepoint: it has no {MANIFEST}",
            next_step="Choose another savepoint; this one was never completed",
        ) from None


def parse_manifest(directory: Tree, data: bytes) -> Savepoint:
    """Parse the bytes of a manifest.

    :raises CheckpointCorruptError: They are damaged.
    """
    try:
        return Savepoint.from_bytes(data, source=f"{directory}/{MANIFEST}")
    except RecordCorruptError as error:
        raise CheckpointCorruptError(MANIFEST, error.message) from error


def pointer_to(key: str, savepoint: Savepoint, data: bytes) -> SavepointPointer:
    """Return the pointer to a savepoint, with the digest of its manifest.

    :param data: The bytes of the manifest as stored: another release may serialize it differently.
    """
    return SavepointPointer(
        savepoint_id=savepoint.savepoint_id,
        directory=key,
        manifest_sha256=hashlib.sha256(data).hexdigest(),
        size=savepoint.size,
        cut=savepoint.cut,
        schedule=savepoint.schedule,
        label=savepoint.label,
        created_at=savepoint.created_at,
    )


def check_files(
    directory: Tree, savepoint: Savepoint, *, digests: bool, only: Container[str] | None = None
) -> list[CheckpointCorruptError]:
    """Compare every file with the manifest; return the mismatches in manifest order.

    :param digests: Whether to read every file that has a digest, or to compare sizes only.
    :param only: Files whose bytes are read; all by default.
    :raises StorageUnavailableError: A file could not be read: its state is unknown.
    """
    return [
        CheckpointCorruptError(name, problem)
        for name, expected in savepoint.files.items()
        if (problem := _problem(directory, name, expected, digests=digests and (only is None or name in only)))
    ]


@dataclass(slots=True)
class SequentialReader:
    """Sequential reader of a savepoint file."""

    file: OpenFile
    offset: int = 0

    def read(self, size: int, /) -> bytes:
        """Return the next bytes; empty at the end."""
        found = self.file.read_at(self.offset, size)
        self.offset += len(found)
        return found


def _problem(directory: Tree, name: str, expected: ManifestFile, *, digests: bool) -> str:
    try:
        size = directory.file_size(name)
        if size != expected.size:
            return f"it has {size} bytes, the manifest records {expected.size}"
        if digests and expected.digested_by:
            with directory.opened(name) as file:
                return difference(digest_of(SequentialReader(file), algorithm=expected.digested_by), expected)
    except NotAFileError:
        return "it is not a regular file"
    except FileGoneError:
        return "it is in the manifest but missing"
    return ""


# The algorithms that this package can compute from the bytes of a directory.
_DIGESTS = {Algorithm.SHA256: re.compile(r"[0-9a-f]{64}"), Algorithm.CRC32C: re.compile(r"[0-9a-f]{8}")}
# Limit of Linux; the directory of the savepoint needs part of the path too.
_SEGMENT_BYTES, _PATH_BYTES = 255, 2048


def check_manifest(savepoint: Savepoint) -> Savepoint:
    """Return *savepoint* when its manifest describes files of the savepoint's queries only.

    :raises CheckpointCorruptError: The first problem.
    """
    _check_words(savepoint)
    for name, file in savepoint.files.items():
        check_path(name)
        first, _, rest = name.partition("/")
        if not rest or (first not in savepoint.queries and first != SINKS):
            raise _bad(f"file {name!r} belongs to no query of the savepoint")
        if not _possible(file, digested=savepoint.digested):
            raise _bad(f"file {name!r} has no valid size and digest")
    _check_tree(savepoint.files)
    for query, part in savepoint.queries.items():
        own = {f"{query}/{name}": size for name, size in part.files.items()}
        described = {name: file.size for name, file in savepoint.files.items() if name.startswith(f"{query}/")}
        if own != described:
            raise _bad(f"the files of query {query!r} differ from its description")
    return savepoint


def check_path(name: str) -> str:
    """Return *name* when it is a plain relative path, safe for terminals and file systems.

    :raises CheckpointCorruptError: It is not.
    """
    segments = name.split("/")
    if not name.isprintable() or "\\" in name:
        raise _bad(f"file name {name!r} has characters that are not allowed")
    if any(segment in {"", ".", ".."} for segment in segments):
        raise _bad(f"file name {name!r} leads out of the savepoint")
    if len(name.encode()) > _PATH_BYTES or any(len(segment.encode()) > _SEGMENT_BYTES for segment in segments):
        raise _bad(f"file name {name[:80]!r}... is too long")
    return name


def _possible(file: ManifestFile, *, digested: bool) -> bool:
    """Whether a file has a size and one digest; without a digest only where the manifest allows it."""
    if file.size < 0 or (file.sha256 and file.digest) or bool(file.digest) != (file.algorithm is not None):
        return False
    by = file.digested_by
    if by is None:
        return not digested
    return by in _DIGESTS and bool(_DIGESTS[by].fullmatch(file.sha256 or file.digest))


def _check_words(savepoint: Savepoint) -> None:
    sinks = [part.sink.path or "" for part in savepoint.queries.values()]
    for word in (savepoint.savepoint_id, savepoint.job_id, savepoint.label, savepoint.schedule or "", *sinks):
        if not word.isprintable():  # the terminal shows it
            raise _bad(f"{word!r} has characters that are not allowed")
    try:
        release(savepoint.spark_version)
        for query in savepoint.queries:
            check_query(query)
            refuse_reserved(query)
    except ConfigurationError as error:
        raise _bad(error.message) from None


def _check_tree(names: Iterable[str]) -> None:
    """Refuse a name that is both a file and a directory."""
    known = set(names)
    for name in known:
        parent = name.rpartition("/")[0]
        while parent:
            if parent in known:
                raise _bad(f"{parent!r} is both a file and the directory of {name!r}")
            parent = parent.rpartition("/")[0]


def _bad(reason: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(MANIFEST, reason, next_step="Take another savepoint")
