"""An entry of a sink's log that arrives after the driver's look ends the query: Spark would skip its batch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError

from tests.integration.component.conftest import Local
from tests.support.spark.component_jvm import java_class


pytestmark = pytest.mark.timeout(400)  # the first test waits for the compiler and for a JVM
ANOTHER = "io.github.sparkha.SinkLogs$EntryOfAnother"


@pytest.fixture
def output(local: Local, tmp_path: Path) -> Path:
    """An output whose log has batches 0 and 1, in a JVM that leads."""
    local.jvm.open_gate(f"hafile://{local.own.parent}")
    log = tmp_path / "out" / "_spark_metadata"
    log.mkdir(parents=True)
    for batch in range(2):
        (log / str(batch)).write_bytes(b"v1")
    return log.parent


@pytest.fixture
def names(local: Local, output: Path) -> Callable[[], list[str]]:
    """Lists the log as Spark does."""
    uri = f"file://{output}/_spark_metadata"
    manager = local.jvm.manager(local.conf, uri)
    return lambda: sorted(status.getPath().getName() for status in manager.list(local.jvm.path(uri)))


@pytest.mark.parametrize("late", ["2", "2.compact"])
def test_an_entry_that_another_driver_adds_after_the_look_ends_the_query(
    local: Local, output: Path, names: Callable[[], list[str]], late: str
) -> None:
    local.jvm.classes.SinkLogs.start(str(output), 1)
    assert names() == ["0", "1"]
    (output / "_spark_metadata" / late).write_bytes(b"v1")

    with pytest.raises(Py4JJavaError, match=f"{late} was written by another driver after this one had looked") as met:
        names()

    assert java_class(met.value) == ANOTHER


def test_what_this_driver_adds_is_no_surprise(local: Local, output: Path, names: Callable[[], list[str]]) -> None:
    local.jvm.classes.SinkLogs.start(str(output), 1)
    uri = f"file://{output}/_spark_metadata"
    manager = local.jvm.manager(local.conf, uri)

    for name in ("2.compact", "3"):
        local.jvm.create(manager, f"{uri}/{name}", b"v1")

    assert names() == ["0", "1", "2.compact", "3"]


def test_a_new_look_knows_the_entry(local: Local, output: Path, names: Callable[[], list[str]]) -> None:
    local.jvm.classes.SinkLogs.start(str(output), 0)
    local.jvm.classes.SinkLogs.start(f"file://{output}/", 1)

    assert names() == ["0", "1"]


def test_a_log_that_no_query_of_this_job_writes_is_read_as_it_is(names: Callable[[], list[str]]) -> None:
    assert names() == ["0", "1"]
