"""Files on S3, exactly once: the driver is killed, or frozen, beside its sink's log; what readers see is the truth.

Each shape on one side of the log; both sides of all sinks are ``make proof SUITE=sinks``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.sinks.file_sink import FileSink
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.testing.waiting import wait_until
from java.build_component import build
from tests.support.s3.s3_faults import Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.stored_sinks import QUERY, Request, epoch, truth, write_input


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

JOB = JobKeys("j")
FIRST, NEXT = JOB.working_directory(1, "x"), JOB.working_directory(2, "y")
ENTRY = "_spark_metadata/5"  # 5.compact: every third entry is
BATCH = 5


@dataclass
class Stage:
    """One query, its output on S3, and who may look at it."""

    s3: S3Access
    root: Path
    request: Request

    @property
    def area(self) -> LinkedWorkArea:
        return LinkedWorkArea(self.root / "work")

    @property
    def sink(self) -> FileSink:
        return FileSink(self.request.output, StorageAccess(self.s3.options()))

    def through(self, endpoint: str) -> Request:
        """Return the request of a driver that reaches S3 by way of a proxy."""
        return replace(self.request, conf=self.request.conf | {"spark.hadoop.fs.s3a.endpoint": endpoint})

    def recover(self) -> Request:
        """Fence the first epoch and make the directory of the next one; return its request."""
        fenced = self.area.fence(FIRST)
        self.area.create(NEXT)
        prepare_recovery(self.area, fenced, NEXT)
        return replace(self.request, checkpoint=str(self.root / "work" / NEXT / QUERY))


@pytest.fixture
def stage(s3: S3Access, tmp_path: Path, request: pytest.FixtureRequest) -> Stage:
    shape = getattr(request, "param", "json")
    write_input(tmp_path / "input")
    conf = {
        "spark.hadoop.fs.s3a.endpoint": s3.endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.access.key": s3.access_key,
        "spark.hadoop.fs.s3a.secret.key": s3.secret_key,
        "spark.hadoop.fs.ha.writer": "1/s/process",
    }
    LinkedWorkArea(tmp_path / "work").create(FIRST)
    asked = Request(
        shape=shape,
        input=str(tmp_path / "input"),
        checkpoint=str(tmp_path / "work" / FIRST / QUERY),
        output=f"s3a://{s3.new_bucket()}/out",
        jars=",".join(map(str, (build(), *s3a_jars()))),
        conf=conf,
        s3={"endpoint_url": s3.endpoint, "access_key": s3.access_key, "secret_key": s3.secret_key},
    )
    return Stage(s3, tmp_path, asked)


class Held:
    """A request for the sink's log that gets no answer until the test lets it go on.

    :param arrives: Whether the store gets it before it is held.
    """

    def __init__(self, *, arrives: bool) -> None:
        self.arrives = arrives
        self.met, self.released, self.answered = threading.Event(), threading.Event(), threading.Event()
        self.status = 0

    def __call__(self, exchange: Exchange) -> None:
        exchange.body()
        if self.arrives:
            exchange.ask()
        self.met.set()
        self.released.wait(600)
        self.status, headers, body = exchange.ask()
        self.answered.set()
        exchange.reply(self.status, headers, body)

    @property
    def fault(self) -> Fault:
        """The fault that holds it."""
        return Fault(self, "PUT", ENTRY)


def killed(stage: Stage, *, arrives: bool) -> None:
    """Run the first epoch until the sink's entry of one batch is written, or just before that, and kill it there."""
    held = Held(arrives=arrives)
    with (
        s3_proxy(stage.s3.endpoint, held.fault) as endpoint,
        epoch(stage.through(endpoint), stage.root, "first") as running,
    ):
        wait_until(lambda: held.met.is_set() or running.process.poll() is not None, timeout=400, what="the entry")
        assert held.met.is_set(), running.text()
        running.kill()


def recovered(stage: Stage, *, processes: int = 1) -> None:
    with epoch(stage.recover(), stage.root, "next") as running:
        seen = running.answer()
    assert seen["rows"] == truth()
    assert stage.sink.reached() == 7
    assert seen["processes"] == processes


@pytest.mark.hours
@pytest.mark.long
def test_a_driver_that_died_between_the_sinks_log_and_its_commit_is_recovered_exactly_once(stage: Stage) -> None:
    killed(stage, arrives=True)
    entry = stage.sink.digest(BATCH)
    assert stage.sink.reached() == BATCH

    recovered(stage)

    assert stage.sink.digest(BATCH) == entry


@pytest.mark.long
@pytest.mark.parametrize(
    ("stage", "arrives"),
    [
        pytest.param("json", False, marks=pytest.mark.hours, id="json-before-the-log"),
        pytest.param("parquet", True, id="parquet-before-the-commit"),
        pytest.param("partitioned", False, marks=pytest.mark.hours, id="partitioned-before-the-log"),
    ],
    indirect=["stage"],
)
def test_a_driver_that_died_beside_the_sinks_log_is_recovered_exactly_once(stage: Stage, arrives: bool) -> None:
    killed(stage, arrives=arrives)
    assert stage.sink.reached() == (BATCH if arrives else BATCH - 1)

    recovered(stage)


@pytest.mark.hours
@pytest.mark.long
def test_executors_in_other_processes_write_exactly_once(stage: Stage) -> None:
    stage.request = replace(stage.request, master="local-cluster[2,1,1024]", shape="partitioned")
    killed(stage, arrives=False)

    recovered(stage, processes=3)  # the driver and two executors


@pytest.mark.long
def test_a_driver_that_wakes_in_its_request_finds_the_entry_taken(stage: Stage) -> None:
    """Its request was on its way when it was taken for dead: the gate has let it through long ago."""
    held = Held(arrives=False)
    with (
        s3_proxy(stage.s3.endpoint, held.fault) as endpoint,
        epoch(stage.through(endpoint), stage.root, "first") as zombie,
    ):
        wait_until(lambda: held.met.is_set() or zombie.process.poll() is not None, timeout=400, what="the entry")
        assert held.met.is_set(), zombie.text()
        recovered(stage)
        before = {batch: stage.sink.digest(batch) for batch in range(BATCH, 8)}

        held.released.set()

        assert zombie.process.wait(300) != 0
        assert held.status == 412
        assert {batch: stage.sink.digest(batch) for batch in range(BATCH, 8)} == before
        assert stage.sink.reached() == 7
