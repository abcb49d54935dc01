"""Batches of a query in a Delta table (``txn`` actions of its log) or an Iceberg table (summaries of its snapshots).

Delta's sink commits each batch with the query's id and the batch's number, and skips a batch that is not above the
highest number of that id, without executing its plan: for a restart, it has the role of a file sink's log (Delta
protocol, "Transaction Identifiers").

Invariant: only a complete log is used. The newest commit with the query's id decides, and usually is recent; only where
older commits were removed is a checkpoint of the log needed, which is Parquet (extra ``delta``).

Iceberg's sink executes a batch, then looks for the newest snapshot of the query from the current one backwards, and
drops the rows of a batch that is not above that snapshot's batch (``SparkWrite.BaseStreamingWrite`` of Iceberg 1.12,
apache/iceberg#10892). A query that is set back loses the rows of as many batches as the table is ahead; it does not
duplicate them.

Invariant: only current metadata is used. A table of a Hadoop catalog, or a table named by its path, contains the
pointer to it (Iceberg specification, "File System Tables"). For every other table its catalog does, which is not
accessed from here. If snapshots have expired and the remaining ones do not name the query, its batches are unknown.
Only logs and metadata are read, never the data.
"""

from __future__ import annotations

import gzip
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.sink_type import Conf, QueryMemory, TableSink, readable_place
from airflow_provider_ha.checkpoints.spark.files import names, read
from airflow_provider_ha.checkpoints.spark.object_tree import SCHEMES
from airflow_provider_ha.checkpoints.spark.places import StorageAccess, is_s3, place_of
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.errors import CheckpointCorruptError, RestoreUnknownError
from airflow_provider_ha.uris import split


DELTA = "delta"  # format of the sink
LOG = "_delta_log"
SINGLE_DRIVER = "S3SingleDriverLogStore"
"""Delta's default on S3, by the last part of its class: it looks first and writes later, under a lock of its JVM."""
_FENCED_STORE = (
    'Set spark.delta.logStore.s3a.impl=io.delta.storage.S3DynamoDBLogStore (Delta, "Multi-cluster setup"), or keep the '
    "table on HDFS or a mounted directory"
)
_REPAIR = "Repair the table, then plan again"
_Found = TypeVar("_Found", int, str)
_COMMIT = re.compile(r"(\d{20})\.json")
# In one file, in so many parts, or with a unique id (version 2 of the specification).
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint(\.parquet|\.\d{10}\.(?P<parts>\d{10})\.parquet|\.[0-9a-f-]{36}\.(json|parquet))"
)


class DeltaSink(TableSink):
    """Delta tables, on a mounted file system, HDFS or S3."""

    table = "Delta table"

    def takes(self, source: str) -> bool:
        """Match the format, in any case."""
        return source.lower() == DELTA

    def sink(self, source: str, path: str | None) -> QuerySink:
        """Return the directory of the table in its normal form, where it can be read from here."""
        return QuerySink(kind=SinkKind.OTHER, format=source, table=readable_place(path))

    def identity(self, options: Mapping[str, str]) -> str | None:
        """Return the directory of the table in its normal form."""
        return place_of(options)

    def refusal(self, path: str, conf: Conf) -> tuple[str, str] | None:
        """Refuse a table on S3 whose commits a driver taken for dead could overwrite."""
        store = unfenced_on_s3(path, conf)
        if store is not None:  # guard: delta-on-s3-without-a-fence
            reason = (
                f"writes to the Delta table {path} with {store}, which separates only the writers of one JVM: a driver "
                "that was considered dead would overwrite commits of its successor, and their rows would be lost"
            )
            return reason, _FENCED_STORE
        return None

    def memory(self, sink: QuerySink, reach: StorageAccess) -> QueryMemory | None:
        """Return the log of the table."""
        return DeltaLog(sink.table, reach) if sink.table is not None else None


class DeltaLog(QueryMemory):
    """The log of a table."""

    kind = "Delta table"
    folder = LOG

    def exists(self) -> bool:
        """Return whether the table exists: a directory with a commit or a checkpoint in its log."""
        return any(_COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name) for name in names(self._record()))

    def last_batch(self, query_id: str) -> int:
        """Return the query's highest batch in the table; -1 without a batch or a table.

        :raises RestoreUnknownError: The log is incomplete or not Delta's, or its checkpoint cannot be read here.
        """

        def batch(action: Mapping[str, Any]) -> int | None:
            return _batch(action.get("txn"), query_id)

        found = self._newest(batch, "txn", ("appId", "version"))
        return -1 if found is None else found

    def table_id(self) -> str:
        """Return the id of the table; raises as :meth:`last_batch` does, also for a log without an id."""

        def named(action: Mapping[str, Any]) -> str | None:
            metadata = action.get("metaData")
            return metadata.get("id") if isinstance(metadata, dict) else None

        found = self._newest(named, "metaData", ("id",))
        if found is None:
            raise self._unknown("its log does not contain its id", _REPAIR)
        return found

    def versions(self) -> tuple[frozenset[int], frozenset[int]]:
        """Return the versions with a commit, and the versions with a complete checkpoint of the log."""
        found = names(self._record())
        return frozenset(_commits(found)), frozenset(_whole_checkpoints(found))

    def _newest(
        self, find: Callable[[Mapping[str, Any]], _Found | None], column: str, fields: Sequence[str]
    ) -> _Found | None:
        """Return the result of *find* for the newest matching action; ``None`` without a match.

        :param column: Column of a checkpoint with these actions.
        """
        found = names(self._record())
        commits: set[int] = _commits(found)
        checkpoints: dict[int, list[str]] = _whole_checkpoints(found)
        version = max((*commits, *checkpoints), default=-1)
        while version in commits:
            said = [each for action in self._actions(f"{version:020d}.json") if (each := find(action)) is not None]
            if said:
                return said[-1]
            version -= 1
        if version < 0:
            return None
        if version not in checkpoints:
            raise self._unknown(f"commit {version} is missing, and no checkpoint replaces it", _REPAIR)
        rows = (
            row
            for name in checkpoints[version]
            for row in (self._actions(name) if name.endswith(".json") else self._rows(name, column, fields))
        )
        said = [each for row in rows if (each := find(row)) is not None]
        return max(said, default=None)

    def _actions(self, name: str) -> Iterator[dict[str, Any]]:
        try:
            for line in read(self._record(), name).splitlines():
                if line.strip() and isinstance(action := json.loads(line), dict):
                    yield action
        except (CheckpointCorruptError, ValueError) as error:
            raise self._unknown(f"{name} cannot be read: {error}", _REPAIR) from error

    def _rows(self, name: str, column: str, fields: Sequence[str]) -> Iterator[dict[str, Any]]:
        try:
            import pyarrow as pa  # an extra
            from pyarrow import parquet  # the same
        except ImportError as error:
            step = "pip install 'airflow-provider-ha[delta]'"
            raise self._unknown(f"{name} is Parquet, and pyarrow is not installed", step) from error
        log = self._record()
        try:
            place = log.local_path / name if log.local_path is not None else io.BytesIO(read(log, name))
            with parquet.ParquetFile(place) as file:
                if column in file.schema_arrow.names:
                    for batch in file.iter_batches(columns=[f"{column}.{each}" for each in fields]):
                        yield from batch.to_pylist()
        except (CheckpointCorruptError, OSError, pa.ArrowException) as error:
            raise self._unknown(f"{name} cannot be read: {error}", _REPAIR) from error


def unfenced_on_s3(table: str, conf: Conf) -> str | None:
    """Return the log store that would let two drivers write one commit of a table on S3; ``None`` if safe.

    :param conf: Returns a value of the session's conf.
    """
    scheme = split(table).scheme
    if scheme not in SCHEMES:
        return None
    named = conf(f"spark.delta.logStore.{scheme}.impl") or conf("spark.delta.logStore.class") or SINGLE_DRIVER
    return named if named.rpartition(".")[2] == SINGLE_DRIVER else None


def _commits(found: list[str]) -> set[int]:
    return {int(match[1]) for name in found if (match := _COMMIT.fullmatch(name))}


def _whole_checkpoints(found: list[str]) -> dict[int, list[str]]:
    """Return the files of a checkpoint by version, for versions with all parts of it."""
    whole: dict[int, list[str]] = {}
    parts: dict[tuple[int, int], list[str]] = {}
    for name in found:
        match = _CHECKPOINT.fullmatch(name)
        if match is None:
            continue
        if match["parts"] is None:
            whole[int(match["version"])] = [name]
        else:
            parts.setdefault((int(match["version"]), int(match["parts"])), []).append(name)
    return {version: files for (version, count), files in parts.items() if len(files) == count} | whole


def _batch(txn: Any, query_id: str) -> int | None:
    if not isinstance(txn, dict) or txn.get("appId") != query_id:
        return None
    version = txn.get("version")
    return version if isinstance(version, int) else None


ICEBERG = "iceberg"  # format of the sink
METADATA = "metadata"
QUERY_ID = "spark.sql.streaming.queryId"
EPOCH_ID = "spark.sql.streaming.epochId"
_HINT = "version-hint.text"
_VERSION = re.compile(r"v(\d+)(\.gz)?\.metadata\.json(\.gz)?")
_OF_A_CATALOG = re.compile(r"\d+-[0-9a-f-]{36}(\.gz)?\.metadata\.json(\.gz)?")


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
