"""Checks of a manifest: its names, sizes and digests.

Invariant: no name of a manifest becomes a path before it passed these checks. The author of an archive also wrote its
manifest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_provider_ha.checkpoints.format.releases import release
from airflow_provider_ha.checkpoints.model import Algorithm, ManifestFile, Savepoint
from airflow_provider_ha.checkpoints.savepoints.savepoint_files import MANIFEST
from airflow_provider_ha.checkpoints.working.pins import SINKS, refuse_reserved
from airflow_provider_ha.errors import CheckpointCorruptError, ConfigurationError
from airflow_provider_ha.names import check_query


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
    if (
        file.member
        or file.size < 0
        or (file.sha256 and file.digest)
        or bool(file.digest) != (file.algorithm is not None)
    ):
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
    return CheckpointCorruptError(MANIFEST, reason, next_step="Take another savepoint; nothing was written")
