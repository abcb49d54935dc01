"""One history out of the records of several epochs."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import BatchEntry
from airflow_provider_ha.checkpoints.restore.timeline import following, merge


def record(timeline: str, first: int, last: int) -> list[BatchEntry]:
    return [BatchEntry(batch=batch, offsets=f"{timeline} {batch}") for batch in range(first, last + 1)]


def told(history: dict[int, BatchEntry]) -> list[str]:
    return [entry.offsets for entry in history.values()]


def test_a_replay_that_was_killed_keeps_what_it_had_not_reached() -> None:
    history = merge({1: record("a", 0, 6), 2: record("a", 3, 4)})

    assert told(history) == [f"a {batch}" for batch in range(7)]


def test_a_later_epoch_that_planned_afresh_ends_the_older_timeline() -> None:
    history = merge({1: record("a", 0, 6), 2: [*record("a", 2, 2), *record("b", 3, 4)]})

    assert told(history) == ["a 0", "a 1", "a 2", "b 3", "b 4"]


def test_what_only_the_older_timeline_knows_of_the_turn_is_given_up() -> None:
    history = merge({1: record("a", 0, 3), 2: [*record("a", 0, 0), *record("b", 2, 2)]})

    assert told(history) == ["a 0", "b 2"], "batch 1 may have been planned afresh as well"


def test_a_fresh_run_leaves_nothing_of_the_runs_before_it() -> None:
    assert told(merge({1: record("a", 0, 6), 2: record("b", 0, 1)})) == ["b 0", "b 1"]


def test_a_run_that_is_known_to_have_begun_anew_ends_the_older_timeline_without_a_common_batch() -> None:
    history = merge({1: record("a", 4, 6), 2: record("b", 0, 1)}, {2: 0})

    assert told(history) == ["b 0", "b 1"], "batches 4 to 6 do not follow"


def test_a_difference_before_the_known_turn_counts() -> None:
    history = merge({1: record("a", 0, 6), 2: [*record("a", 0, 0), *record("b", 1, 4)]}, {2: 4})

    assert told(history) == ["a 0", "b 1", "b 2", "b 3", "b 4"]


def test_the_commit_that_a_later_epoch_saw_is_kept() -> None:
    planned, committed = (BatchEntry(batch=0, offsets="a", commits=text) for text in (None, "v1\n{}"))

    assert merge({1: [planned], 2: [committed]})[0].commits == "v1\n{}"


def test_what_follows_a_gap_cannot_be_replayed() -> None:
    history = {entry.batch: entry for entry in [*record("a", 3, 4), *record("a", 6, 7)]}

    assert [entry.batch for entry in following(history, 2)] == [3, 4]
