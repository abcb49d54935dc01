"""State of the RocksDB provider: zips that name SST files, and changelogs between them.

Invariant: a version is whole only with one zip, exactly the SST and log files that this zip names (with their sizes),
and every changelog after it. With checkpoint format 2 a version is a number AND an id: files of other ids under the
same number belong to attempts that lost, and mean nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import partial

from airflow_provider_ha.checkpoints.format.byte_stream import NotLookedIntoError, StreamCorruptError
from airflow_provider_ha.checkpoints.format.codecs import decode
from airflow_provider_ha.checkpoints.format.records import lineage
from airflow_provider_ha.checkpoints.format.single_pass import SinglePass
from airflow_provider_ha.checkpoints.format.store_files import Chain, Kind, StateFile, Store
from airflow_provider_ha.checkpoints.format.zip_stream import ZipCorruptError, read_members
from airflow_provider_ha.checkpoints.trees.files import FileGoneError
from airflow_provider_ha.errors import CheckpointCorruptError


_NAME = re.compile(r"(\d+)(?:_([^.]+))?\.(zip|changelog)")
# Spark 4.0 writes the number of the checkpoint format here, and reads no other; 4.1 and later write and read 1.
INNER_VERSIONS = ("v1", "v2")
# The inner metadata names a table in about 100 bytes: this is enough for 80,000 tables in one partition.
METADATA_LIMIT = 8 << 20


@dataclass(frozen=True, slots=True)
class ZipContent:
    """Content of a zip's inner ``metadata``.

    :param files: Sizes in bytes by path relative to the store; ``None`` if the metadata has no size.
    """

    files: dict[str, int | None]


def versions(store: Store) -> list[int]:
    """Return the versions that have a file in this store, ascending, of all ids."""
    return sorted({int(match[1]) for name in store.names if (match := _NAME.fullmatch(name))})


def chains(store: Store, version: int, state_id: str | None) -> list[Chain]:
    """Return the sets of files that *version* can be loaded from, in Spark's order.

    :param version: Version read by batch ``version``.
    :param state_id: Its id with checkpoint format 2, else ``None``.
    :raises FileGoneError: There is no such set.
    :raises CheckpointCorruptError: A file with references to others cannot be read.
    """
    steps = _steps(store, version, state_id)
    found: list[Chain] = []
    for at, (zip_name, changelog) in enumerate(steps):
        if zip_name in store.names:
            found.append(partial(_from_zip, store, zip_name, steps[:at]))
        if changelog not in store.names:
            if not found:
                missing = changelog if at or changelogs_used(store) else zip_name
                raise FileGoneError(store.path(missing), f"state version {version} needs it, and it is not there")
            return found
    if _first_version(steps[-1][1]) == 1:
        found.append(partial(_changelogs, store, steps))
    if not found:
        raise FileGoneError(store.path(steps[-1][0]), f"state version {version} is based on it, and it is not there")
    return found


def repairs(store: Store, version: int, state_id: str | None) -> list[Chain]:
    """Return further ways to load *version*, which Spark takes only when the first it tried was no good.

    With checkpoint format 2 a changelog knows the versions back to the snapshot that it is based on. Where that one is
    bad or gone, Spark looks for older snapshots (from 4.2 on) and reaches them through the changelogs in between. All
    changelogs from the first on are such a way only when a snapshot was tried before: without any, they were the first.
    """
    if state_id is None:
        return []
    steps = _steps(store, version, state_id)
    within = len(steps)
    while older := _below(store, steps[-1][1]):
        steps += older
    found: list[Chain] = []
    for at, (zip_name, changelog) in enumerate(steps):
        if at >= within and zip_name in store.names:
            found.append(partial(_from_zip, store, zip_name, steps[:at]))
        if changelog not in store.names:
            return found
    tried = any(zip_name in store.names for zip_name, _ in steps[:within])
    if tried and len(steps) > within and _first_version(steps[-1][1]) == 1:
        found.append(partial(_changelogs, store, steps))
    return found


def changelogs_used(store: Store) -> bool:
    """Return whether this store has any changelog: then a missing one is the fault, else the zip is."""
    return any(name.endswith(".changelog") for name in store.names)


def has_unique_name(name: str) -> bool:
    """Return whether a file name of a store contains an id (format 2): other processes never write the same name."""
    match = _NAME.fullmatch(name)
    return match is not None and match[2] is not None


def read_zip(path: str, read: SinglePass) -> ZipContent:
    """Return the files in the zip at *path*.

    :raises CheckpointCorruptError: It is not a zip, or its inner ``metadata`` cannot be read.
    """
    try:
        members = read_members(read.pieces(), read.size, {"metadata": METADATA_LIMIT})
        version, _, body = members.kept["metadata"].decode().partition("\n")
        metadata = json.loads(body)
        files: dict[str, int | None] = {
            f"SSTs/{file['dfsSstFileName']}": int(file["sizeBytes"]) for file in metadata["sstFiles"]
        }
        files |= {f"logs/{file['dfsLogFileName']}": int(file["sizeBytes"]) for file in metadata.get("logFiles") or ()}
    except ZipCorruptError as error:
        raise CheckpointCorruptError(path, f"it is not a whole zip: {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointCorruptError(path, f"its inner metadata cannot be read: {error}") from None
    if version not in INNER_VERSIONS:
        raise CheckpointCorruptError(path, f"its inner metadata has the unknown version {version!r}")
    return ZipContent(files)


def _steps(store: Store, version: int, state_id: str | None) -> list[tuple[str, str]]:
    """Return (zip name, changelog name) of the versions that can be below *version*, newest first."""
    if state_id is None:
        # Down to the first changelog that is not there. A query that ran for months is at version 1,000,000.
        lowest = max(store.unbroken_from("changelog", version) - 1, 1)
        return [(f"{v}.zip", f"{v}.changelog") for v in range(version, lowest - 1, -1)]
    stem = f"{version}_{state_id}"
    steps = [(f"{stem}.zip", f"{stem}.changelog")]
    if f"{stem}.changelog" not in store.names:
        return steps
    path = store.path(f"{stem}.changelog")
    try:
        return steps + _older(store, version, f"{stem}.changelog")
    except StreamCorruptError as error:
        if f"{stem}.zip" in store.names:
            return steps  # the zip alone is enough for this version
        raise CheckpointCorruptError(path, str(error)) from None
    except NotLookedIntoError:
        return steps


def _below(store: Store, changelog: str) -> list[tuple[str, str]]:
    """Return the steps below a version, as its own changelog knows them; none where it cannot be read."""
    try:
        return _older(store, _first_version(changelog), changelog) if changelog in store.names else []
    except (StreamCorruptError, NotLookedIntoError):
        return []


def _older(store: Store, version: int, changelog: str) -> list[tuple[str, str]]:
    with store.opened(changelog) as file:
        known = lineage(decode(SinglePass(file).pieces(), file.size))
    older = sorted(((v, i) for v, i in known if v < version), reverse=True)
    return [(f"{v}_{i}.zip", f"{v}_{i}.changelog") for v, i in older]


def _first_version(changelog: str) -> int:
    return int(re.match(r"\d+", changelog)[0])  # type: ignore[index]  # our own name, made above


def _open_zip(store: Store, name: str) -> ZipContent:
    with store.opened(name) as file:
        return read_zip(store.path(name), SinglePass(file))


def _changelogs(store: Store, steps: list[tuple[str, str]]) -> list[StateFile]:
    return [store.file(log, Kind.CHANGELOG) for _, log in reversed(steps)]


def _from_zip(store: Store, name: str, later: list[tuple[str, str]]) -> list[StateFile]:
    found = [store.file(name, Kind.ZIP)]
    content = store.remember(f"zip {name}", lambda: _open_zip(store, name))
    for path, expected in content.files.items():
        file = store.file(path, Kind.SST if path.startswith("SSTs/") else Kind.LOG)
        if expected is not None and file.size != expected:
            raise CheckpointCorruptError(file.path, f"it has {file.size} bytes, {name} says {expected}")
        found.append(file)
    return found + _changelogs(store, later)
