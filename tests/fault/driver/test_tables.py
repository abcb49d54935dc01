"""A script that was never written for this package writes tables, is killed, and its tables are exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import queries
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
QUERIES = 2


def reader(folder: Path, table: Path) -> Stream:
    """Return a stream whose output is a table."""
    folder.mkdir()
    (folder / "out").symlink_to(table)
    return Stream(folder)


def test_a_script_as_it_is_writes_tables_that_are_exact_after_a_kill(client: HaClient, tmp_path: Path) -> None:
    """Its catalog ends with each driver: the next one makes the tables again, where their files are."""
    job, own, warehouse = SupervisedJob(client, Stream(tmp_path)), tmp_path / "own", tmp_path / "warehouse"
    job.options = HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0)
    job.conf = {"spark.sql.warehouse.dir": str(warehouse)}
    job.stream.feed(3)
    job.submit_script(APPS / "table.py", [str(job.stream.source), str(own)])

    def started() -> list[str]:
        tree = job.tree(1)
        return queries(tree) if tree is not None else []

    job.await_alive(lambda: len(started()) == QUERIES, "both queries")
    job.queries = tuple(sorted(started()))
    job.await_read(1)
    job.kill()
    job.recover()
    job.stream.feed(2)
    job.await_read(2)
    job.stop("terminate")
    result = job.await_result()

    assert result.state is JobState.FINISHED, result.reason
    assert [name.rpartition("-")[0] for name in job.queries] == ["copies", "windows"]
    assert reader(tmp_path / "a", warehouse / "windows").windows() == job.stream.expected_windows(5)
    copied = [path.read_text() for path in reader(tmp_path / "b", warehouse / "copies").sink_files()]
    assert sum(text.count("\n") for text in copied) == 5 * 6
    assert not own.exists()
