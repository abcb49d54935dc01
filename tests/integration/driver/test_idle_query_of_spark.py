"""A real query without input reports each of its triggers: so a source that takes long to answer is no stall."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.queries.query_registry import StartedQuery
from airflow_provider_ha.driver.queries.stall_watch import look_at
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.testing.waiting import wait_until


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[StartedQuery]:
    """It has committed the one file that there is."""
    from pyspark.sql import SparkSession  # inside functions only

    local, given = "127.0.0.1", tmp_path / "given"
    conf: dict[str, Any] = {"spark.ui.enabled": "false", "spark.driver.host": local, "spark.driver.bindAddress": local}
    given.mkdir()
    (given / "one.txt").write_text("a row\n")
    session = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
    # Not in the conf, which the JVM keeps for the sessions of later tests.
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "200ms")  # 10 s by Spark's default
    writer = session.readStream.text(str(given)).writeStream.format("noop")
    handle = writer.option("checkpointLocation", str(tmp_path / "rows")).start()
    handle.processAllAvailable()
    yield StartedQuery("rows", handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(tmp_path / "rows"))
    handle.stop()
    session.stop()


def test_a_query_without_input_is_known_to_go_on_by_its_reports(idle: StartedQuery) -> None:
    reported = set[str]()

    def looked() -> bool:
        look = look_at(idle)
        assert look is not None
        assert look.committed == 0
        reported.add(look.reported)
        return len(reported) >= 4

    wait_until(looked, timeout=120, what="three triggers without data after that of the batch")
