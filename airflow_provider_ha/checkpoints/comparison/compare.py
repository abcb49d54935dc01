"""What differs between two checkpoints, query by query. Pure, but for files of one name that have to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.comparison.side import Side
from airflow_provider_ha.checkpoints.comparison.sources import SourceComparison, compare_sources
from airflow_provider_ha.checkpoints.comparison.state import (
    FileChanges,
    OperatorChange,
    compare_files,
    compare_operators,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that both sides have, and that differs; ``None`` where a side has none.

    :param what: ``batch``, ``query id``, or the key of a conf.
    """

    what: str
    a: Any
    b: Any


@dataclass(frozen=True, slots=True)
class QueryComparison:
    """One query.

    :param values: What differs of the batch itself: its number, the query id, the release, watermarks, formats.
    :param sources: Every source, whether it differs or not.
    :param conf: What the offset logs pin otherwise.
    :param operators: Those that differ.
    :param other_state_ids: Stores whose state has another id (checkpoint format 2), ``operator/partition/position``.
    """

    a: Side
    b: Side
    values: tuple[Difference, ...]
    sources: tuple[SourceComparison, ...]
    conf: tuple[Difference, ...]
    operators: tuple[OperatorChange, ...]
    other_state_ids: tuple[str, ...]
    state: FileChanges

    @property
    def same(self) -> bool:
        """Whether a query that continues from A does the same as one that continues from B."""
        changed = self.values or self.conf or self.operators or self.other_state_ids  # guard: conf-does-not-count
        # guard: sources-do-not-count
        return not changed and self.state.same and all(source.same for source in self.sources)

    @property
    def refused(self) -> bool | None:
        """Whether Spark refuses to run the query of B on the state of A; ``None`` when no checkpoint records it."""
        answers = [change.refused for change in self.operators]
        return True if True in answers else None if None in answers else False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two checkpoints.

    :param queries: Query -> its comparison, of those that both have.
    :param only_in_a: Queries that B does not have.
    :param only_in_b: Queries that A does not have.
    """

    queries: Mapping[str, QueryComparison]
    only_in_a: tuple[str, ...]
    only_in_b: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        # guard: queries-do-not-count
        return not (self.only_in_a or self.only_in_b) and all(query.same for query in self.queries.values())


def compare(a: Mapping[str, Side], b: Mapping[str, Side]) -> Comparison:
    """Compare the queries of two checkpoints by their names.

    A checkpoint directory has no name: one query is compared with one query, under any names.

    :raises StorageUnavailableError: A file of the state could not be read.
    """
    if len(a) == len(b) == 1 and a.keys() != b.keys():
        b = dict(zip(a, b.values(), strict=True))
    return Comparison(
        queries={name: compare_query(a[name], b[name]) for name in a if name in b},
        only_in_a=tuple(name for name in a if name not in b),
        only_in_b=tuple(name for name in b if name not in a),
    )


def compare_query(a: Side, b: Side) -> QueryComparison:
    """Compare a query with itself at another time, or with another one; raises as :func:`compare`."""
    pairs = ((what, ours, theirs) for (what, ours), (_, theirs) in zip(_values(a), _values(b), strict=True))
    conf = sorted({*a.offsets.conf, *b.offsets.conf})
    return QueryComparison(
        a=a,
        b=b,
        values=tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2] and _comparable(*pair)),
        sources=compare_sources(a, b),
        conf=tuple(
            Difference(key, a.offsets.conf.get(key), b.offsets.conf.get(key))
            for key in conf
            if a.offsets.conf.get(key) != b.offsets.conf.get(key)
        ),
        operators=compare_operators(a, b),
        other_state_ids=tuple(_other_ids(a, b)),
        state=compare_files(a, b),
    )


def _values(side: Side) -> Iterator[tuple[str, Any]]:
    """Yield what is one value on each side. Spark records one watermark for all operators of a query."""
    planned, committed = side.offsets.metadata, side.commits.metadata
    yield "batch", side.batch
    yield "query id", side.query_id  # guard: query-ids-are-not-compared
    yield "release", side.spark_version
    yield "batch time (ms)", planned.get("batchTimestampMs")
    yield "watermark (ms)", planned.get("batchWatermarkMs")  # guard: watermarks-are-not-compared
    yield "next watermark (ms)", committed.get("nextBatchWatermarkMs")
    yield "format of offsets", side.offsets.version
    yield "format of commits", side.commits.version
    yield "sinks", committed.get("sinkMetadataMap")


def _comparable(what: str, a: Any, b: Any) -> bool:
    """Whether both sides record a value: a checkpoint directory does not record its release."""
    return what != "release" or (a is not None and b is not None)


def _other_ids(a: Side, b: Side) -> Iterator[str]:
    ours, theirs = dict(_ids(a)), dict(_ids(b))
    yield from sorted(place for place in {*ours, *theirs} if ours.get(place) != theirs.get(place))


def _ids(side: Side) -> Iterator[tuple[str, str | None]]:
    for operator, partitions in side.commits.state_ids.items():
        for partition, stores in enumerate(partitions):
            for position, state_id in enumerate(stores):
                yield f"{operator}/{partition}/{position}", state_id
