"""What the end of a script drops, and what is said of it; what ends with the run is stood in for."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.driver.ending import run_end
from airflow_provider_ha.driver.ending.stop_job import StopFailedError, stop_all
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.operations import operations


SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)


@pytest.fixture
def registry(tmp_path: Path) -> QueryRegistry:
    """Two queries that lie at rest."""
    registry = QueryRegistry(SystemClock())
    resting = [RestingQuery(name, LocalTree(tmp_path / name), SINK) for name in ("started-before", "never-started")]
    registry.expect(resting, complete=True)
    return registry


def test_the_end_of_a_script_drops_only_what_the_run_never_started_and_says_so(
    registry: QueryRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = StartLedger(LocalTree(tmp_path))
    ledger.note("started-before", SINK)
    cut: list[str] = []

    def publish(_: Any) -> SimpleNamespace:
        cut.extend(query.name for query in registry.members)
        return SimpleNamespace(number=5, pin="pins/5")

    parts = MagicMock(
        registry=registry,
        ledger=ledger,
        lifecycle=Lifecycle(),
        publisher=SimpleNamespace(publish=publish),
        origin=SimpleNamespace(plans={"started-before": None, "never-started": None}),
    )
    way_out = MagicMock(leave=MagicMock(side_effect=SystemExit))
    monkeypatch.setattr(operations, "list_operations", lambda *_: [])

    with pytest.raises(SystemExit):
        run_end.DriverEnd(MagicMock(), MagicMock(), way_out, parts)._finish()

    assert cut == ["started-before"]
    (state,), said = parts.writer.end.call_args
    assert (state, said["checkpoint"]) == (JobState.FINISHED, 5)
    assert said["reason"] == (
        "the script ended; it never started 'never-started', which the run was restored with: checkpoint 5 drops them; "
        "it did not start 'started-before' again, which checkpoint 5 holds as it was"
    )


def test_the_end_of_a_script_that_started_everything_needs_no_words() -> None:
    assert run_end.script_ended([], [], 5) == "the script ended"


def test_a_stop_does_not_go_on_while_a_query_is_being_started(
    registry: QueryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_ha.driver.ending.stop_job.STOP_SECONDS", 0.0)
    lifecycle = Lifecycle()
    with lifecycle.start_of_a_query():
        lifecycle.begin_stop()

        with pytest.raises(StopFailedError, match="still being started"):
            stop_all(registry, lifecycle)

    stop_all(registry, lifecycle)
