"""A query that writes to a table that remembers its batches is killed beside the table's commit, and is set back.

``toTable()`` into real ones, below a directory with odd signs: Delta in Spark's own catalog, Iceberg in a Hadoop
catalog. The rows are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import QuerySources
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.table_sinks import DeltaLog, IcebergMetadata
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.odd_names import ODD
from tests.support.sinks.cells import Kill
from tests.support.sinks.play import KILLED, feed, killed, numbers, report
from tests.support.sinks.stage import delta_conf
from tests.support.spark import iceberg
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]
QUERY = "numbers"


@dataclass(frozen=True)
class Lake:
    """Where tables lie, and what a job needs to write to them.

    :param table: Name for ``toTable()``.
    :param last_batch: Directory of tables, id of a query -> highest batch that the table has of it.
    """

    format: str
    table: str
    conf: Callable[[str], dict[str, str]]
    engine_options: Callable[[], dict[str, str]]
    last_batch: Callable[[Path, str], int]


LAKES = (
    Lake(
        "delta",
        "numbers",
        lambda warehouse: delta_conf() | {"spark.sql.warehouse.dir": warehouse},
        dict,
        lambda warehouse, query: DeltaLog(warehouse / "numbers").last_batch(query),
    ),
    Lake(
        "iceberg",
        f"{iceberg.CATALOG}.db.numbers",
        iceberg.conf,
        lambda: {"spark_home": str(iceberg.spark_home())},
        lambda warehouse, query: IcebergMetadata(warehouse / "db" / "numbers").last_batch(query),
    ),
)


@pytest.fixture(params=LAKES, ids=lambda lake: str(lake.format))
def lake(request: pytest.FixtureRequest) -> Lake:
    found: Lake = request.param
    return found


@pytest.fixture
def job(client: HaClient, lake: Lake, tmp_path: Path) -> SupervisedJob:
    """A job that writes numbers, one file a batch; each batch makes a checkpoint."""
    made = SupervisedJob(client, Stream(tmp_path), (QUERY,), conf=lake.conf(str(tmp_path / ODD)))
    made.engine_options = lake.engine_options()
    made.options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False, retained_checkpoints=10)
    return made


def submit(job: SupervisedJob, lake: Lake, *, batches: int) -> None:
    for batch in range(batches):
        feed(job.stream.source, batch)
    job.submit_script(APPS / "every_sink.py", [lake.format, str(job.stream.source), lake.table, str(job.gates)])
    job.await_committed(1, batches - 1)


def in_table(job: SupervisedJob, lake: Lake) -> int:
    """Return the highest batch of the query that the table has."""
    tree = job.tree(1)
    assert tree is not None
    return lake.last_batch(job.stream.root / ODD, read_query_id(tree / QUERY))


def expected(batches: int) -> Counter[int]:
    return Counter({number: 1 for batch in range(batches) for number in numbers(batch)})


@pytest.mark.parametrize(
    "kill", [pytest.param(Kill.BEFORE, marks=pytest.mark.hours), Kill.AFTER], ids=lambda kill: str(kill.name.lower())
)
def test_a_kill_beside_the_commit_of_the_table_neither_loses_nor_repeats_a_row(
    job: SupervisedJob, lake: Lake, kill: Kill
) -> None:
    submit(job, lake, batches=KILLED)
    killed(job, kill)
    assert in_table(job, lake) == (KILLED if kill is Kill.AFTER else KILLED - 1)

    job.recover()
    feed(job.stream.source, KILLED + 1)
    job.await_committed(2, KILLED + 1)

    assert report(job) == expected(KILLED + 2)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


@pytest.mark.hours
def test_set_back_it_goes_on_behind_what_the_table_has(job: SupervisedJob, lake: Lake) -> None:
    """The table would drop the rows of the next batches, which have the numbers of batches that it has."""
    submit(job, lake, batches=4)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    first = min(job.job.snapshot().checkpoint_numbers)
    wanted = RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"checkpoint-{first}")
    whole = job.job.plan_restore(wanted)
    plan = whole.queries[QUERY]
    assert (whole.verdict, whole.unknown) == (Verdict.SAFE, {})
    assert plan.sink.max_batch == 3
    assert [entry.batch for entry in plan.replay] == list(range(plan.batch + 1, 4))

    job.job.restore(wanted)
    feed(job.stream.source, 4)
    job.await_alive(lambda: job.progress(2, QUERY).committed >= 4, "the new batch")

    assert report(job) == expected(5)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


def add(job: SupervisedJob, epoch: int, batch: int) -> None:
    """Have the script add a number to the table that it reads, until a batch has read it."""
    job.close_gate("more")
    job.await_alive(lambda: job.progress(epoch, QUERY).committed >= batch, f"batch {batch}")


def recorded(job: SupervisedJob) -> QuerySources:
    """Return what the newest checkpoint says of the sources."""
    store = job.job.checkpoints
    newest = next(iter(store.list()), None)
    return store.load(newest).queries[QUERY].sources if newest is not None else QuerySources()


def test_a_table_that_is_read_is_known_by_its_place_and_one_that_is_gone_waits_for_its_user(
    job: SupervisedJob, lake: Lake
) -> None:
    warehouse = job.stream.root / ODD
    place = warehouse / lake.table.split(".", 1)[-1].replace(".", "/")
    named = str(place) if lake.format == "delta" else lake.table  # names in Spark's own catalog end with its driver
    job.submit_script(APPS / "lake_rows.py", [lake.format, named, str(job.stream.root / "out"), str(job.gates)])
    job.await_alive(lambda: place.exists(), "the table")
    add(job, 1, 0)
    add(job, 1, 1)
    job.await_alive(lambda: recorded(job).tables == {"0": str(place)}, "a checkpoint with the place of the table")
    wanted = RestoreRequest(job_id=job.job_id, request_id=new_id())
    whole = job.job.plan_restore(wanted)
    assert (whole.verdict, whole.unknown) == (Verdict.SAFE, {})

    job.kill()
    place.rename(job.stream.root / "away")
    job.recover()

    wait_until(job.decision, timeout=PATIENCE, what="a decision")
    assert f"table {place} is gone" in job.decision()
    assert job.job.plan_restore(wanted).verdict is Verdict.LOSS_POSSIBLE

    (job.stream.root / "away").rename(place)
    job.job.restore(
        RestoreRequest(
            job_id=job.job_id,
            request_id=new_id(),
            if_lost=LostRunPolicy.RECOVER,
            accept_verdicts=frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
        )
    )
    add(job, 3, 2)
    generation = job.job.snapshot().generation
    assert generation is not None
    assert generation.lossy == {}, "it is back"
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
