"""One query's checkpoint at one batch, with everything that is compared.

Invariant: it is one batch that Spark can continue from: the files in the closure of that batch, and nothing else in the
directory. A directory that Spark works in at the same time is read as it stands.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.comparison.schema import Schema, parse_schema
from airflow_provider_ha.checkpoints.format.closure import closure, source_log
from airflow_provider_ha.checkpoints.format.compactible_log import CompactibleLog
from airflow_provider_ha.checkpoints.format.layout import OFFSETS, STATE, progress
from airflow_provider_ha.checkpoints.format.metadata_log import (
    CommitsEntry,
    OffsetsEntry,
    read_commits,
    read_offsets,
    read_query_id,
)
from airflow_provider_ha.checkpoints.model import ManifestFile
from airflow_provider_ha.checkpoints.trees.files import read, read_text
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, StorageUnavailableError


@dataclass(frozen=True, slots=True)
class RecordedOperator:
    """What a checkpoint records of a stateful operator; releases before 4.0 record its schemas only.

    :param name: As Spark calls it: ``stateStoreSave``; empty where it is not recorded.
    :param stores: Store -> number of partitions.
    :param properties: What else is recorded of it (``transformWithState``), as text.
    :param schemas: Store -> schema.
    """

    name: str
    stores: Mapping[str, int]
    properties: str
    schemas: Mapping[str, Schema]


@dataclass(frozen=True, slots=True)
class Side:
    """One of two checkpoints that are compared.

    :param batch: N, committed.
    :param spark_version: The release that wrote it; ``None`` where it is not recorded.
    :param before: Entry of the batch before; ``None`` for the first one.
    :param inputs: File source -> every file that it has read up to N.
    :param state: Path relative to the checkpoint -> bytes, of the files that hold the state after N.
    :param digests: The same paths -> what a manifest says of them; empty without a manifest.
    :param identities: The same paths -> what an object store says of their bytes; empty on a disk. Files of equal
        identities are the same; of others nothing is known.
    """

    directory: Tree
    batch: int
    query_id: str
    spark_version: str | None
    offsets: OffsetsEntry
    before: OffsetsEntry | None
    commits: CommitsEntry
    inputs: Mapping[str, frozenset[str]]
    operators: Mapping[int, RecordedOperator]
    state: Mapping[str, int]
    digests: Mapping[str, ManifestFile] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)


def read_side(
    directory: Tree,
    batch: int | None = None,
    *,
    spark_version: str | None = None,
    digests: Mapping[str, ManifestFile] | None = None,
    identity: Callable[[str], str] | None = None,
) -> Side:
    """Read a checkpoint.

    :param batch: N; the newest committed one by default.
    :param identity: Path -> what an object store says of its bytes, where one does.
    :raises CheckpointMissingError: It has no such batch, or Spark has purged it.
    :raises CheckpointCorruptError: A file that the batch needs is missing or damaged.
    :raises StorageUnavailableError: A file could not be read, or the directory is not there.
    """
    if not directory.is_directory():
        raise _absent(directory)
    chosen = progress(directory).committed if batch is None else batch
    if chosen < 0:
        raise CheckpointMissingError(
            f"checkpoint {directory} has no committed batch", next_step="Wait for its first one"
        )
    files = closure(directory, chosen, with_planned=False).files
    directory.expect([name for name in files if _is_log(name)])
    offsets = read_offsets(directory, chosen)
    before = max((int(name.split("/")[1]) for name in files if _is_older_offsets(name, chosen)), default=None)
    state = {name: size for name, size in files.items() if _holds_state(name)}
    return Side(
        directory=directory,
        batch=chosen,
        query_id=read_query_id(directory),
        spark_version=spark_version,
        offsets=offsets,
        before=None if before is None else read_offsets(directory, before),
        commits=read_commits(directory, chosen),
        inputs=dict(_inputs(directory, offsets)),
        operators=dict(_operators(directory, files)),
        state=state,
        digests=digests or {},
        identities={} if identity is None else {name: identity(name) for name in state},
    )


def _absent(directory: Tree) -> StorageUnavailableError:
    what, step = directory.absence()
    return StorageUnavailableError(f"checkpoint {directory} {what}", next_step=step)


def _is_log(name: str) -> bool:
    return not name.startswith(f"{STATE}/") and not name.endswith(".crc")


def _is_older_offsets(name: str, batch: int) -> bool:
    log, _, number = name.partition("/")
    return log == OFFSETS and number.isdigit() and int(number) < batch


def _holds_state(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == STATE and not name.endswith(".crc") and not {"_metadata", "_stateSchema"} & set(parts)


def _inputs(directory: Tree, offsets: OffsetsEntry) -> Iterable[tuple[str, frozenset[str]]]:
    for position, source in enumerate(offsets.sources):
        last = offsets.log_offset(position)
        if last is not None:
            log = CompactibleLog(directory, source_log(directory, offsets, position))
            needed = {path.rpartition("/")[2] for path in log.closure(last)}
            entries = [entry for entry, name in log.entries.items() if name in needed]
            yield source, frozenset(str(json.loads(line).get("path")) for entry in entries for line in log.lines(entry))


def _operators(directory: Tree, files: Iterable[str]) -> Iterable[tuple[int, RecordedOperator]]:
    by_number: dict[int, list[list[str]]] = {}
    for name in files:
        parts = name.split("/")
        if parts[0] == STATE and parts[1].isdigit() and not name.endswith(".crc"):
            by_number.setdefault(int(parts[1]), []).append(parts)
    for number, paths in sorted(by_number.items()):
        name, stores, properties = _metadata(directory, paths)
        yield number, RecordedOperator(name, stores, properties, dict(_schemas(directory, paths)))


def _metadata(directory: Tree, paths: Iterable[list[str]]) -> tuple[str, dict[str, int], str]:
    """Return name, stores and properties of an operator, of its newest metadata in the closure; empty without any."""
    versions = {int(parts[4]): parts for parts in paths if parts[2:4] == ["_metadata", "v2"]}
    first = next((parts for parts in paths if parts[2:] == ["_metadata", "metadata"]), None)
    newest = versions[max(versions)] if versions else first
    if newest is None:
        return "", {}, ""
    path = "/".join(newest)
    try:
        found = json.loads(read_text(directory, path).partition("\n")[2])
        stores = {str(info["storeName"]): int(info["numPartitions"]) for info in found.get("stateStoreInfo") or ()}
        name = str((found.get("operatorInfo") or {}).get("operatorName", ""))
        return name, stores, str(found.get("operatorPropertiesJson", ""))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise CheckpointCorruptError(path, "the operator's metadata cannot be read") from None


def _schemas(directory: Tree, paths: Iterable[list[str]]) -> Iterable[tuple[str, Schema]]:
    """Yield (store, schema): of partition 0, or with ``transformWithState`` of the newest file of each store."""
    newest: dict[str, tuple[int, list[str]]] = {}
    for parts in paths:
        if parts[2] == "_stateSchema":
            batch = int(parts[4].partition("_")[0])
            newest[parts[3]] = max(newest.get(parts[3], (-1, [])), (batch, parts))
        elif parts[2] == "0" and parts[-2:] == ["_metadata", "schema"]:
            store = parts[3] if parts[3] != "_metadata" else "default"
            newest[store] = (0, parts)
    for store, (_, parts) in sorted(newest.items()):
        yield store, parse_schema(read(directory, "/".join(parts)))
