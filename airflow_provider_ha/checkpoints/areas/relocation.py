"""Schema paths of a checkpoint that was moved.

Invariant: no other part of a checkpoint is absolute. ``transformWithState`` (and joins with operator metadata 2) name
their schema files by absolute path; a moved query dies with FileNotFoundException unless these point to its own files.
The copy is rewritten; its source keeps its bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.spark.atomic import hidden_checksum, write_aside
from airflow_provider_ha.checkpoints.spark.files import read
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.errors import CheckpointCorruptError
from airflow_provider_ha.storage.outage import outages


# 4.0 wrote the singular.
_SCHEMA_PATHS = ("stateSchemaFilePaths", "stateSchemaFilePath")
_DEPTH = 5  # state/<operator>/_metadata/v2/<batch>


def relocate(directory: Path, place: Path) -> None:
    """Make the schema paths of a checkpoint name its own files.

    :param directory: Current directory of its files; they may be links, and are replaced, never edited.
    :param place: Its future absolute path.
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
