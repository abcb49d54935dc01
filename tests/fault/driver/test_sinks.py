"""Sinks of a real job: tables, plain sinks, and one cell of the matrix for each type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import queries
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.sinks.cells import Cell, Kill, Sink, Store
from tests.support.sinks.play import feed, numbers, play
from tests.support.sinks.stage import Stage, stage
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1500)]
QUERIES = ("console", "custom", "foreach")
KEPT = ("custom", "foreach")  # what the other ones have ends with the driver


def written(output: Path, name: str) -> Counter[int]:
    return Counter(map(int, (output / name).read_text(encoding="utf-8").split()))


@pytest.mark.hours
def test_they_run_and_a_restore_repeats_what_came_after_the_cut(client: HaClient, tmp_path: Path) -> None:
    job, output = SupervisedJob(client, Stream(tmp_path), QUERIES), tmp_path / "out"
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False, retained_checkpoints=100)
    output.mkdir()
    feed(job.stream.source, 0)
    job.submit_script(APPS / "plain_sinks.py", [str(job.stream.source), str(output)])
    job.await_committed(1, 0)
    job.await_alive(lambda: bool(job.job.snapshot().checkpoint_numbers), "a checkpoint of all queries")
    feed(job.stream.source, 1)
    job.await_committed(1, 1)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED

    first = min(job.job.snapshot().checkpoint_numbers)
    wanted = RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"checkpoint-{first}")
    plan = job.job.plan_restore(wanted)
    cut = {query: plan.queries[query].batch for query in QUERIES}
    assert plan.verdict is Verdict.DUPLICATES_POSSIBLE, plan.reasons
    assert {finding.query for finding in plan.findings} == {name for name in KEPT if cut[name] < 1}
    with pytest.raises(RestoreRefusedError, match="DUPLICATES_POSSIBLE"):
        job.job.restore(wanted)
    job.job.restore(replace(wanted, accept_verdicts=frozenset({Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE})))
    feed(job.stream.source, 2)

    new = set(numbers(2))
    wait_until(lambda: all(new <= set(written(output, name)) for name in KEPT), timeout=PATIENCE, what="new rows")
    for name in KEPT:
        again = [number for batch in (0, 1) if batch > cut[name] for number in numbers(batch)]
        assert written(output, name) == Counter([*numbers(0), *numbers(1), *numbers(2), *again])
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


TABLES = 2


def reader(folder: Path, table: Path) -> Stream:
    """Return a stream whose output is a table."""
    folder.mkdir()
    (folder / "out").symlink_to(table)
    return Stream(folder)


@pytest.mark.hours
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

    job.await_alive(lambda: len(started()) == TABLES, "both queries")
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


SAMPLE = (
    Cell(Sink.FOREACH_BATCH, Store.S3, Kill.AFTER),
    pytest.param(Cell(Sink.DELTA, Store.HDFS, Kill.AFTER), marks=pytest.mark.hours),
    pytest.param(Cell(Sink.KAFKA, Store.HDFS, Kill.BEFORE), marks=pytest.mark.hours),
)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with stage(tmp_path_factory.mktemp("sinks")) as made:
        yield made


@pytest.mark.hours
@pytest.mark.parametrize("cell", SAMPLE, ids=lambda cell: str(cell.name))
def test_the_output_is_that_of_one_batch(opened: Stage, cell: Cell) -> None:
    assert play(cell, opened).wrong == []
