"""What Spark has to read about a stateful operator before it opens its state: its metadata, and the schemas it names.

Metadata of version 1 (4.0 and later) is written again when it is gone, and passed over when it cannot be read. That of
version 2 (``transformWithState`` since 4.0, joins with state format 3 since 4.1) names the schema files, so an operator
of that layout does not start without it (``StreamingSymmetricHashJoinExec``, ``TransformWithStateExecBase``,
``OperatorStateMetadataV2Reader``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from airflow_provider_ha.checkpoints.format.files import FileGoneError, exists, is_directory, names, read, read_text
from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.tree import Directory
from airflow_provider_ha.errors import CheckpointCorruptError


# 4.0 wrote the singular.
_SCHEMA_PATHS = ("stateSchemaFilePaths", "stateSchemaFilePath")
_SCHEMA_HEAD = b"\x00\x02v3"


def first_metadata(operator: int) -> str:
    """Return the path of the metadata of version 1 of *operator*, relative to the checkpoint."""
    return f"{STATE}/{operator}/_metadata/metadata"


def names_schemas(directory: Directory, operator: int) -> bool:
    """Whether *operator* has the layout whose metadata, of version 2, names its schema files."""
    place = f"{STATE}/{operator}"
    return bool(names(directory, f"{place}/_stateSchema")) or is_directory(directory / place / "_metadata" / "v2")


def has_own_schema(directory: Directory, operator: int) -> bool:
    """Whether a store of the first partition has its schema beside it: every layout but that of version 2 has."""
    place = f"{STATE}/{operator}/0"
    stores = ["", *(f"/{name}" for name in names(directory, place) if name[:1].isalpha())]
    return any(exists(directory, f"{place}{store}/_metadata/schema") for store in stores)


def check_schemas_named(directory: Directory, operator: int, batch: int) -> None:
    """Look for what an operator that names its schemas needs to go on after *batch*.

    :param batch: Metadata that was written after it is not read.
    :raises CheckpointCorruptError: A file is missing, or cannot be read.
    """
    place = f"{STATE}/{operator}/_metadata/v2"
    written = [number for number in numbers(directory, place) if number <= batch]
    if not written:
        raise FileGoneError(place, f"no metadata of the operator up to batch {batch} is there")
    path = f"{place}/{written[-1]}"
    for schema in _schemas(path, read_text(directory, path)):
        if not read(directory, schema).startswith(_SCHEMA_HEAD):
            raise CheckpointCorruptError(schema, "it is no state schema of version 3")


def _schemas(path: str, text: str) -> Iterator[str]:
    """Yield the schema files that metadata names, relative to the checkpoint: it may have been moved since."""
    try:
        stores: list[dict[str, Any]] = json.loads(text.partition("\n")[2])["stateStoreInfo"]
        found = [paths for store in stores for key in _SCHEMA_PATHS if (paths := store.get(key))]
    except (AttributeError, ValueError, KeyError, TypeError):
        raise CheckpointCorruptError(path, "the operator's metadata cannot be read") from None
    for paths in found:
        for named in paths if isinstance(paths, list) else [paths]:
            yield f"{STATE}/{str(named).rpartition(f'/{STATE}/')[2]}"
