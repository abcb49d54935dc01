"""Which queries a cut holds, and when one may be taken: the registry of a driver, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.query_registry import SETTLE_SECONDS, QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.jobs.model import OperationKind


class HeldClock(SystemClock):
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
    """The registry after a loss: nothing says whether the script had started all its queries."""
    registry = QueryRegistry(clock)
    registry.expect([resting("first"), resting("second")], complete=False)
    return registry


def resting(name: str) -> RestingQuery:
    return RestingQuery(name, LocalTree(Path(name)), QuerySink(kind=SinkKind.OTHER))


def query(name: str, error: str | None = None) -> StartedQuery:
    handle = SimpleNamespace(runId=name, exception=lambda: error)
    return StartedQuery(name, handle, SinkSpec(SinkKind.OTHER, "noop"), LocalTree(Path(name)))


def names(queries: Any) -> list[str]:
    return [each.name for each in queries]


def test_what_was_complete_before_a_loss_is_whole_before_anything_is_started(clock: HeldClock) -> None:
    registry = QueryRegistry(clock)

    registry.expect([resting("first")], complete=True)

    assert registry.whole
    assert not registry.settled


def test_a_script_that_was_lost_while_it_started_its_queries_is_waited_for(registry: QueryRegistry) -> None:
    registry.add(query("first"))

    assert not registry.whole


def test_a_script_that_never_waits_is_set_up_some_time_after_its_last_start(
    registry: QueryRegistry, clock: HeldClock
) -> None:
    registry.add(query("first"))

    assert not registry.settled
    clock.seconds += SETTLE_SECONDS + 1
    assert registry.settled


def test_a_script_that_starts_a_query_is_not_set_up_however_long_that_replays(
    registry: QueryRegistry, clock: HeldClock
) -> None:
    registry.add(query("first"))
    registry.begin(resting("second"))
    clock.seconds += 100 * SETTLE_SECONDS

    assert not registry.settled
    registry.give_up("second")
    assert registry.settled


def test_a_script_that_waits_has_started_what_it_wants(registry: QueryRegistry) -> None:
    registry.add(query("first"))

    registry.script_waits()

    assert registry.settled


def test_what_is_not_started_yet_is_a_member_behind_all_that_run(registry: QueryRegistry) -> None:
    """A cut reads in the opposite order: what may read the output of another query is read first."""
    registry.add(query("new"))
    registry.add(query("second"))

    assert names(registry.members) == ["new", "second", "first"]
    assert names(registry.resting) == ["first"]


def test_a_query_that_is_being_started_stays_a_member_with_the_sink_that_the_script_gives_it(
    registry: QueryRegistry,
) -> None:
    moved = RestingQuery("first", LocalTree(Path("first")), QuerySink(kind=SinkKind.FILE, path="/elsewhere"))

    registry.begin(moved)

    assert registry.members[0] == moved
    assert names(registry.members) == ["first", "second"]


def test_a_query_that_runs_for_the_first_time_is_no_member_before_it_has_started(registry: QueryRegistry) -> None:
    registry.begin(resting("new"))

    assert names(registry.members) == ["first", "second"]


def test_only_the_newest_handle_of_a_name_counts(registry: QueryRegistry) -> None:
    registry.add(query("first", "it failed"))
    registry.add(query("second"))
    assert "it failed" in (registry.failure() or "")

    again = query("first")
    registry.begin(resting("first"))
    registry.add(again)

    assert registry.failure() is None
    assert registry.find(SimpleNamespace(runId="first")) is again
    assert names(registry.started) == ["first", "second"]


def test_the_message_names_what_the_script_has_not_begun_to_start(registry: QueryRegistry) -> None:
    registry.begin(resting("first"))

    assert registry.missing() == "the script has not started 'second', which the run had before"
    registry.add(query("second"))
    assert registry.missing() == ""


def test_the_wait_for_a_replayed_batch_is_not_the_scripts() -> None:
    waited: list[Any] = []
    calls = WriterCalls(
        start=lambda writer, path: (writer, path),
        to_table=lambda writer, name: (writer, name),
        set_format=lambda writer, source: writer,
        trigger=lambda writer, **kind: writer,
        foreach_batch=lambda writer, function: writer,
        await_termination=waited.append,
        option=lambda writer, key, value: writer,
    )

    writer = SimpleNamespace()

    calls.run_once(writer, "path")

    assert waited == [(writer, "path")]


def test_a_requested_checkpoint_waits_until_the_script_waits_and_a_savepoint_until_the_job_is_whole(
    clock: HeldClock,
) -> None:
    """A restored job is whole from the beginning; its first checkpoint claims what it was restored from."""
    registry = QueryRegistry(clock)
    registry.expect([resting("first")], complete=True)

    before = [registry.ready_for(kind) for kind in (OperationKind.SAVEPOINT, OperationKind.CHECKPOINT)]
    registry.add(query("first"))
    started = registry.ready_for(OperationKind.CHECKPOINT)
    registry.script_waits()

    assert (before, started) == ([True, False], False)
    assert registry.ready_for(OperationKind.CHECKPOINT)
