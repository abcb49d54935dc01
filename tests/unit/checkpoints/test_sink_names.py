"""A plan says how a script that gives a query no name starts it: as the driver names it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.sink_registry import name_by_sink
from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.driver.queries.query_naming import name_query
from airflow_provider_ha.driver.queries.writer_notes import notes
from tests.support.checkpoints.portable_helpers import QUERY, checkpoint
from tests.support.checkpoints.writer_helpers import writer_of


def started_as(source: str, path: str) -> str:
    """Return the name that the driver gives."""
    writer = writer_of("", Path("/managed"))
    notes(writer).name, notes(writer).sink = None, source
    return name_query(writer, path)


@pytest.mark.parametrize(
    ("sink", "source", "path"),
    [
        (QuerySink(kind=SinkKind.FILE, format="json", path="/data/out"), "json", "file:///data/out/"),
        (QuerySink(kind=SinkKind.FILE, format="json", path="s3://bucket/out"), "csv", "s3a://bucket/out"),
        (QuerySink(kind=SinkKind.OTHER, format="delta", table="/data/t"), "delta", "/data/t"),
    ],
)
def test_the_name_is_the_one_that_the_driver_gives(sink: QuerySink, source: str, path: str) -> None:
    assert name_by_sink(sink) == started_as(source, path)


@pytest.mark.parametrize(
    "sink",
    [
        QuerySink(kind=SinkKind.OTHER, format="kafka"),
        QuerySink(kind=SinkKind.FOREACH_BATCH, format="foreachBatch"),
        QuerySink(kind=SinkKind.OTHER, format="iceberg", table="/lake/db/t"),
        QuerySink(kind=SinkKind.OTHER, format="delta"),
    ],
    ids=lambda sink: str(sink.format),
)
def test_a_record_that_does_not_say_how_the_script_names_its_output_gives_no_name(sink: QuerySink) -> None:
    assert name_by_sink(sink) is None


def test_the_plan_of_a_checkpoint_says_it(tmp_path: Path) -> None:
    directory, out = checkpoint(tmp_path / QUERY), tmp_path / "out"
    name = started_as("json", str(out))

    told = CliRunner().invoke(app, ["checkpoint", "plan", str(directory), "--sinks", str(out)], obj=ClusterTarget())

    line = f"{QUERY}: a script that gives it no name starts it as {name}; adopt it as that (--start-from {name}=...)"
    assert line in " ".join(told.stdout.split())
