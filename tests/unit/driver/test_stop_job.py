"""What a stop answers that cannot be done, and what is left of it. Spark and ZooKeeper are stood in for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.areas.drain import drain_key
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.ending import stop_job
from airflow_provider_ha.driver.ending.stop_job import DrainFork, MainThread, StopFailedError, StopJob, stop_all
from airflow_provider_ha.driver.queries.query_registry import StartedQuery
from airflow_provider_ha.driver.queries.query_stop import StopReport
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import CheckpointError, NotConnectedError, OperationFailedError, StorageUnavailableError
from airflow_provider_ha.jobs.model import Operation, OperationKind
from tests.support.checkpoints.portable_helpers import checkpoint


def operation(**arguments: Any) -> Operation:
    return Operation(
        operation_id="stop-1",
        operation=OperationKind.STOP,
        arguments=arguments,
        run=1,
        requested_by="a person",
        requested_at=datetime(2026, 1, 1, tzinfo=timezone.utc),
    )


class Stage:
    """A job with one query, which stops as it is told.

    :ivar resting: What the script has not started.
    :ivar standby: Whether a standby driver is ready.
    """

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.checkpoint: Any = SimpleNamespace(number=7, pin="pins/7", queries={})
        self.report = StopReport("q", ended=True, seconds=1.0)
        self.lifecycle = Lifecycle()
        self.resting: list[Any] = []
        self.standby = False
        self.ended: list[dict[str, Any]] = []
        self.main_thread = MainThread()
        self.drained: list[Path] = []
        self.working = directory
        started = StartedQuery("q", None, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(directory / "q"))
        self.registry: Any = SimpleNamespace(whole=True, started=[started], resting=self.resting, aside=())
        monkeypatch.setattr(stop_job, "stop_together", self._stopped)
        monkeypatch.setattr(stop_job, "SCRIPT_END_SECONDS", 0.0)
        self.during_the_stop: Callable[[], None] = lambda: None

    def _stopped(self, *_: object) -> list[StopReport]:
        self.during_the_stop()
        return [self.report]

    def _publish(self, _: object) -> Any:
        if isinstance(self.checkpoint, Exception):
            raise self.checkpoint
        return self.checkpoint

    def _savepoint(self, _: Operation) -> dict[str, Any]:
        raise StorageUnavailableError("the disk is full")

    def _drain(self, fork: DrainFork) -> dict[str, Any]:
        assert fork.directory.local_path is not None
        self.drained.append(fork.directory.local_path)
        assert not (fork.directory.local_path / "of-an-earlier-attempt").exists()
        return {}

    def stop(self, **arguments: Any) -> None:
        self._job().run(operation(**arguments))

    def hand_over(self) -> None:
        self._job().hand_over()

    def _job(self) -> StopJob:
        writer: Any = SimpleNamespace(
            set_message=lambda _: None, set_state=lambda *_: None, end=lambda *_, **said: self.ended.append(said)
        )
        publisher: Any = SimpleNamespace(publish=self._publish)
        return StopJob(
            writer,
            publisher,
            self.registry,
            self.lifecycle,
            self.main_thread,
            LinkedWorkArea(self.working.parent),
            self.working.name,
            self._savepoint,
            self._drain,
            lambda: self.standby,
        )


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    directory = tmp_path / "live"
    checkpoint(directory / "q")
    return Stage(directory, monkeypatch)


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (StopReport("q", ended=True, seconds=1.0, failure="the query failed"), "the query failed"),
        (StopReport("q", ended=False, seconds=3600.0), "query 'q' has not ended after 3600 s"),
    ],
    ids=["failed", "hangs"],
)
def test_a_query_that_did_not_stop_fails_the_stop(stage: Stage, report: StopReport, reason: str) -> None:
    stage.report = report

    with pytest.raises(StopFailedError, match=f"could not be stopped: {reason}.*keeps running") as caught:
        stage.stop()

    assert caught.value.result == {}
    assert stage.ended == []


def test_a_query_that_ended_within_a_batch_fails_the_stop(stage: Stage) -> None:
    (stage.working / "q" / "offsets" / "99").write_text("v1\n{}\n0")

    with pytest.raises(StopFailedError, match=r"'q' ended at .*, which is no batch boundary"):
        stop_all(stage.registry, stage.lifecycle)


def test_a_hand_over_without_a_standby_driver_stops_no_query(stage: Stage) -> None:
    with pytest.raises(OperationFailedError, match="no standby driver is ready"):
        stage.hand_over()

    assert not stage.lifecycle.stopping.is_set()


def test_a_hand_over_stops_the_queries_and_leaves_the_run_without_a_result(stage: Stage) -> None:
    stage.standby = True
    stage.checkpoint = CheckpointError("the next driver takes it")

    stage.hand_over()

    assert stage.lifecycle.stopping.is_set()
    assert stage.ended == []


def test_a_hand_over_whose_query_ended_within_a_batch_fails(stage: Stage) -> None:
    """The process ends then, and the next driver repeats the batch."""
    stage.standby = True
    (stage.working / "q" / "offsets" / "99").write_text("v1\n{}\n0")

    with pytest.raises(StopFailedError, match="no batch boundary"):
        stage.hand_over()


def unplanned(stage: Stage) -> None:
    """Let the query be one of continuous mode."""
    sink = SinkSpec(SinkKind.OTHER, "kafka", unplanned=True)
    stage.registry.started[:] = [replace(query, sink=sink) for query in stage.registry.started]


def test_a_query_without_boundaries_is_suspended_where_it_stands(stage: Stage) -> None:
    (stage.working / "q" / "offsets" / "99").write_text("v1\n{}\n0")
    unplanned(stage)

    stage.stop(mode="suspend")

    assert [said["reason"] for said in stage.ended] == ["suspended"]


def test_a_query_without_boundaries_is_not_drained_and_goes_on(stage: Stage) -> None:
    unplanned(stage)

    with pytest.raises(OperationFailedError, match=r"'q' cannot be drained.*mode='suspend'"):
        stage.stop(mode="terminate")

    assert not stage.lifecycle.stopping.is_set()


@pytest.mark.parametrize("error", [CheckpointError("it could not be pinned"), OSError("the disk is full")])
def test_a_checkpoint_that_cannot_be_taken_fails_the_stop_and_leaves_nothing(stage: Stage, error: Exception) -> None:
    stage.checkpoint = error

    with pytest.raises(StopFailedError) as caught:
        stage.stop()

    assert (caught.value.__cause__, caught.value.result, stage.ended) == (error, {}, [])


def test_a_savepoint_that_cannot_be_taken_leaves_the_checkpoint_of_the_stop(stage: Stage) -> None:
    with pytest.raises(StopFailedError, match="the disk is full") as caught:
        stage.stop(savepoint=True)

    assert caught.value.result == {"checkpoint": 7, "path": "pins/7"}


def test_a_script_that_does_not_end_can_be_suspended_and_not_drained(stage: Stage) -> None:
    with pytest.raises(
        StopFailedError, match=r"has not ended 0 s after its queries, so it cannot be drained"
    ) as caught:
        stage.stop(mode="terminate")
    assert caught.value.result == {"checkpoint": 7, "path": "pins/7"}

    stage.stop(mode="suspend")
    assert [said["reason"] for said in stage.ended] == ["suspended"]


def test_a_drain_of_a_query_whose_replay_began_during_the_stop_is_refused(stage: Stage) -> None:
    """It was at rest without recorded batches when the stop was asked for."""
    stage.during_the_stop = lambda: stage.resting.append(SimpleNamespace(name="late", pending=True))

    with pytest.raises(StopFailedError, match="has not started 'late' yet"):
        stage.stop(mode="terminate")

    assert stage.drained == []


def test_a_drain_that_an_earlier_attempt_began_begins_again(stage: Stage) -> None:
    fork = Path(drain_key(str(stage.working)))
    (fork / "of-an-earlier-attempt").mkdir(parents=True)
    stage.lifecycle.script_ended.set()
    main = threading.Thread(target=stage.main_thread.serve)
    main.start()

    stage.stop(mode="terminate")

    stage.main_thread.finish()
    main.join()
    assert stage.drained == [fork]
    assert [said["reason"] for said in stage.ended] == ["terminated"]


@pytest.mark.parametrize("error", [OperationFailedError("the drain failed"), SystemExit(3), NotConnectedError("cut")])
def test_an_error_of_the_main_thread_is_raised_in_the_requesting_thread(error: BaseException) -> None:
    main_thread = MainThread()
    main = threading.Thread(target=main_thread.serve)
    main.start()

    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        main_thread.run(fail)

    assert main_thread.run(lambda: 5) == 5, "it serves on"
    main_thread.finish()
    main.join()
