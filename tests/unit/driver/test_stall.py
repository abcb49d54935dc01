"""When a job is stalled, and what its driver does then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.queries import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.stall import Look, StallDetector
from airflow_provider_ha.driver.stall_watch import StallWatch
from airflow_provider_ha.driver.writer_notes import SinkSpec
from airflow_provider_ha.jobs.failures import STALLED, Failure, FailureKind
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.testing.fake.clock import VirtualClock, to_milliseconds


TIMEOUT = 600.0
HANGING = Look(7, in_trigger=True, doing="Processing new data")
WAITING = Look(7, in_trigger=False)


def after(*looks: tuple[float, Look]) -> list[str]:
    """Return which query is stalled after each of these looks, or nothing."""
    detector = StallDetector(TIMEOUT)
    found = [detector.stalled({"hourly": look}, at) for at, look in looks]
    return [stall.query if stall is not None else "" for stall in found]


def test_a_query_that_hangs_in_one_trigger_is_stalled_when_the_time_is_over() -> None:
    assert after((0, HANGING), (599, HANGING), (600, HANGING)) == ["", "", "hourly"]


def test_a_query_that_waits_for_data_is_never_stalled() -> None:
    assert after((0, WAITING), (6_000, WAITING), (12_000, WAITING)) == ["", "", ""]


def test_a_commit_begins_the_time_again() -> None:
    assert after((0, HANGING), (500, Look(8, in_trigger=True)), (900, Look(8, in_trigger=True))) == ["", "", ""]


def test_a_wait_between_two_triggers_begins_the_time_again() -> None:
    assert after((0, HANGING), (500, WAITING), (900, HANGING)) == ["", "", ""]


def test_a_report_of_another_trigger_begins_the_time_again() -> None:
    idle = [Look(7, in_trigger=True, reported=f"2026-03-01T03:0{minute}:00.000Z") for minute in range(3)]

    assert after((0, idle[0]), (500, idle[1]), (1_000, idle[2])) == ["", "", ""]
    assert after((0, idle[0]), (600, idle[0])) == ["", "hourly"]


def test_the_next_commit_ends_the_stall() -> None:
    assert after((0, HANGING), (700, HANGING), (705, Look(8, in_trigger=True))) == ["", "hourly", ""]


def test_the_query_that_hangs_the_longest_is_named() -> None:
    detector = StallDetector(TIMEOUT)
    detector.stalled({"first": HANGING}, 0)
    detector.stalled({"first": HANGING, "second": HANGING}, 100)

    stall = detector.stalled({"first": HANGING, "second": HANGING}, 800)

    assert stall is not None
    assert stall.sentence(None) == (
        "query 'first' has been in one trigger after batch 7 for 800 s (Processing new data)"
    )
    assert stall.sentence(0).endswith("; the application has no executors")
    assert "executors" not in stall.sentence(2)


class Stage:
    """A driver with one query whose batch hangs."""

    def __init__(self, directory: Path, options: HaOptions) -> None:
        self.clock = VirtualClock()
        self.in_trigger = True
        self.executors = 0
        self.answers = True
        self.said: list[str] = []
        self.restarts: list[tuple[str, Failure]] = []
        self.lifecycle = Lifecycle()
        registry = QueryRegistry(self.clock)
        context = SimpleNamespace(
            isLocal=lambda: False,
            statusTracker=lambda: SimpleNamespace(getExecutorInfos=lambda: [None] * (self.executors + 1)),
        )
        session = SimpleNamespace(sparkContext=lambda: context)
        query = SimpleNamespace(status=self._status, sparkSession=lambda: session, lastProgress=lambda: None)
        handle = SimpleNamespace(_jsq=query)
        registry.add(StartedQuery("hourly", handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(directory / "hourly")))
        writer: Any = SimpleNamespace(set_stalled=self.said.append)
        self.watch = StallWatch(
            registry,
            writer,
            self.lifecycle,
            options,
            self.clock,
            restart=lambda reason, failure: self.restarts.append((reason, failure)),
            failed=lambda _: None,
        )

    def _status(self) -> Any:
        if not self.answers:
            raise ConnectionRefusedError("the JVM is gone")
        return SimpleNamespace(isTriggerActive=lambda: self.in_trigger, message=lambda: "Processing new data")

    def look(self, *, later: float = 0.0) -> str:
        """Look after so many seconds; return what the status says."""
        self.clock.milliseconds += to_milliseconds(later)
        self.watch.look()
        return self.said[-1] if self.said else ""


@pytest.fixture
def options() -> HaOptions:
    return HaOptions(stall_timeout=TIMEOUT)


@pytest.fixture
def stage(tmp_path: Path, options: HaOptions) -> Stage:
    return Stage(tmp_path, options)


def test_the_status_says_which_query_since_when_and_why(stage: Stage) -> None:
    stage.look()

    said = stage.look(later=TIMEOUT)

    assert said == (
        "query 'hourly' has been in one trigger before its first batch for 600 s (Processing new data); "
        "the application has no executors"
    )
    assert stage.restarts == []


def test_a_stall_that_lasts_is_said_once_and_taken_back_when_it_is_over(stage: Stage) -> None:
    stage.look()
    stage.look(later=TIMEOUT)
    stage.look(later=60)
    stage.in_trigger = False

    assert stage.look(later=60) == ""
    assert len([sentence for sentence in stage.said if sentence]) == 1


def test_a_jvm_that_does_not_answer_is_no_stall(stage: Stage) -> None:
    stage.look()
    stage.answers = False

    assert stage.look(later=TIMEOUT) == ""


def test_a_stop_that_waits_for_its_batch_is_no_stall(stage: Stage) -> None:
    stage.look()
    stage.lifecycle.begin_stop()

    assert stage.look(later=TIMEOUT) == ""


@pytest.mark.parametrize("options", [HaOptions(stall_timeout=TIMEOUT, restart_stalled=True)], ids=["restart"])
def test_the_driver_ends_itself_where_the_job_wants_that(stage: Stage) -> None:
    stage.look()
    stage.look(later=TIMEOUT)

    ((reason, failure),) = stage.restarts
    assert reason.startswith("the job is stalled: query 'hourly'")
    assert (failure.kind, failure.error_class, failure.query) == (FailureKind.UNKNOWN, STALLED, "hourly")
    assert failure.batches == {"hourly": -1}
