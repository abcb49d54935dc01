"""A comparison for people: one line that answers, then tables of what differs, and nothing about what does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from airflow_provider_ha.checkpoints.comparison.compare import Comparison, QueryComparison
from airflow_provider_ha.checkpoints.comparison.sources import SourceComparison
from airflow_provider_ha.cli import console


Row = Sequence[object]
# More files than this are for a program: --json names all.
_SHOWN = 10
_REFUSES = {
    True: "Spark refuses to run the query of B on the state of A",
    False: "Spark runs the query of B on the state of A, as far as operators and schemas go",
    None: "whether Spark runs the query of B on the state of A cannot be derived from a checkpoint",
}


def print_comparison(comparison: Comparison) -> None:
    """Print what differs between A and B."""
    for side, names in (("A", comparison.only_in_a), ("B", comparison.only_in_b)):
        for name in names:
            console.out.print(f"query {name} is only in {side}", style="bold", markup=False)
    for name, query in comparison.queries.items():
        _print_query(name, query)


def _print_query(name: str, query: QueryComparison) -> None:
    what = "is the same in A and B" if query.same else "differs"
    console.out.print(f"query {name} {what}", style="bold", markup=False)
    console.out.print(f"A is batch {query.a.batch} of {query.a.directory}", markup=False)
    console.out.print(f"B is batch {query.b.batch} of {query.b.directory}", markup=False)
    _table(("VALUE", "A", "B"), [[item.what, item.a, item.b] for item in query.values])
    _table(("SOURCE", "PARTITION", "A", "B", "B - A"), list(_source_rows(query.sources)))
    _table(("SOURCE", "READ ONLY BY", "FILES"), list(_file_rows(query.sources)))
    _table(("CONF", "A", "B"), [[item.what, item.a, item.b] for item in query.conf])
    if query.operators:
        rows: list[Row] = [
            [item.operator, item.a or None, item.b or None, "; ".join(item.changes), _word(item.refused)]
            for item in query.operators
        ]
        _table(("OPERATOR", "A", "B", "CHANGE", "REFUSED"), rows)
        console.out.print(_REFUSES[query.refused])
    _print_state(query)


def _print_state(query: QueryComparison) -> None:
    state = query.state
    rows: list[Row] = [
        [what, len(files), sum(files.values())]
        for what, files in (
            ("gone (only in A)", state.only_in_a),
            ("new (only in B)", state.only_in_b),
            ("changed", state.changed),
        )
        if files
    ]
    if rows:
        _table(("STATE FILES", "COUNT", "BYTES"), [*rows, ["shared", state.shared, state.shared_bytes]])
    if query.other_state_ids:
        console.out.print(f"{len(query.other_state_ids)} store(s) have state of another id")


def _source_rows(sources: tuple[SourceComparison, ...]) -> Iterator[Row]:
    for source in (item for item in sources if not item.same):
        if source.partitions:
            for part in source.partitions:
                step = None if part.a is None or part.b is None else part.b - part.a
                yield [source.source, f"{part.topic}/{part.partition}", part.a, part.b, step]
        else:
            yield [source.source, None, source.a and source.a.end, source.b and source.b.end, None]


def _file_rows(sources: tuple[SourceComparison, ...]) -> Iterator[Row]:
    for source in sources:
        for side, files in (("A", source.only_in_a), ("B", source.only_in_b)):
            if files:
                yield [source.source, side, f"{len(files)} file(s)"]
                yield from ([None, None, file] for file in files[:_SHOWN])
                if len(files) > _SHOWN:
                    yield [None, None, f"and {len(files) - _SHOWN} more, see --json"]


def _table(columns: tuple[str, ...], rows: Sequence[Row]) -> None:
    if rows:
        console.print_table(columns, rows, empty="")


def _word(value: bool | None) -> str:  # a value to print
    return {True: "yes", False: "no", None: "unknown"}[value]
