"""Batches of a query in an Iceberg table, from its snapshots' summaries (``spark.sql.streaming.queryId`` and others).

Iceberg's sink executes a batch, then looks for the newest snapshot of the query from the current one backwards, and
drops the rows of a batch that is not above that snapshot's batch (``SparkWrite.BaseStreamingWrite`` of Iceberg 1.12,
apache/iceberg#10892). A query that is set back loses the rows of as many batches as the table is ahead; it does not
duplicate them.

Invariant: only current metadata is used. A table of a Hadoop catalog, or a table named by its path, contains the
pointer to it (Iceberg specification, "File System Tables"). For every other table its catalog does, which is not
accessed from here. If snapshots have expired and the remaining ones do not name the query, its batches are unknown.
Only metadata is read, never the data.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.sink_type import Conf, QueryMemory, TableSink, readable_place
from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, is_s3, place_of
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, RestoreUnknownError


ICEBERG = "iceberg"  # format of the sink
METADATA = "metadata"
QUERY_ID = "spark.sql.streaming.queryId"
EPOCH_ID = "spark.sql.streaming.epochId"
_HINT = "version-hint.text"
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
_OF_A_CATALOG = re.compile(r"\d+-[0-9a-f-]{36}(\.gz)?\.metadata\.json(\.gz)?")
_REPAIR = "Repair the table, then plan again"


class IcebergSink(TableSink):
    """Iceberg tables. The place of a table is known if it is named by its path, or its driver has found it."""

    table = "Iceberg table"

    def takes(self, source: str) -> bool:
        """Match the format, in any case."""
        return source.lower() == ICEBERG

    def sink(self, source: str, path: str | None) -> QuerySink:
        """Return the directory of a table that is named by its path; otherwise only the driver knows it."""
        return QuerySink(kind=SinkKind.OTHER, format=source, table=readable_place(path) if is_path(path) else None)

    def identity(self, options: Mapping[str, str]) -> str | None:
        """Return the directory of the table in its normal form, or its name."""
        named = options.get("path")
        return place_of(options) if is_path(named) else named

    def refusal(self, path: str, conf: Conf) -> tuple[str, str] | None:  # noqa: ARG002  # no conf locks a path
        """Refuse a table on S3 named by its path: two drivers could write the same version."""
        return unfenced(path) if is_path(path) and is_s3(path) else None

    def memory(self, sink: QuerySink, reach: StorageAccess) -> QueryMemory | None:
        """Return the metadata of the table."""
        return IcebergMetadata(sink.table, reach) if sink.table is not None else None


class IcebergMetadata(QueryMemory):
    """The metadata of a table whose directory identifies the current version."""

    kind = "Iceberg table"
    folder = METADATA

    def exists(self) -> bool:
        """Return whether the table exists: a directory with metadata."""
        return any(_VERSION.fullmatch(name) or _OF_A_CATALOG.fullmatch(name) for name in names(self._record()))

    def last_batch(self, query_id: str) -> int:
        """Return the query's highest batch in the table; -1 without a batch or a table.

        :raises RestoreUnknownError: The metadata is not Iceberg's, or the relevant snapshots are gone.
        """
        for at, snapshot in self._chain():
            if snapshot is None:  # guard: expired-snapshots-have-nothing
                raise self._unknown(
                    f"snapshot {at} and those before it have expired, and no remaining one names the query",
                    "Check the table for the last rows of the query",
                )
            try:
                summary = snapshot.get("summary") or {}
                if summary.get(QUERY_ID) == query_id:
                    return int(summary[EPOCH_ID])
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise self._not_understood(error) from error
        return -1

    def ancestors(self) -> tuple[tuple[int, ...], int | None]:
        """Return the ids of the current snapshot and its ancestors, newest first; and the first expired ancestor.

        :raises RestoreUnknownError: The metadata is not Iceberg's, or only a catalog knows the current version.
        """
        chain = list(self._chain())
        expired = next((at for at, snapshot in chain if snapshot is None), None)
        return tuple(at for at, snapshot in chain if snapshot is not None), expired

    def _chain(self) -> Iterator[tuple[int, Any]]:
        """Yield the current snapshot and its ancestors, with their ids; the first expired one is ``None``."""
        current = self._current() or {}
        try:
            snapshots = {one["snapshot-id"]: one for one in current.get("snapshots") or ()}
            at = current.get("current-snapshot-id")
            while at is not None and at != -1:
                yield at, snapshots.get(at)
                at = snapshots[at].get("parent-snapshot-id") if at in snapshots else None
        except (AttributeError, KeyError, TypeError) as error:
            raise self._not_understood(error) from error

    def _current(self) -> dict[str, Any] | None:
        """Return the current metadata; ``None`` when there is no table."""
        tree = self._record()
        found = names(tree)
        versions = {int(match[1]): name for name in found if (match := _VERSION.fullmatch(name))}
        if not versions:
            if any(_OF_A_CATALOG.fullmatch(name) for name in found):
                raise self._unknown("only its catalog knows the current metadata, and is not queried from here", "")
            return None
        newest = max(versions)
        if _HINT in found and (hinted := self._hint(tree)) > newest:
            raise self._unknown(f"version {hinted} of its metadata is missing", _REPAIR)
        return self._parsed(tree, versions[newest])

    def _hint(self, tree: Tree) -> int:
        try:
            return int(read(tree, _HINT))
        except (CheckpointCorruptError, ValueError):
            return -1  # Iceberg then lists the directory, like this module always

    def _parsed(self, tree: Tree, name: str) -> dict[str, Any]:
        unpack: Callable[[bytes], bytes] = gzip.decompress if ".gz" in name else bytes
        try:
            document = json.loads(unpack(read(tree, name)))
        except (CheckpointCorruptError, ValueError, OSError, EOFError) as error:
            raise self._unknown(f"{name} cannot be read: {error}", _REPAIR) from error
        if not isinstance(document, dict):
            raise self._unknown(f"{name} is not table metadata", _REPAIR)
        return document

    def _not_understood(self, error: Exception) -> RestoreUnknownError:
        return self._unknown(f"its metadata cannot be understood ({error!r})", _REPAIR)


def is_path(named: str | None) -> bool:
    """Return whether a writer's ``path`` is a path; Iceberg treats a value without a slash as a table name."""
    return named is not None and "/" in named


def unfenced(table: str) -> tuple[str, str]:
    """Return the reason to refuse a table on S3 whose catalog allows concurrent writers, and the next step."""
    reason = (
        f"writes to the Iceberg table {table}, whose versions are files that two drivers can overwrite on S3: a "
        "driver that was taken for dead would undo commits of its successor, and their rows would be lost"
    )
    next_step = (
        "Keep the table in a catalog that swaps versions atomically (REST, Hive, Glue, JDBC), set lock-impl of the "
        "Hadoop catalog, or keep it on HDFS or a mounted directory"
    )
    return reason, next_step
