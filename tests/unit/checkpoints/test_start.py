"""What has to be executed again before a query starts."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.restore.plan_execution import decide_start
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.errors import CheckpointCorruptError, RestoreRefusedError


def entries(first: int, last: int) -> list[BatchEntry]:
    return [BatchEntry(batch=batch, offsets=f"entry {batch}") for batch in range(first, last + 1)]


def steps(
    planned: int, committed: int, sink_max: int, recorded: list[BatchEntry] | None = None
) -> list[tuple[int, str, bool]]:
    decided = decide_start(Progress(planned, committed), recorded or [], sink_max)
    return [(step.batch, step.into, step.entry is not None) for step in decided]


@pytest.mark.parametrize(
    ("planned", "committed", "sink_max"), [(-1, -1, -1), (4, 4, 4), (5, 4, 4), (0, -1, -1), (7, 7, -1)]
)
def test_a_start_that_spark_handles_correctly_needs_no_steps(planned: int, committed: int, sink_max: int) -> None:
    assert steps(planned, committed, sink_max) == []


@pytest.mark.parametrize("batch", [0, 5])
def test_a_planned_batch_that_the_file_sink_has_runs_into_noop(batch: int) -> None:
    assert steps(batch, batch - 1, sink_max=batch) == [(batch, "noop", False)]


def test_recorded_batches_run_into_noop_up_to_the_sink_and_then_into_it() -> None:
    assert steps(3, 3, sink_max=5, recorded=entries(4, 6)) == [
        (4, "noop", True),
        (5, "noop", True),
        (6, "sink", True),
    ]


def test_every_recorded_batch_runs_into_a_sink_that_has_no_log() -> None:
    assert steps(3, 3, sink_max=-1, recorded=entries(4, 5)) == [(4, "sink", True), (5, "sink", True)]


def test_a_replay_that_was_killed_goes_on_with_the_planned_batch() -> None:
    assert steps(5, 4, sink_max=6, recorded=entries(4, 6)) == [(5, "noop", False), (6, "noop", True)]


def test_a_replay_that_is_over_is_not_repeated() -> None:
    assert steps(9, 9, sink_max=9, recorded=entries(4, 6)) == []


@pytest.mark.parametrize("recorded", [[], entries(4, 5), [*entries(4, 5), *entries(7, 9)]])
def test_a_file_sink_with_batches_of_unknown_boundaries_is_refused(recorded: list[BatchEntry]) -> None:
    with pytest.raises(RestoreRefusedError, match="LOSS_POSSIBLE: the sink of query 'stats' has batches up to 7"):
        decide_start(Progress(3, 3), recorded, 7, query="stats")


def test_a_fresh_query_does_not_start_on_an_output_with_a_past() -> None:
    with pytest.raises(RestoreRefusedError):
        decide_start(Progress(-1, -1), [], 0)


def test_a_commit_without_a_plan_is_damage() -> None:
    with pytest.raises(CheckpointCorruptError, match="commits/5"):
        decide_start(Progress(4, 5), [], -1)


def test_two_planned_batches_before_a_file_sink_are_damage() -> None:
    with pytest.raises(CheckpointCorruptError, match="offsets/6"):
        decide_start(Progress(6, 4), [], 4)
