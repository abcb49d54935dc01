"""State of the RocksDB provider: zips that name SST files, read as Spark reads them, and changelogs.

Invariant: a version is whole only with one zip, exactly the SST and log files that this zip names (with their sizes),
and every changelog after it. With checkpoint format 2 a version is a number AND an id: files of other ids under the
same number belong to attempts that lost, and mean nothing.

Invariant: the table of contents at the end is never looked at. Java's ZipInputStream does not need it, so a zip that
lost it is whole for Spark, and the standard library's reader would refuse it. A member is unpacked piece by piece, and
only the few that the caller requests are kept.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from airflow_provider_ha.checkpoints.spark.byte_stream import (
    ByteStream,
    StreamCorruptError,
    UnsupportedFormatError,
    decode,
)
from airflow_provider_ha.checkpoints.spark.checksums import SinglePass
from airflow_provider_ha.checkpoints.spark.files import FileGoneError
from airflow_provider_ha.checkpoints.spark.state_records import lineage
from airflow_provider_ha.checkpoints.spark.state_store import Chain, StateFile, StateFileKind, StateStore
from airflow_provider_ha.errors import CheckpointCorruptError


_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MARK, _DESCRIPTOR_MARK = b"PK\x03\x04", b"PK\x07\x08"
_STORED, _DEFLATED = 0, 8
# The sizes and the checksum follow the content, because they were not known before it.
_HAS_DESCRIPTOR = 0x08
_DESCRIPTOR = struct.Struct("<III")
# Deflate makes at most 1032 bytes of one.
_DEFLATE_RATIO = 1032
_INPUT, _OUTPUT = 16 << 10, 64 << 10
# RocksDB begins a new MANIFEST, the only member that grows, at 1 GiB; a record more may fit into the old one.
_MEMBER_LIMIT = (1 << 30) + (64 << 20)
# Tables and archived logs are not in it: RocksDB's directory without them is a handful of files.
_MEMBERS_LIMIT = 10_000
# All members together: beside the MANIFEST they are small.
_TOTAL_LIMIT = 2 * _MEMBER_LIMIT
# No file system takes a longer name, and all members are plain files of one directory.
_NAME_LIMIT = 255


class ZipCorruptError(ValueError):
    """The bytes are not a whole zip; the text says which member is bad and why."""


@dataclass(frozen=True, slots=True)
class ZipMembers:
    """Members of a zip.

    :param kept: Content of the requested members by name.
    """

    sizes: dict[str, int]
    kept: dict[str, bytes]


def read_members(pieces: Iterable[bytes], size: int, keep: Mapping[str, int]) -> ZipMembers:
    """Read all members to their end, and compare them with their checksums.

    :param keep: Maximum size in bytes by name, for the requested members.
    :raises ZipCorruptError: The zip is empty, or a member is cut, garbled, or has an impossible header.
    """
    stream, found = ByteStream(pieces), ZipMembers({}, {})
    try:
        while stream.peek(4) == _LOCAL_MARK:
            if len(found.sizes) == _MEMBERS_LIMIT:
                raise ZipCorruptError(f"it has more than {_MEMBERS_LIMIT} members")
            _Member(stream, size, keep, _TOTAL_LIMIT - sum(found.sizes.values())).read(found)
    except StreamCorruptError as error:
        raise ZipCorruptError(str(error)) from None
    if not found.sizes:
        raise ZipCorruptError("it does not begin with a member")
    return found


class _Member:
    """A member whose head is read."""

    def __init__(self, stream: ByteStream, size: int, keep: Mapping[str, int], room: int) -> None:
        self._stream = stream
        head = _LOCAL.unpack(stream.take(_LOCAL.size))
        _, _, self._flags, self._method, _, _, self._sum, self._packed, self._unpacked, name_length, extra = head
        if name_length > _NAME_LIMIT:
            raise ZipCorruptError(f"a member's name claims {name_length} bytes, {_NAME_LIMIT} is the most")
        self._name = stream.take(name_length).decode(errors="replace")
        stream.skip(extra)
        self._limit = min(keep.get(self._name, _MEMBER_LIMIT), _MEMBER_LIMIT, room)
        self._content: list[bytes] | None = [] if self._name in keep else None
        self._size = self._crc = 0
        self._check_claims(size - stream.position)

    def read(self, found: ZipMembers) -> None:
        """Read to the end of the member, and put it into *found*."""
        if self._method == _DEFLATED:
            self._inflate()
        else:
            self._copy()
        if self._flags & _HAS_DESCRIPTOR:
            if self._stream.peek(4) == _DESCRIPTOR_MARK:
                self._stream.take(4)
            self._sum, _, self._unpacked = _DESCRIPTOR.unpack(self._stream.take(_DESCRIPTOR.size))
        if self._size != self._unpacked or self._crc != self._sum:
            raise ZipCorruptError(f"member {self._name!r} has a wrong size or checksum")
        found.sizes[self._name] = self._size
        if self._content is not None:
            found.kept[self._name] = b"".join(self._content)

    def _check_claims(self, left: int) -> None:
        if self._method not in {_STORED, _DEFLATED} or (self._method == _STORED and self._flags & _HAS_DESCRIPTOR):
            raise ZipCorruptError(f"member {self._name!r} has the unknown method {self._method}")
        if self._flags & _HAS_DESCRIPTOR:
            return
        if self._packed > left:
            raise ZipCorruptError(f"member {self._name!r} claims {self._packed} packed bytes, {left} are there")
        ratio = _DEFLATE_RATIO if self._method == _DEFLATED else 1
        if self._unpacked > self._packed * ratio:
            reason = f"claims to unpack {self._packed} bytes to {self._unpacked}, which it cannot"
            raise ZipCorruptError(f"member {self._name!r} {reason}")

    def _copy(self) -> None:
        left = self._packed
        while left:
            piece = self._stream.some(left)
            if not piece:
                raise ZipCorruptError(f"it ends inside member {self._name!r}: {left} more bytes are claimed")
            left -= len(piece)
            self._add(piece)

    def _inflate(self) -> None:
        inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        while not inflater.eof:
            # What did not fit into the last piece of output comes first.
            packed = inflater.unconsumed_tail or self._stream.some(_INPUT)
            try:
                self._add(inflater.decompress(packed, _OUTPUT) if packed else inflater.flush())
            except zlib.error as error:
                raise ZipCorruptError(f"member {self._name!r} does not decompress: {error}") from None
            if not packed and not inflater.eof:
                raise ZipCorruptError(f"it ends inside member {self._name!r}")
        self._stream.back(len(inflater.unused_data))

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            raise ZipCorruptError(
                f"member {self._name!r} unpacks to more than {self._limit} bytes, the most it can have"
            )
        self._crc = zlib.crc32(piece, self._crc)
        if self._content is not None:
            self._content.append(piece)


_NAME = re.compile(r"(\d+)(?:_([^.]+))?\.(zip|changelog)")
# Spark 4.0 writes the number of the checkpoint format here, and reads no other; 4.1 and later write and read 1.
INNER_VERSIONS = ("v1", "v2")
# The inner metadata names a table in about 100 bytes: this is enough for 80,000 tables in one partition.
METADATA_LIMIT = 8 << 20


def chains(store: StateStore, version: int, state_id: str | None) -> list[Chain]:
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


def repairs(store: StateStore, version: int, state_id: str | None) -> list[Chain]:
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


def changelogs_used(store: StateStore) -> bool:
    """Return whether this store has any changelog: then a missing one is the fault, else the zip is."""
    return any(name.endswith(".changelog") for name in store.names)


def has_unique_name(name: str) -> bool:
    """Return whether a file name of a store contains an id (format 2): other processes never write the same name."""
    match = _NAME.fullmatch(name)
    return match is not None and match[2] is not None


def read_zip(path: str, read: SinglePass) -> dict[str, int]:
    """Return the sizes in bytes of the files that the zip at *path* names, by path relative to the store.

    :raises CheckpointCorruptError: It is not a zip, or its inner ``metadata`` cannot be read.
    """
    try:
        members = read_members(read.pieces(), read.size, {"metadata": METADATA_LIMIT})
        version, _, body = members.kept["metadata"].decode().partition("\n")
        metadata = json.loads(body)
        files = {f"SSTs/{file['dfsSstFileName']}": int(file["sizeBytes"]) for file in metadata["sstFiles"]}
        files |= {f"logs/{file['dfsLogFileName']}": int(file["sizeBytes"]) for file in metadata.get("logFiles") or ()}
    except ZipCorruptError as error:
        raise CheckpointCorruptError(path, f"it is not a whole zip: {error}") from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CheckpointCorruptError(path, f"its inner metadata cannot be read: {error}") from None
    if version not in INNER_VERSIONS:
        raise CheckpointCorruptError(path, f"its inner metadata has the unknown version {version!r}")
    return files


def _steps(store: StateStore, version: int, state_id: str | None) -> list[tuple[str, str]]:
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
    except UnsupportedFormatError:
        return steps


def _below(store: StateStore, changelog: str) -> list[tuple[str, str]]:
    """Return the steps below a version, as its own changelog knows them; none where it cannot be read."""
    try:
        return _older(store, _first_version(changelog), changelog) if changelog in store.names else []
    except (StreamCorruptError, UnsupportedFormatError):
        return []


def _older(store: StateStore, version: int, changelog: str) -> list[tuple[str, str]]:
    with store.opened(changelog) as file:
        known = lineage(decode(SinglePass(file).pieces(), file.size))
    older = sorted(((v, i) for v, i in known if v < version), reverse=True)
    return [(f"{v}_{i}.zip", f"{v}_{i}.changelog") for v, i in older]


def _first_version(changelog: str) -> int:
    return int(re.match(r"\d+", changelog)[0])  # type: ignore[index]  # our own name, made above


def _open_zip(store: StateStore, name: str) -> dict[str, int]:
    with store.opened(name) as file:
        return read_zip(store.path(name), SinglePass(file))


def _changelogs(store: StateStore, steps: list[tuple[str, str]]) -> list[StateFile]:
    return [store.file(log, StateFileKind.CHANGELOG) for _, log in reversed(steps)]


def _from_zip(store: StateStore, name: str, later: list[tuple[str, str]]) -> list[StateFile]:
    found = [store.file(name, StateFileKind.ZIP)]
    for path, expected in store.remember(f"zip {name}", lambda: _open_zip(store, name)).items():
        file = store.file(path, StateFileKind.SST if path.startswith("SSTs/") else StateFileKind.LOG)
        if file.size != expected:
            raise CheckpointCorruptError(file.path, f"it has {file.size} bytes, {name} records {expected}")
        found.append(file)
    return found + _changelogs(store, later)
