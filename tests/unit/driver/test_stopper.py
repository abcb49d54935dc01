"""The moments in which a query is asked to stop. Spark's threads, states and locks are stood in for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.queries import query_stop
from airflow_provider_ha.driver.queries.query_registry import StartedQuery
from airflow_provider_ha.driver.queries.query_stop import GracefulStop, has_ended, stop_together
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec


WAITING = ["ProcessingTimeExecutor.waitTillTime"]
POLLING = ["java.lang.Thread.sleep", "ProcessingTimeExecutor.executeOneBatch"]
EXECUTING = ["MicroBatchExecution.runBatch", "SQLExecution.withNewExecutionId"]
PLANNING = ["MicroBatchExecution.constructNextBatch"]
TERMINATED, ACTIVE = "terminated", "active"


class Spark:
    """The thread of one query: at each look at its stack it stands somewhere else, and it ends once it is stopped.

    :ivar states: What the state was set to.
    """

    def __init__(self, *stacks: list[str], ends_after: int = 0) -> None:
        self.states: list[str] = []
        self.interrupted = 0
        self.held = 0
        self.joined = 0
        self._stacks: Iterator[list[str]] = iter(stacks)
        self._ends_after = ends_after

    @property
    def handle(self) -> Any:
        execution = SimpleNamespace(
            queryExecutionThread=lambda: self,
            awaitProgressLock=lambda: self,
            state=lambda: SimpleNamespace(set=self.states.append),
        )
        jsq = SimpleNamespace(streamingQuery=lambda: execution)
        return SimpleNamespace(isActive=False, exception=lambda: None, _jsq=jsq)

    def lock(self) -> None:
        self.held += 1

    def unlock(self) -> None:
        self.held -= 1

    def isAlive(self) -> bool:  # noqa: N802  # Java's name
        return self.states[-1:] != [TERMINATED] or self.joined < self._ends_after

    def join(self, milliseconds: int) -> None:
        self.joined += 1

    def interrupt(self) -> None:
        assert self.held, "without the lock the next batch could begin at the same time"
        self.interrupted += 1

    def getStackTrace(self) -> list[str]:  # noqa: N802  # Java's name
        assert self.held, "without the lock the next batch could begin at the same time"
        return next(self._stacks)


@pytest.fixture(autouse=True)
def _states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_stop, "_states", lambda: (TERMINATED, ACTIVE))


def query(spark: Spark, name: str = "q") -> StartedQuery:
    return StartedQuery(name, spark.handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(Path(name)))


@pytest.mark.parametrize(
    ("stacks", "states", "interrupted"),
    [
        pytest.param([WAITING, WAITING], [TERMINATED], 1, id="waits for its next trigger: woken"),
        pytest.param([POLLING, POLLING], [TERMINATED], 0, id="looks for data: sees it by itself"),
        pytest.param([EXECUTING], [TERMINATED], 0, id="executes a batch: ends after it"),
        pytest.param([PLANNING, EXECUTING], [TERMINATED], 0, id="plans a batch: asked again later"),
        pytest.param(
            [WAITING, PLANNING, EXECUTING],
            [TERMINATED, ACTIVE, TERMINATED],
            0,
            id="began to plan in that time: taken back",
        ),
    ],
)
def test_a_query_is_stopped_at_a_point_without_an_uncommitted_plan(
    stacks: list[list[str]], states: list[str], interrupted: int
) -> None:
    spark = Spark(*stacks)

    report = GracefulStop(query(spark)).run(10)

    assert (report.ended, report.failure) == (True, None)
    assert (spark.states, spark.interrupted, spark.held) == (states, interrupted, 0)


def test_a_query_whose_last_batch_still_runs_has_not_ended_before_it_is_over() -> None:
    spark = Spark(ends_after=2)
    spark.states.append(TERMINATED)

    assert has_ended(spark.handle)

    assert spark.joined == 2


def test_a_query_that_cannot_be_asked_is_reported_and_the_others_are_stopped() -> None:
    spark = Spark(EXECUTING)
    lost = StartedQuery("lost", SimpleNamespace(), SinkSpec(SinkKind.OTHER, "noop"), LocalTree(Path("lost")))

    reports = {report.name: report for report in stop_together([lost, query(spark, "other")], 10)}

    assert not reports["lost"].ended
    assert "could not be stopped" in str(reports["lost"].failure)
    assert reports["other"].ended


def test_a_continuous_query_has_no_moment_to_wait_for_and_is_interrupted() -> None:
    spark = Spark(*[PLANNING] * 3)
    handle = spark.handle
    execution = handle._jsq.streamingQuery()
    execution.getClass = lambda: SimpleNamespace(getSimpleName=lambda: "ContinuousExecution")
    handle._jsq.stop = lambda: spark.states.append(TERMINATED)
    sink = SinkSpec(SinkKind.OTHER, "kafka", unplanned=True)

    report = GracefulStop(StartedQuery("q", handle, sink, LocalTree(Path("/q")))).run(30.0)

    assert (report.ended, spark.states, spark.held) == (True, [TERMINATED], 0)
