"""The cells of the matrix of sinks: every type of sink, in every store, killed on both sides of the sink's commit."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import product


class Sink(str, Enum):
    """What the query writes to; the value is the script's word for it."""

    JSON = "json"
    PARQUET = "parquet"
    DELTA = "delta"
    KAFKA = "kafka"
    FOREACH_BATCH = "foreachBatch"


class Store(str, Enum):
    """Where checkpoints and output lie; a topic lies in its broker."""

    LOCAL = "local"
    HDFS = "HDFS"
    S3 = "S3"


class Kill(str, Enum):
    """When the driver is killed."""

    BEFORE = "before the sink's commit"
    AFTER = "after it, before the checkpoint's"


NAMES = {
    Sink.JSON: "JSON files",
    Sink.PARQUET: "Parquet files by partition",
    Sink.DELTA: "Delta table",
    Sink.KAFKA: "Kafka topic",
    Sink.FOREACH_BATCH: "foreachBatch that replaces its batch",
}
NO_CELL = {
    (Sink.DELTA, Store.S3): "a query with Delta's default log store is refused there",
}
"""Pairs that are not played, and why."""


@dataclass(frozen=True)
class Cell:
    """One combination."""

    sink: Sink
    store: Store
    kill: Kill

    @property
    def name(self) -> str:
        """Its name in progress files and test ids."""
        return "-".join(level.name.lower() for level in (self.sink, self.store, self.kill))

    @property
    def repeats(self) -> bool:
        """Whether the batch that was in flight is in the output twice: a topic takes what it is given."""
        return self.sink is Sink.KAFKA and self.kill is Kill.AFTER


CELLS = tuple(
    Cell(sink, store, kill) for store, sink, kill in product(Store, Sink, Kill) if (sink, store) not in NO_CELL
)
