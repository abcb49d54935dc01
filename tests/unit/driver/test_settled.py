"""When the driver believes that the script has started all its queries: only then a cut is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.driver.queries import SETTLE_SECONDS, QueryRegistry, StartedQuery
from airflow_provider_ha.driver.query_start import WriterCalls
from airflow_provider_ha.driver.writer_notes import SinkSpec


class HeldClock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def lease_time(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def registry(clock: HeldClock) -> QueryRegistry:
    registry = QueryRegistry(clock)
    registry.expect(["first", "second"])
    return registry


def query(name: str) -> StartedQuery:
    return StartedQuery(name, None, SinkSpec(SinkKind.OTHER, "noop"), Path(name))


def test_a_query_that_is_expected_is_waited_for_however_long_it_replays(
    registry: QueryRegistry, clock: HeldClock
) -> None:
    registry.add(query("first"))
    clock.seconds += 100 * SETTLE_SECONDS

    assert not registry.settled


def test_a_script_that_never_waits_is_set_up_some_time_after_its_last_start(
    registry: QueryRegistry, clock: HeldClock
) -> None:
    registry.add(query("first"))
    registry.add(query("second"))

    assert not registry.settled
    clock.seconds += SETTLE_SECONDS + 1
    assert registry.settled


def test_a_script_that_waits_has_started_what_it_wants(registry: QueryRegistry) -> None:
    registry.add(query("first"))

    registry.script_waits()

    assert registry.settled


def test_the_wait_for_a_replayed_batch_is_not_the_scripts() -> None:
    waited: list[Any] = []
    calls = WriterCalls(
        start=lambda writer, path: (writer, path),
        set_format=lambda writer, source: writer,
        trigger=lambda writer, **kind: writer,
        foreach_batch=lambda writer, function: writer,
        await_termination=waited.append,
    )

    calls.run_once("writer", "path")

    assert waited == [("writer", "path")]
