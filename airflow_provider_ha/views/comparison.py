"""The differences between two checkpoints or savepoints."""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.checkpoints.comparison.compare import Comparison
from airflow_provider_ha.views.view import Text, View


class SideView(View):
    """One of the two.

    :param directory: Where it lies.
    :param batch: Its batch.
    :param query_id: Spark's own id of the query.
    :param spark_version: Release that wrote it; only savepoints and managed checkpoints record it.
    """

    directory: Text
    batch: int
    query_id: str
    spark_version: str | None


class DifferenceView(View):
    """One value that differs; ``null`` where a side has none.

    :param what: ``batch``, ``query id`` or another name, or the key of a conf.
    :param a: Its value in A.
    :param b: Its value in B.
    """

    what: str
    a: Any
    b: Any


class OffsetsView(View):
    """The offsets of a source that the batch of one side read.

    :param start: Where it began, as recorded; ``null`` for the begin of the source.
    :param end: Where it ended; ``null`` when the source had nothing yet.
    """

    start: str | None
    end: str | None


class PartitionView(View):
    """A partition of Kafka that both sides have read to another offset; ``null`` where a side does not know it.

    :param topic: Its topic.
    :param partition: Its number.
    :param a: Offset of A.
    :param b: Offset of B.
    """

    topic: str
    partition: int
    a: int | None
    b: int | None


class SourceView(View):
    """One source, whether it differs or not.

    :param source: Its name, or its position where it has none.
    :param a: The offsets that A read; ``null`` when A has no such source.
    :param b: The offsets that B read.
    :param partitions: Partitions of Kafka that differ.
    :param only_in_a: Files that only A has read.
    :param only_in_b: Files that only B has read.
    :param same: Whether both read the same of it.
    """

    source: str
    a: OffsetsView | None
    b: OffsetsView | None
    partitions: tuple[PartitionView, ...]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    same: bool


class OperatorView(View):
    """A stateful operator that differs.

    :param operator: Its number.
    :param a: Its name in A; ``null`` when A has none of this number, empty where the release recorded no name.
    :param b: The same in B.
    :param changes: The differences, in words.
    :param refused: Whether Spark refuses to run the query of B on the state of A for it; ``null`` where that is not
        recorded.
    """

    operator: int
    a: str | None
    b: str | None
    changes: tuple[str, ...]
    refused: bool | None


class StateFilesView(View):
    """The files that hold the state, with their bytes.

    :param only_in_a: Files that A needs and B does not: gone.
    :param only_in_b: Files that B needs and A does not: new.
    :param changed: Files of one name with other bytes; the size is that in B.
    :param shared: How many are the same.
    :param shared_bytes: How large these are.
    """

    only_in_a: dict[str, int]
    only_in_b: dict[str, int]
    changed: dict[str, int]
    shared: int
    shared_bytes: int


class QueryComparisonView(View):
    """One query that both sides have.

    :param same: Whether a query that continues from A does the same as one that continues from B.
    :param a: Its checkpoint in A.
    :param b: Its checkpoint in B.
    :param values: The differences of the batch itself.
    :param sources: Every source.
    :param conf: The conf that the offset logs pin with different values.
    :param operators: The stateful operators that differ.
    :param refused: Whether Spark refuses to run the query of B on the state of A; ``null`` when the checkpoints do not
        say.
    :param other_state_ids: Stores whose state has another id (checkpoint format 2), as operator/partition/position.
    :param state: The files that hold the state.
    """

    same: bool
    a: SideView
    b: SideView
    values: tuple[DifferenceView, ...]
    sources: tuple[SourceView, ...]
    conf: tuple[DifferenceView, ...]
    operators: tuple[OperatorView, ...]
    refused: bool | None
    other_state_ids: tuple[str, ...]
    state: StateFilesView


class ComparisonView(View):
    """Two checkpoints or savepoints, A and B.

    :param same: Whether nothing differs.
    :param only_in_a: Queries that B does not have.
    :param only_in_b: Queries that A does not have.
    :param queries: Query -> its differences.
    """

    same: bool
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]
    queries: dict[str, QueryComparisonView]


def comparison_view(comparison: Comparison) -> ComparisonView:
    """Return what differs."""
    return ComparisonView.of(comparison)
