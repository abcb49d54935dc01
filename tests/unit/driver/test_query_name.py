"""A query is named by its script, or by where it writes: the same at every start."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.driver.queries.query_naming import name_query, refuse_other_case, refuse_taken
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes, begins_anew, notes
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.query_names import query_directory
from tests.support.checkpoints.writer_helpers import writer_of


def writer(sink: str | None, **options: str) -> Any:
    """Return a writer of a query without a name."""
    made = writer_of("", Path("/managed"))
    noted = notes(made)
    noted.name, noted.sink = None, sink
    noted.options |= options
    return made


def line_of(test: Callable[..., None], text: str) -> int:
    """Return the line of this file where *test* says *text*."""
    lines, first = inspect.getsourcelines(test)
    return first + next(number for number, line in enumerate(lines) if text in line)


@pytest.mark.parametrize(
    ("sink", "options", "begin"),
    [
        ("json", {"path": "/data/daily totals"}, "daily-totals-"),
        (None, {"path": "file:/data/out/"}, "out-"),
        ("delta", {"path": "s3a://bucket/tables/orders"}, "orders-"),
        ("kafka", {"topic": "orders.v1"}, "orders.v1-"),
        ("parquet", {"path": "/data/..."}, "output-"),
    ],
)
def test_a_query_without_a_name_gets_one_from_its_output(sink: str, options: dict[str, str], begin: str) -> None:
    first, again = writer(sink, **options), writer(sink, **options)

    name = name_query(first, None)

    assert name.startswith(begin)
    assert name_query(again, None) == name
    assert notes(first).name == name, "the writer has it, and pyspark's own has"


def test_two_spellings_of_one_output_are_one_name() -> None:
    assert name_query(writer("json"), "file:///data/out") == name_query(writer("csv"), "/data/x/../out/")


def test_outputs_of_one_last_name_have_different_names() -> None:
    assert name_query(writer("json"), "/a/out") != name_query(writer("json"), "/b/out")


def test_the_brokers_of_a_topic_are_no_part_of_its_name() -> None:
    names = {name_query(writer("kafka", topic="t", **{"kafka.bootstrap.servers": at}), None) for at in ("a:1", "b:1")}

    assert len(names) == 1


def test_the_name_of_the_script_counts() -> None:
    named = writer("json", path="/data/out")
    notes(named).name = "hourly"

    assert name_query(named, None) == "hourly"


@pytest.mark.parametrize("sink", ["foreachBatch", "foreach", "noop", "console", "memory", "kafka"])
def test_a_sink_that_gives_no_name_is_refused_with_the_line_to_change(sink: str) -> None:
    unnamed = writer(sink)

    with pytest.raises(ApplicationRefusedError, match=f"a {sink} sink gives it none") as refused:
        name_query(unnamed, None)

    at = line_of(test_a_sink_that_gives_no_name_is_refused_with_the_line_to_change, "        name_query(")
    assert refused.value.next_step == f'Add .queryName("...") to its writeStream (test_query_name.py, line {at})'


@pytest.mark.parametrize("sink", ["foreachBatch", "foreach", "kafka"])
def test_a_sink_that_gives_no_name_is_named_after_the_checkpoint_location_of_the_script(sink: str) -> None:
    first, again, other = (writer(sink, checkpointlocation=f"/chk/{place}") for place in ("orders", "orders", "sums"))

    name = name_query(first, None)

    assert name.startswith("orders-")
    assert name_query(again, None) == name != name_query(other, None)
    with pytest.raises(ApplicationRefusedError, match="set the same checkpoint location"):
        refuse_taken(notes(again), frozenset({name}))


def test_two_queries_without_names_on_one_output_are_refused_with_the_line() -> None:
    name = name_query(writer("json"), "/data/out")
    second = writer("json")
    name_query(second, "/data/out")

    with pytest.raises(ApplicationRefusedError, match="write to the same output, or set the same") as refused:
        refuse_taken(notes(second), frozenset({name}))

    at = line_of(test_two_queries_without_names_on_one_output_are_refused_with_the_line, "        refuse_taken(")
    assert f"a separate output and name (test_query_name.py, line {at});" in str(refused.value.next_step)


@pytest.mark.parametrize(("name", "other"), [("orders", "Orders"), ("Flattened Orders", "flattened orders")])
def test_a_name_that_differs_from_another_one_in_case_only_is_refused(name: str, other: str) -> None:
    written, known = query_directory(name), query_directory(other)

    with pytest.raises(ApplicationRefusedError, match="on a file system that ignores case"):
        refuse_other_case(written, [known])
    refuse_other_case(written, [written, query_directory("sums")])


@pytest.mark.parametrize("name", ["a/b", "..", "sinks", "manifest.json", "-a", "Flattened Orders"])
def test_a_name_that_cannot_be_a_directory_is_written_as_one_and_stays_the_name_for_spark(name: str) -> None:
    named = writer("noop")
    notes(named).name = name

    assert name_query(named, None) == query_directory(name) != name
    assert notes(named).name == name


@pytest.mark.parametrize(
    ("name", "sink", "mode", "anew"),
    [
        (None, "console", "append", True),
        (None, "Console", "", True),
        (None, "noop", "", True),
        ("seen", "memory", "append", True),
        ("seen", "memory", "", True),
        ("counts", "memory", "Complete", False),
        ("look", "console", "append", False),
        ("rows", "noop", "append", False),
        (None, "json", "append", False),
        (None, "foreachBatch", "append", False),
        (None, None, "", False),
    ],
)
def test_a_query_for_a_look_at_rows_that_spark_or_its_name_cannot_find_again_begins_anew(
    name: str | None, sink: str | None, mode: str, *, anew: bool
) -> None:
    assert begins_anew(WriterNotes(name=name, sink=sink, mode=mode), "parquet") is anew
