"""What a Delta table has of a query: the ``txn`` actions of its log (Delta protocol, "Transaction Identifiers").

Delta's sink commits each batch with the query's id and the batch's number, and skips a batch that is not above the
highest number of that id, without executing its plan: so it is for a restart what a file sink's log is.

Invariant: the answer comes from a log that is whole. The newest commit that names the query decides, and usually is one
of the last; only where older commits were removed is a checkpoint of the log needed, which is Parquet (extra
``delta``). Only the log is read, never the data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.trees.files import names
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.errors import HaError, RestoreUnknownError


DELTA = "delta"  # format of the sink
LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
# In one file, in so many parts, or with a unique id (version 2 of the specification).
_CHECKPOINT = re.compile(
    r"(?P<version>\d{20})\.checkpoint(\.parquet|\.\d{10}\.(?P<parts>\d{10})\.parquet|\.[0-9a-f-]{36}\.(json|parquet))"
)


class DeltaLog:
    """The log of one table.

    :param table: Directory of the table.
    """

    def __init__(self, table: Path) -> None:
        self.table = table

    def exists(self) -> bool:
        """Whether there is a table: a directory with a commit or a checkpoint in its log.

        :raises StorageUnavailableError: It could not be found out.
        """
        return any(
            _COMMIT.fullmatch(name) or _CHECKPOINT.fullmatch(name) for name in names(LocalTree(self.table / LOG))
        )

    def last_batch(self, query_id: str) -> int:
        """Return the highest batch that the table has of a query; -1 when it has none, or is not there.

        :param query_id: ``id`` of the checkpoint's ``metadata``.
        :raises RestoreUnknownError: The log is not whole or not what Delta writes, or a checkpoint of it cannot be
            read here.
        :raises StorageUnavailableError: It could not be listed.
        """
        found = names(LocalTree(self.table / LOG))
        commits = {int(match[1]) for name in found if (match := _COMMIT.fullmatch(name))}
        checkpoints = _whole_checkpoints(found)
        version = max((*commits, *checkpoints), default=-1)
        while version in commits:
            batch = self._in_commit(version, query_id)
            if batch is not None:
                return batch
            version -= 1
        if version < 0:
            return -1
        if version not in checkpoints:
            raise self._unknown(f"commit {version} is not there, and no checkpoint stands for it", "Repair the table")
        return max((self._in_checkpoint(name, query_id) for name in checkpoints[version]), default=-1)

    def _in_commit(self, version: int, query_id: str) -> int | None:
        path = self.table / LOG / f"{version:020d}.json"
        batches = [
            batch for action in self._actions(path) if (batch := _batch(action.get("txn"), query_id)) is not None
        ]
        return batches[-1] if batches else None

    def _in_checkpoint(self, name: str, query_id: str) -> int:
        path = self.table / LOG / name
        rows = self._actions(path) if name.endswith(".json") else self._rows(path)
        return max((batch for row in rows if (batch := _batch(row.get("txn"), query_id)) is not None), default=-1)

    def _actions(self, path: Path) -> Iterator[dict[str, Any]]:
        try:
            with path.open(encoding="utf-8") as lines:
                for line in lines:
                    if line.strip() and isinstance(action := json.loads(line), dict):
                        yield action
        except (OSError, ValueError) as error:
            raise self._unknown(f"{path.name} cannot be read: {error}", "Repair the table, then plan again") from error

    def _rows(self, path: Path) -> Iterator[dict[str, Any]]:
        try:
            import pyarrow as pa  # an extra
            from pyarrow import parquet  # the same
        except ImportError as error:
            step = "pip install 'airflow-provider-ha[delta]'"
            raise self._unknown(f"{path.name} is Parquet, and pyarrow is not installed", step) from error
        try:
            with parquet.ParquetFile(path) as file:
                if "txn" in file.schema_arrow.names:
                    for batch in file.iter_batches(columns=["txn.appId", "txn.version"]):
                        yield from batch.to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise self._unknown(f"{path.name} cannot be read: {error}", "Repair the table, then plan again") from error

    def _unknown(self, reason: str, next_step: str) -> HaError:
        return RestoreUnknownError(
            f"the batches of Delta table {self.table} are unknown: {reason}", next_step=next_step
        )


def _whole_checkpoints(found: list[str]) -> dict[int, list[str]]:
    """Return version -> files of one checkpoint of that version, of those whose parts are all there."""
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
