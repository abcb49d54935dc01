"""Metadata of a stateful operator and its schemas, which Spark reads before it opens the state.

Metadata of version 1 (4.0 and later) is written again when it is missing, and skipped when it cannot be read. Version 2
(``transformWithState`` since 4.0, joins with state format 3 since 4.1) contains the names of the schema files, so an
operator of that layout does not start without it (``StreamingSymmetricHashJoinExec``, ``TransformWithStateExecBase``,
``OperatorStateMetadataV2Reader``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_ha.checkpoints.format.byte_stream import StreamCorruptError
from airflow_provider_ha.checkpoints.format.layout import STATE, numbers
from airflow_provider_ha.checkpoints.format.schema_file import check_schemas
from airflow_provider_ha.checkpoints.trees.files import FileGoneError, exists, names, read, read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError


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
