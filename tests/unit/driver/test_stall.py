"""When a job is stalled, and what its driver does then."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.driver.queries import stall_watch
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.queries.stall_watch import (
    QuerySample,
    Silence,
    SilenceDetector,
    StallDetector,
    StallWatch,
)
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import STALLED, Failure, FailureKind
from tests.support.fake.clock import VirtualClock, to_milliseconds
from tests.support.spark.started_queries import trigger_report


TIMEOUT = 600.0
HANGING = QuerySample(7, in_trigger=True, doing="Processing new data")
WAITING = QuerySample(7, in_trigger=False)


def after(*looks: tuple[float, QuerySample]) -> list[str]:
    """Return which query is stalled after each of these looks, or nothing."""
    detector = StallDetector(TIMEOUT)
    found = [detector.stalled({"hourly": look}, at) for at, look in looks]
    return [stall.query if stall is not None else "" for stall in found]


def test_a_query_that_hangs_in_one_trigger_is_stalled_when_the_time_is_over() -> None:
    assert after((0, HANGING), (599, HANGING), (600, HANGING)) == ["", "", "hourly"]


def test_a_query_that_waits_for_data_is_never_stalled() -> None:
    assert after((0, WAITING), (6_000, WAITING), (12_000, WAITING)) == ["", "", ""]


def test_a_commit_begins_the_time_again() -> None:
    assert after((0, HANGING), (500, QuerySample(8, in_trigger=True)), (900, QuerySample(8, in_trigger=True))) == [
        "",
        "",
        "",
    ]


def test_a_wait_between_two_triggers_begins_the_time_again() -> None:
    assert after((0, HANGING), (500, WAITING), (900, HANGING)) == ["", "", ""]


def test_a_report_of_another_trigger_begins_the_time_again() -> None:
    idle = [QuerySample(7, in_trigger=True, reported=f"2026-03-01T03:0{minute}:00.000Z") for minute in range(3)]

    assert after((0, idle[0]), (500, idle[1]), (1_000, idle[2])) == ["", "", ""]
    assert after((0, idle[0]), (600, idle[0])) == ["", "hourly"]


def test_the_next_commit_ends_the_stall() -> None:
    assert after((0, HANGING), (700, HANGING), (705, QuerySample(8, in_trigger=True))) == ["", "hourly", ""]


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


def silent(*looks: tuple[float, str, object]) -> list[bool]:
    """Return whether the job is silent for too long, after each look: when, what it waits for, what is heard."""
    detector = SilenceDetector(TIMEOUT)
    return [detector.silent(waiting, heard, at) is not None for at, waiting, heard in looks]


def test_a_job_that_does_not_work_yet_and_of_which_nothing_is_heard_is_stalled_when_the_time_is_over() -> None:
    assert silent((0, "a query", 1), (599, "a query", 1), (600, "a query", 1)) == [False, False, True]


def test_a_job_that_works_is_never_silent() -> None:
    assert silent((0, "", 1), (6_000, "", 1)) == [False, False]


def test_a_sign_of_life_begins_the_time_of_the_silence_again() -> None:
    assert silent((0, "a query", 1), (500, "a query", 2), (900, "a query", 2)) == [False, False, False]


def test_a_job_that_worked_in_between_is_not_silent_at_once() -> None:
    assert silent((0, "a query", 1), (500, "", 1), (900, "a query", 1)) == [False, False, False]


def test_a_stall_names_the_reason_of_the_wait() -> None:
    silence = Silence("the script has not started a query", 600.0)

    assert silence.sentence(None) == "no commit or report for 600 s: the script has not started a query"
    assert silence.sentence(0).endswith("a query; the application has no executors")


HANGS = "no commit or report for 600 s: the script has not started a query; the application has no executors"


class Stage:
    """A driver with one query whose batch hangs."""

    def __init__(self, directory: Path, options: HaOptions) -> None:
        self.clock = VirtualClock()
        self.in_trigger = True
        self.doing = "Waiting for next trigger"
        self.waiting: set[str] = set()  # queries that are in no trigger while others are
        self.executors = 0
        self.answers = True
        self.said: list[str] = []
        self.reports: dict[str, Any] = {}  # query -> the last report of Spark
        self.restarts: list[tuple[str, Failure]] = []
        self.lifecycle = Lifecycle()
        self.directory = directory
        self.registry = registry = QueryRegistry(self.clock)
        self.context = context = SimpleNamespace(
            isLocal=lambda: False,
            statusTracker=lambda: SimpleNamespace(getExecutorInfos=lambda: [None] * (self.executors + 1)),
        )
        self._session = SimpleNamespace(sparkContext=lambda: context)
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

    def start(self, name: str = "hourly") -> None:
        """Have the script start a query."""
        query = SimpleNamespace(
            status=lambda: self._status(name),
            sparkSession=lambda: self._session,
            lastProgress=lambda: self.reports.get(name),
        )
        handle = SimpleNamespace(_jsq=query, isActive=True)
        sink = SinkSpec(SinkKind.OTHER, "noop")
        self.registry.add(StartedQuery(name, handle, sink, LocalTree(self.directory / name)))

    def commit(self, batch: int, name: str = "hourly") -> None:
        """Have a query commit a batch."""
        (self.directory / name / "commits").mkdir(parents=True, exist_ok=True)
        (self.directory / name / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        self.reports[name] = trigger_report(batch, executed=True)

    def _status(self, name: str) -> Any:
        if not self.answers:
            raise ConnectionRefusedError("the JVM is gone")
        hangs = self.in_trigger and name not in self.waiting
        doing = "Processing new data" if hangs else self.doing
        return SimpleNamespace(isTriggerActive=lambda: hangs, message=lambda: doing)

    def look(self, *, later: float = 0.0) -> str:
        """Look after so many seconds; return what the status says."""
        self.clock.milliseconds += to_milliseconds(later)
        self.watch.look()
        return self.said[-1] if self.said else ""


@pytest.fixture
def options() -> HaOptions:
    return HaOptions(stall_timeout=TIMEOUT)


@pytest.fixture
def starting(tmp_path: Path, options: HaOptions, monkeypatch: pytest.MonkeyPatch) -> Stage:
    """A driver whose script has started nothing."""
    made = Stage(tmp_path, options)
    monkeypatch.setattr(stall_watch, "_active_context", lambda: made.context)
    return made


@pytest.fixture
def stage(starting: Stage) -> Stage:
    """A driver whose only query has begun a batch."""
    starting.start()
    return starting


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
def test_a_driver_that_hangs_before_its_first_trigger_ends_itself_where_the_job_wants_that(starting: Stage) -> None:
    starting.look()
    starting.look(later=TIMEOUT)

    ((_, failure),) = starting.restarts
    assert (failure.kind, failure.error_class, failure.query) == (FailureKind.UNKNOWN, STALLED, None)
    assert failure.message == HANGS


@pytest.mark.parametrize("options", [HaOptions(stall_timeout=TIMEOUT, restart_stalled=True)], ids=["restart"])
def test_the_driver_ends_itself_where_the_job_wants_that(stage: Stage) -> None:
    stage.look()
    stage.look(later=TIMEOUT)

    ((reason, failure),) = stage.restarts
    assert reason.startswith("the job is stalled: query 'hourly'")
    assert (failure.kind, failure.error_class, failure.query) == (FailureKind.UNKNOWN, STALLED, "hourly")
    assert failure.batches == {"hourly": -1}


def test_a_script_that_hangs_before_it_starts_a_query_is_stalled(starting: Stage) -> None:
    starting.look()

    said = starting.look(later=TIMEOUT)

    assert said == HANGS


def test_a_script_with_executors_that_is_slow_to_start_a_query_is_no_stall(starting: Stage) -> None:
    starting.executors = 2
    starting.look()

    assert starting.look(later=TIMEOUT) == ""


def test_a_query_that_does_not_come_to_its_first_trigger_is_stalled(stage: Stage) -> None:
    stage.in_trigger, stage.doing = False, "Initializing sources"
    stage.look()

    said = stage.look(later=TIMEOUT)

    assert said.startswith("no commit or report for 600 s: waiting for the first batch of 'hourly'")


def test_a_first_batch_has_all_its_time_also_after_a_script_that_was_slow(starting: Stage) -> None:
    starting.look()
    starting.look(later=TIMEOUT - 1)
    starting.start()

    assert starting.look(later=5) == ""
    assert starting.look(later=TIMEOUT - 1) == ""
    assert starting.look(later=1).startswith("query 'hourly' has been in one trigger before its first batch")


def test_a_query_that_has_committed_and_waits_is_no_silence(stage: Stage) -> None:
    stage.in_trigger = False
    stage.look()
    stage.commit(0)
    stage.look(later=1)

    assert stage.look(later=TIMEOUT * 10) == ""


def test_a_stall_is_compared_with_the_directory_before_it_is_reported(stage: Stage) -> None:
    """Otherwise the publisher's looks serve: a store bills each request."""
    stage.registry.note_commits({"hourly": 0})
    stage.look()
    stage.commit(1)
    del stage.reports["hourly"]  # the session keeps no reports

    assert stage.look(later=TIMEOUT) == ""
    assert "after batch 1" in stage.look(later=TIMEOUT)


def test_a_query_whose_directory_cannot_be_read_is_not_called_stalled(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.commit(0)
    stage.registry.note_commits({"hourly": 0})
    stage.look()

    def fail(_: object) -> None:
        raise StorageUnavailableError("the store does not answer")

    monkeypatch.setattr(stall_watch, "progress", fail)

    assert stage.look(later=TIMEOUT) == ""


def test_batches_that_a_restored_query_executes_again_are_signs_of_life(starting: Stage) -> None:
    sink = QuerySink(kind=SinkKind.OTHER)
    starting.registry.expect([RestingQuery("hourly", LocalTree(starting.directory / "hourly"), sink)], complete=True)
    starting.look()
    for batch in range(3):
        starting.commit(batch)

        assert starting.look(later=TIMEOUT - 1) == ""


def test_the_query_that_still_hangs_is_named_when_the_first_one_works_again(stage: Stage) -> None:
    stage.start("daily")
    stage.commit(0, "daily")
    stage.look()
    both = stage.look(later=TIMEOUT)
    stage.waiting = {"hourly"}

    one = stage.look(later=5)

    assert both.startswith("query 'hourly' has been in one trigger")
    assert one.startswith("query 'daily' has been in one trigger after batch 0 for 605 s")
