"""What the publisher may rely on, for every source of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.driver.checkpointing.progress import (
    FALLBACK_SECONDS,
    PAID_SECONDS,
    ProgressSource,
    progress_source,
)
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from tests.contract.progress_sources import PERIOD, SOURCES, Stage
from tests.support.fake.clock import VirtualClock, to_milliseconds


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    clock = VirtualClock()
    return Stage(tmp_path, clock, QueryRegistry(clock))


@pytest.fixture(params=sorted(SOURCES))
def source(request: pytest.FixtureRequest, stage: Stage) -> ProgressSource:
    return SOURCES[request.param](stage)


def said(source: ProgressSource, stage: Stage) -> bool:
    """Return what the source says now, or when its period is over at the latest."""
    if source.moved():
        return True
    stage.clock.milliseconds += to_milliseconds(PERIOD)
    return source.moved()


def test_the_first_call_looks(source: ProgressSource) -> None:
    assert source.moved()


def test_a_batch_that_ends_is_looked_at(source: ProgressSource, stage: Stage) -> None:
    handle = stage.start("first")
    assert source.moved()

    looks = []
    for batch in range(3):
        stage.trigger(handle, batch)
        looks.append(said(source, stage))

    assert looks == [True, True, True]


def test_a_batch_that_an_idle_trigger_named_before_is_looked_at_when_it_ends(
    source: ProgressSource, stage: Stage
) -> None:
    """A trigger without data reports the batch that comes next, under the number that this one will have."""
    handle = stage.start("first")
    stage.trigger(handle, 7)
    assert source.moved()

    stage.trigger(handle, 7)

    assert said(source, stage)


def test_a_query_that_is_started_is_looked_at(source: ProgressSource, stage: Stage) -> None:
    stage.start("first")
    assert source.moved()

    stage.start("second")

    assert said(source, stage)


def test_a_jvm_that_does_not_answer_is_no_error(source: ProgressSource, stage: Stage) -> None:
    handle = stage.start("first")
    handle.dead = True

    assert source.moved()
    source.moved()


def test_every_move_is_said_at_the_end_of_the_period_with_a_query_that_never_reports(stage: Stage) -> None:
    source = SOURCES["either"](stage)
    stage.start("first")
    assert source.moved()
    assert not source.moved()

    stage.clock.milliseconds += to_milliseconds(PERIOD)

    assert source.moved()


def test_logs_are_not_read_without_a_report(stage: Stage) -> None:
    source = SOURCES["reported"](stage)
    stage.trigger(stage.start("first"), 3)
    assert source.moved()

    stage.clock.milliseconds += to_milliseconds(3600.0)

    assert [source.moved() for _ in range(3)] == [False, False, False]


@pytest.mark.parametrize(("cheap", "seconds"), [(True, FALLBACK_SECONDS), (False, PAID_SECONDS)])
def test_a_driver_looks_without_a_report_as_often_as_a_look_is_cheap(stage: Stage, cheap: bool, seconds: float) -> None:
    source = progress_source(stage.registry, stage.clock, cheap_listing=cheap)
    assert source.moved()

    stage.clock.milliseconds += to_milliseconds(seconds) - 1
    before = source.moved()
    stage.clock.milliseconds += 1

    assert (before, source.moved()) == (False, True)
