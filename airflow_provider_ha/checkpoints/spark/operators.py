"""Spark's record of a stateful operator: name, stores, partitions, metadata and schemas, and schemas that were moved.

Invariant: absence is valid. Releases before 4.0 have no such record, so a missing file means "as in the pinned conf and
the directories". So does an unreadable version 1 file: every release starts without it.

A version, a number of column families, and for each family its name, and the key, the value and two encodings as JSON
in chunks. Invariant: a schema is complete when all announced parts exist; later bytes are not read.

Metadata of version 1 (4.0 and later) is written again when it is missing, and skipped when it cannot be read. Version 2
(``transformWithState`` since 4.0, joins with state format 3 since 4.1) contains the names of the schema files, so an
operator of that layout does not start without it (``StreamingSymmetricHashJoinExec``, ``TransformWithStateExecBase``,
``OperatorStateMetadataV2Reader``).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.spark.atomic import hidden_checksum, write_aside
from airflow_provider_ha.checkpoints.spark.byte_stream import (
    ByteStream,
    StreamCorruptError,
    UnsupportedFormatError,
    decode,
)
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import STATE, numbers
from airflow_provider_ha.checkpoints.spark.checksums import SinglePass
from airflow_provider_ha.checkpoints.spark.files import FileGoneError, exists, names, opened, read, read_text
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.storage.outage import outages


_VERSION = b"v3"
_COUNT, _LENGTH, _ID = struct.Struct(">i"), struct.Struct(">H"), struct.Struct(">h")
# The last one is optional, and then an empty object.
_DOCUMENTS = 4


def check_schemas(data: bytes) -> int:
    """Return the number of column families.

    :raises StreamCorruptError: It is cut, or no JSON is where one has to be.
    """
    stream = ByteStream([data])
    if _text(stream) != _VERSION:
        raise StreamCorruptError("it is no state schema of version 3")
    families = _number(stream, _COUNT)
    for _ in range(families):
        _text(stream)
        _number(stream, _ID)
        _schema_document(stream)
        _number(stream, _ID)
        for _ in range(_DOCUMENTS - 1):
            _schema_document(stream)
    return families


def _schema_document(stream: ByteStream) -> None:
    text = b"".join(_text(stream) for _ in range(_number(stream, _COUNT)))
    try:
        json.loads(text)
    except ValueError:
        raise StreamCorruptError("a schema in it is not JSON") from None


def _text(stream: ByteStream) -> bytes:
    return stream.take(_number(stream, _LENGTH))


def _number(stream: ByteStream, kind: struct.Struct) -> int:
    value: int = kind.unpack(stream.take(kind.size))[0]
    return value


# 4.0 wrote the singular.
_SCHEMA_PATHS = ("stateSchemaFilePaths", "stateSchemaFilePath")
_JOIN = "symmetricHashJoin"


def first_metadata(operator: int) -> str:
    """Return the path of the metadata of version 1 of *operator*, relative to the checkpoint."""
    return f"{STATE}/{operator}/_metadata/metadata"


def names_schemas(directory: Tree, operator: int) -> bool:
    """Return whether *operator* has the layout whose metadata, of version 2, names its schema files."""
    place = f"{STATE}/{operator}"
    return bool(names(directory, f"{place}/_stateSchema")) or (directory / place / "_metadata" / "v2").is_directory()


def has_own_schema(directory: Tree, operator: int) -> bool:
    """Return whether a store of the first partition has its schema next to it, as in all layouts but version 2."""
    place = f"{STATE}/{operator}/0"
    stores = ["", *(f"/{name}" for name in names(directory, place) if name[:1].isalpha())]
    return any(exists(directory, f"{place}{store}/_metadata/schema") for store in stores)


def check_schemas_named(directory: Tree, operator: int, batch: int) -> list[str]:
    """Check the files of an operator with named schemas for a start after *batch*; return missing schemas.

    A join writes a missing schema again, ``transformWithState`` reads all schemas.

    :param batch: Later metadata is not read.
    :raises CheckpointCorruptError: A file is missing and needed, or cannot be read.
    """
    place = f"{STATE}/{operator}/_metadata/v2"
    written = [number for number in numbers(directory, place) if number <= batch]
    if not written:
        raise FileGoneError(place, f"no metadata of the operator up to batch {batch} is there")
    path = f"{place}/{written[-1]}"
    document = _document(path, read_text(directory, path))
    gone = []
    for schema in _schemas(path, document):
        try:
            check_schemas(read(directory, schema))
        except FileGoneError:  # noqa: PERF203  # each schema for itself
            if _name(document) != _JOIN:
                raise
            gone.append(schema)
        except StreamCorruptError as error:
            raise CheckpointCorruptError(schema, str(error)) from None
    return gone


def _document(path: str, text: str) -> dict[str, Any]:
    try:
        document = json.loads(text.partition("\n")[2])
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise CheckpointCorruptError(path, "the operator's metadata cannot be read")
    return document


def _name(document: Mapping[str, Any]) -> str:
    info = document.get("operatorInfo")
    return str(info.get("operatorName")) if isinstance(info, dict) else ""


def _schemas(path: str, document: Mapping[str, Any]) -> list[str]:
    """Return the schema files that metadata names, relative to the checkpoint: it may have been moved since."""
    try:
        stores: list[dict[str, Any]] = document["stateStoreInfo"]
        found = [paths for store in stores for key in _SCHEMA_PATHS if (paths := store.get(key))]
    except (AttributeError, KeyError, TypeError):
        raise CheckpointCorruptError(path, "the operator's metadata cannot be read") from None
    each = (named for paths in found for named in (paths if isinstance(paths, list) else [paths]))
    return [f"{STATE}/{str(named).rpartition(f'/{STATE}/')[2]}" for named in each]


DEFAULT_STORE = "default"
# A join has all four, or, from its format 3 on, all of them in the default store.
_JOIN_STORES = ("left-keyToNumValues", "left-keyWithIndexToValue", "right-keyToNumValues", "right-keyWithIndexToValue")
# What else has a directory in a partition: RocksDB's table files and archived logs.
_NOT_STORES = frozenset({"SSTs", "logs"})
# The key schema of an operator without keys (global aggregation) or with the one null key (global limit).
_NO_KEY = re.compile(rb'\]|\{"name":"[^"]*","type":"(?:void|null)"')


# A file of the HDFS-backed provider, and the row of one null field as Spark lays it out: its null bit, an empty word.
_WRITTEN = re.compile(r"(\d+)\.(?:delta|snapshot)")
_NULL_KEY = bytes([1]) + bytes(15)
# Its one key is null, so it has state in partition 0 only.
_GLOBAL_LIMIT = "globalLimit"


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What an operator's own metadata says; no name where there is none."""

    stores: tuple[str, ...]
    partitions: int | None
    name: str


@dataclass(frozen=True, slots=True)
class StatefulOperator:
    """One stateful operator.

    :param stores: Its stores; ``default`` is in the partition's own directory.
    :param partitions: How many it has; ``None`` when only the pinned conf tells.
    :param keyless: Whether all its state is in partition 0, at any number of partitions.
    :param found: How many partitions have a directory.
    """

    number: int
    stores: tuple[str, ...]
    partitions: int | None
    keyless: bool
    found: int

    def count(self, pinned: int | None) -> int:
        """Return in how many partitions it must have state; the pinned conf wins, as it does in Spark."""
        return 1 if self.keyless else pinned or self.partitions or self.found

    def places(self, pinned: int | None) -> list[str]:
        """Return the paths of all stores that must have a version.

        :param pinned: ``spark.sql.shuffle.partitions`` as the offset log has it; ``None`` in logs of Spark 2.1.
        """
        count = self.count(pinned)
        inner = ["" if name == DEFAULT_STORE else f"/{name}" for name in self.stores]
        return [f"{STATE}/{self.number}/{partition}{name}" for partition in range(count) for name in inner]


def read_operator(directory: Tree, number: int) -> StatefulOperator:
    """Return what is recorded about operator *number* of the checkpoint.

    :raises CheckpointCorruptError: Its metadata of version 2 is there and cannot be read.
    """
    place = f"{STATE}/{number}"
    metadata = newest_metadata(directory, number)
    found = len(numbers(directory, place))
    recorded = _Recorded(_seen_stores(directory, f"{place}/0"), None, "")
    if metadata:
        try:
            recorded = _parse(metadata, read_text(directory, metadata))
        except CheckpointCorruptError:
            if metadata != first_metadata(number):
                raise
    keyless = _is_keyless(directory, f"{place}/0")
    if keyless is None:
        # Releases before 3.1 write no schema and before 4.0 no metadata: then only directories and keys tell.
        alone = not recorded.name and numbers(directory, place) == [0]
        keyless = recorded.name == _GLOBAL_LIMIT or (
            alone and recorded.stores == (DEFAULT_STORE,) and _keys_are_empty(directory, f"{place}/0")
        )
    return StatefulOperator(number, recorded.stores, recorded.partitions, keyless, found)


def check_metadata(directory: Tree, path: str) -> None:
    """Read the metadata of an operator.

    :raises CheckpointCorruptError: It is not there, or cannot be read.
    """
    _parse(path, read_text(directory, path))


def substores(directory: Tree, place: str) -> tuple[str, ...]:
    """Return the names of the stores that have a separate directory in a partition."""
    return tuple(
        name
        for name in names(directory, place)
        if name[:1].isalpha() and name not in _NOT_STORES and (directory / place / name).is_directory()
    )


def _seen_stores(directory: Tree, partition: str) -> tuple[str, ...]:
    """Return the stores of an operator without metadata, by what is in its first partition.

    One store of a join says that there are four: releases before 4.0 record their names nowhere.
    """
    seen = substores(directory, partition)
    return _JOIN_STORES if set(seen) & set(_JOIN_STORES) else seen or (DEFAULT_STORE,)


def newest_metadata(directory: Tree, operator: int) -> str | None:
    """Return the path of the metadata that Spark reads of *operator*, of version 2 if there is one."""
    newer = numbers(directory, f"{STATE}/{operator}/_metadata/v2")
    path = f"{STATE}/{operator}/_metadata/v2/{newer[-1]}" if newer else first_metadata(operator)
    return path if exists(directory, path) else None


def _parse(path: str, text: str) -> _Recorded:
    document = _document(path, text)
    try:
        infos: list[dict[str, Any]] = document["stateStoreInfo"]
        stores = tuple(str(info["storeName"]) for info in infos)
        name = str((document.get("operatorInfo") or {}).get("operatorName", ""))
        return _Recorded(stores, max(int(info["numPartitions"]) for info in infos), name)
    except (AttributeError, ValueError, KeyError, TypeError):
        raise CheckpointCorruptError(path, "the operator's metadata cannot be read") from None


def _is_keyless(directory: Tree, place: str) -> bool | None:
    """Return whether the operator has no key, by its schema; ``None`` when there is no schema."""
    path = f"{place}/_metadata/schema"
    if not exists(directory, path):
        return None
    # The key's schema comes first, so the first list of fields is the key's.
    _, _, fields = read(directory, path).partition(b'"fields":[')
    return bool(_NO_KEY.match(fields))


def _keys_are_empty(directory: Tree, place: str) -> bool:
    """Return whether the first key that the HDFS-backed store at *place* holds is none, or the one null key of a limit.

    True where no key can be read too: a partition alone is then taken for all there is.
    """
    written = [(int(match[1]), name) for name in names(directory, place) if (match := _WRITTEN.fullmatch(name))]
    for _, name in sorted(written, reverse=True):
        try:
            with opened(directory, f"{place}/{name}") as file:
                stream = ByteStream(decode(SinglePass(file).pieces(), file.size))
                length = int.from_bytes(stream.take(4), "big", signed=True)
                if length >= 0:
                    return length == 0 or (length == len(_NULL_KEY) and stream.take(length) == _NULL_KEY)
        except (CheckpointCorruptError, StreamCorruptError, UnsupportedFormatError):  # noqa: PERF203  # each file for itself
            continue
    return True


_DEPTH = 5  # state/<operator>/_metadata/v2/<batch>


def relocate(directory: Path, place: Path) -> None:
    """Make the schema paths of a checkpoint name its own files.

    No other part of a checkpoint is absolute. ``transformWithState`` (and joins with operator metadata 2) name their
    schema files by absolute path; a moved query dies with FileNotFoundException unless these point to its own files.
    The copy is rewritten; its source keeps its bytes.

    :param directory: Current directory of its files; they may be links, and are replaced, never edited.
    :raises CheckpointCorruptError: The metadata of an operator cannot be read.
    """
    for path in sorted(directory.glob("state/*/_metadata/v2/*")):
        if path.name.isdigit():
            _relocate(path, str(path.relative_to(directory)), place)


def is_relocated(name: str) -> bool:
    """Whether a file has absolute paths of its checkpoint: *name* is relative to the checkpoint."""
    parts = name.split("/")
    return len(parts) == _DEPTH and parts[0] == "state" and parts[2:4] == ["_metadata", "v2"] and parts[4].isdigit()


def checked_by(name: str) -> str:
    """Return the file that the checksum *name* (Spark's or Hadoop's hidden one) belongs to; other names unchanged."""
    place, slash, own = name.rpartition("/")
    if not own.endswith(".crc"):
        return name
    while own.endswith(".crc"):
        own = own.removesuffix(".crc").removeprefix(".")
    return f"{place}{slash}{own}"


def relocated(data: bytes, name: str, place: str) -> bytes | None:
    """Return operator metadata with the schema paths of another place; ``None`` without changes.

    :param name: Of the file, relative to the checkpoint.
    :param place: Absolute path, or URI, of the checkpoint.
    :raises CheckpointCorruptError: It cannot be read.
    """
    try:
        version, _, body = data.decode().partition("\n")
        content = json.loads(body)
    except ValueError:
        raise CheckpointCorruptError(name, "it is not JSON") from None
    moved = _moved(content, place)
    return None if moved == content else f"{version}\n{json.dumps(moved, separators=(',', ':'))}".encode()


def _relocate(path: Path, name: str, place: Path) -> None:
    moved = relocated(read(LocalTree(path.parent), path.name), name, str(place))
    if moved is not None:
        with outages("relocated", path):
            # Spark's own checksum covers the old bytes; without a checksum, Spark compares nothing.
            checksum = path.with_name(f"{path.name}.crc")
            for stale in (checksum, hidden_checksum(checksum)):
                stale.unlink(missing_ok=True)
            write_aside(path, moved)


def _moved(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        return {
            key: _new_path(item, place) if key in _SCHEMA_PATHS else _moved(item, place) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_moved(item, place) for item in value]
    return value


def _new_path(value: Any, place: str) -> Any:
    if isinstance(value, list):
        return [_new_path(item, place) for item in value]
    if not isinstance(value, str) or "/state/" not in value:
        return value
    scheme = "file:" if value.startswith("file:") and place.startswith("/") else ""
    return f"{scheme}{place}/state/{value.rpartition('/state/')[2]}"
