"""A stateless query whose checkpoint a test writes itself, batch after batch, as Spark would: no JVM, no seconds."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from tests.support.spark.recorded_job import QUERY


KEPT = 100  # batches that Spark keeps


def offsets(batch: int) -> str:
    """Return what Spark writes when it plans a batch of a source that counts."""
    metadata = {"batchWatermarkMs": 0, "batchTimestampMs": 1_700_000_000_000 + batch, "conf": {}}
    return f"v1\n{json.dumps(metadata)}\n{batch}"


COMMIT = 'v1\n{"nextBatchWatermarkMs":0}'


@dataclass
class WrittenQuery:
    """The query in a working directory.

    :param live: The working directory.
    :ivar batch: Highest batch that is committed; -1 for none.
    """

    live: Path
    batch: int = -1

    def __post_init__(self) -> None:
        for name in ("offsets", "commits"):
            (self.live / QUERY / name).mkdir(parents=True, exist_ok=True)
        (self.live / QUERY / "metadata").write_text('{"id":"11111111-2222-3333-4444-555555555555"}')
        for batch in range(max(0, self.batch - 2), self.batch + 1):
            self._write(batch)

    def commit(self) -> None:
        """Plan and commit the next batch; what Spark would purge goes."""
        self._write(self.batch + 1)
        self.batch += 1

    def _write(self, batch: int) -> None:
        for name, content in (("offsets", offsets(batch)), ("commits", COMMIT)):
            directory = self.live / QUERY / name
            (directory / f".{batch}.tmp").write_text(content)
            (directory / f".{batch}.tmp").replace(directory / str(batch))
            (directory / str(batch - KEPT)).unlink(missing_ok=True)

    def registry(self, clock: Clock) -> QueryRegistry:
        """Return a registry with this query, started by a script that waits."""
        registry = QueryRegistry(clock)
        sink = SinkSpec(SinkKind.FOREACH_BATCH, "foreachBatch")
        registry.add(StartedQuery(QUERY, SimpleNamespace(), sink, LocalTree(self.live / QUERY)))
        registry.script_waits()
        return registry


def payload(like: Checkpoint, number: int, epoch: int) -> Checkpoint:
    """Return the payload of checkpoint *number*, at the batch of that number."""
    cut = like.queries[QUERY]
    entry = BatchEntry(batch=number, offsets=offsets(number), commits=COMMIT)
    update = {"batch": number, "entries": (entry,), "files": {f"offsets/{number}": 120, f"commits/{number}": 30}}
    return like.model_copy(
        update={"number": number, "epoch": epoch, "queries": {QUERY: cut.model_copy(update=update)}, "pin": None}
    )
