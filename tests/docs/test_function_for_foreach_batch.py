"""The functions on the page about restore plans are idempotent: called again with a batch, they change nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.driver import context
from tests.docs.blocks import blocks_of


PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "restore-plan.md"
Function = Callable[[Any, int], None]


def function(name: str) -> Function:
    """Execute the block that defines *name*, and return what the page gives to ``foreachBatch``."""
    (block,) = (block for block in blocks_of(PAGE) if f"def {name}(" in block.text)
    names: dict[str, Any] = {}
    exec(compile(block.text, f"{PAGE}:{block.line}", "exec"), names)  # noqa: S102  # it is the page's code
    made: Function = names["function"]
    return made


@pytest.fixture
def past() -> Iterator[dict[str, str]]:
    """The ids of the queries of this driver, which has a lease."""
    ids = {"orders": "first-id"}
    context.install(context.DriverContext("orders", 1, 1, "", lambda: 5.0, past=ids.get))
    yield ids
    context.install(None)


@pytest.mark.usefixtures("past")
def test_the_upsert_has_the_rows_of_a_batch_once_when_it_is_called_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "a", "amount": 1.0}, {"id": "b", "amount": 2.0}]
    batch = SimpleNamespace(toLocalIterator=lambda: iter(rows))
    upsert = function("upsert")

    upsert(batch, 7)
    upsert(batch, 7)

    with sqlite3.connect("orders.db") as database:
        assert database.execute("select id, amount from orders order by id").fetchall() == [("a", 1.0), ("b", 2.0)]


@pytest.mark.parametrize("name", ["upsert", "append"])
@pytest.mark.usefixtures("past")
def test_the_functions_are_fenced_and_declared_repeatable(name: str) -> None:
    made = function(name)

    assert isinstance(made, context.FencedFunction)
    assert made.repeatable


class Table:
    """What a Delta table remembers, and the writer that reaches it: its sink skips versions that an id has."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self.versions: dict[str, int] = {}

    def batch(self, row: str) -> Any:
        options: dict[str, Any] = {}

        def save(_: str) -> None:
            if options["txnVersion"] > self.versions.get(options["txnAppId"], -1):
                self.versions[options["txnAppId"]] = options["txnVersion"]
                self.rows.append(row)

        writer = SimpleNamespace(save=save)
        writer.format = writer.mode = lambda _: writer
        writer.option = lambda name, value: options.update({name: value}) or writer
        return SimpleNamespace(write=writer)


def test_the_append_skips_a_batch_that_comes_again_and_no_batch_of_a_start_from_nothing(past: dict[str, str]) -> None:
    table, append = Table(), function("append")

    append(table.batch("first"), 0)
    append(table.batch("first"), 0)
    past["orders"] = "second-id"  # as after a start from nothing
    append(table.batch("second"), 0)

    assert table.rows == ["first", "second"]
