"""One history out of the records of several epochs.

Where runs began: what a later run has left behind, and what it has given up of the runs before it.

A checkpoint that ended its job shows that nothing came after it: only while no later run or epoch has worked.

What is recorded of a query's batches, when a later run began anew: the batches of which run count for which cut.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.query_records import (
    KnownRuns,
    LastDirectory,
    QueryRecords,
    RunStart,
    following,
    merge,
    read_records,
)
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from tests.support.clusters.jobs_helpers import NOON


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


BEGAN_ANEW = RunStart()
WENT_ON = RunStart({"q": 9})
CUT, RUN = 5, 1


def known(second: RunStart, *, whole: int | None = 2) -> KnownRuns:
    """Epochs 1 and 2 of run 1, epochs 3 and 4 of run 2."""
    return KnownRuns({1: 1, 2: 1, 3: 2, 4: 2}, {1: RunStart(), 2: second}, whole)


def left_by(runs: KnownRuns, planned: dict[int, int]) -> int | None:
    return runs.left_by("q", planned, cut=CUT, run=RUN)


def test_a_run_that_began_anew_has_left_the_cuts_before_it() -> None:
    assert left_by(known(BEGAN_ANEW), {1: 9, 3: 2}) == 2


def test_a_run_that_continued_from_a_later_batch_did_not_leave_the_cut() -> None:
    assert left_by(known(WENT_ON), {1: 9, 3: 12}) is None


def test_a_run_that_went_on_from_an_earlier_batch_leaves_a_cut_with_its_first_own_batch() -> None:
    runs = known(RunStart({"q": 3}))

    assert left_by(runs, {1: 9, 3: 3}) is None
    assert left_by(runs, {1: 9, 3: 4}) == 2


def test_a_run_is_not_left_by_itself_nor_by_the_runs_before_it() -> None:
    assert known(BEGAN_ANEW).left_by("q", {1: 9, 3: 9}, cut=CUT, run=2) is None


@pytest.mark.parametrize(("led", "whole", "left"), [(True, None, 2), (True, 2, None), (False, None, None)])
def test_a_run_without_a_trace_counts_as_one_that_has_planned_unless_its_directory_or_its_driver_says_no(
    led: bool, whole: int | None, left: int | None
) -> None:
    assert left_by(known(RunStart(led=led), whole=whole), {1: 9}) == left


def test_a_query_that_is_new_in_a_run_has_nothing_in_common_with_one_of_that_name_before() -> None:
    assert left_by(known(RunStart({"another": 9})), {1: 9, 3: 0}) == 2


def test_a_run_turns_in_the_first_epoch_that_shows_a_batch_of_its_own() -> None:
    assert known(WENT_ON).turns("q", {1: 9, 3: 9, 4: 12}) == {1: 0, 4: 10}


def test_a_run_turns_once() -> None:
    assert known(BEGAN_ANEW).turns("q", {1: 9, 3: 2, 4: 5}) == {1: 0, 3: 0}


def test_a_run_whose_start_is_not_known_does_not_turn() -> None:
    assert KnownRuns({1: 1, 3: 2}, {}).turns("q", {1: 9, 3: 2}) == {}


def test_checkpoints_given_up_by_the_start_of_a_run_are_not_planned() -> None:
    runs = known(RunStart({"q": 3}))
    planned = {1: 9, 2: 2, 3: 5}

    assert runs.kept(planned, runs.turns("q", planned), run=2) == {1: 3, 2: 2, 3: 5}


def test_what_a_run_after_the_cut_has_given_up_still_counts() -> None:
    runs = known(BEGAN_ANEW)
    planned = {1: 9, 3: 2}

    assert runs.kept(planned, runs.turns("q", planned), run=RUN) == planned


STOPPED_AT = QueryCut(batch=9, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))
CHOSEN = RestoreSource("savepoint", "s", "savepoints/s", {"q": STOPPED_AT}, 3, 5, "graph", "4.2.0", NOON)
STOPPED = Checkpoint(
    job_id="orders",
    number=4,
    run=3,
    epoch=5,
    reason=CheckpointKind.STOP,
    created_at=NOON,
    queries={"q": STOPPED_AT},
    directory="live/e5-x",
    pin="pins/4",
    graph="graph",
    spark_version="4.2.0",
)


@pytest.mark.parametrize(("last_run", "complete"), [(None, True), (3, True), (4, False)])
def test_of_a_deleted_job_a_stop_is_the_end_only_of_its_last_run(last_run: int | None, complete: bool) -> None:
    found = read_records(CHOSEN, [STOPPED], None, last_run)

    assert found["q"].complete is complete


@pytest.mark.parametrize(("epoch", "complete"), [(5, True), (6, False)])
def test_when_the_last_directory_is_gone_a_stop_is_the_end_only_of_its_epoch(
    tmp_path: Path, epoch: int, complete: bool
) -> None:
    gone = LastDirectory(LinkedWorkArea(tmp_path), f"jobs/orders/checkpoints/live/e{epoch}-x", epoch, 3)

    assert read_records(CHOSEN, [STOPPED], gone)["q"].complete is complete


@pytest.mark.parametrize(
    ("last_run", "unrecorded", "known"), [(None, False, True), (3, False, True), (3, True, False), (4, False, False)]
)
def test_a_directory_of_the_next_life_says_nothing_of_the_one_before(
    tmp_path: Path, last_run: int | None, unrecorded: bool, known: bool
) -> None:
    key = "jobs/orders/checkpoints/live/e7-x"
    (tmp_path / key).mkdir(parents=True)
    last = LastDirectory(LinkedWorkArea(tmp_path), key, 7, 4)

    found = read_records(CHOSEN, [STOPPED], last, last_run, unrecorded=unrecorded)["q"]

    assert found.complete is known
    assert found.epochs == (frozenset({7}) if known else frozenset({0, 7}))


SINK = QuerySink(kind=SinkKind.FOREACH_BATCH)
STARTS = {1: RunStart(), 2: RunStart()}


def cut(batch: int, *recorded: int, timeline: str = "first") -> QueryCut:
    entries = tuple(BatchEntry(batch=each, offsets=f"{timeline} {each}", commits="v1\n{}") for each in recorded)
    return QueryCut(batch=batch, sink=SINK, entries=entries)


def payload(number: int, run: int, part: QueryCut) -> Checkpoint:
    """Checkpoint of a run that had one epoch, of the same number."""
    return Checkpoint(
        job_id="orders",
        number=number,
        run=run,
        epoch=run,
        reason=CheckpointKind.PERIODIC,
        created_at=NOON,
        queries={"q": part},
        directory=f"live/e{run}-x",
        pin=f"pins/{number}",
        graph="graph",
        spark_version="4.2.0",
    )


OF_FIRST = payload(4, 1, cut(9, 7, 8, 9, 10))
OF_SECOND = payload(5, 2, cut(2, 0, 1, 2, 3, timeline="second"))


def records(tmp_path: Path, of: Checkpoint, *payloads: Checkpoint, planned: int = -1) -> QueryRecords:
    """What is known for the cut of a payload; the directory of run 2 is there, and plans one batch or none."""
    chosen = RestoreSource(
        "checkpoint", str(of.number), str(of.pin), of.queries, of.run, of.epoch, "graph", "4.2.0", NOON
    )
    directory = tmp_path / "live" / "last" / "q" / "offsets"
    directory.mkdir(parents=True)
    if planned >= 0:
        (directory / str(planned)).write_text("cannot be read")
    last = LastDirectory(LinkedWorkArea(tmp_path), "live/last", 2, 2)
    return read_records(chosen, payloads, last, starts=STARTS)["q"]


def test_a_cut_is_left_by_a_later_run_whose_directory_alone_shows_a_batch(tmp_path: Path) -> None:
    found = records(tmp_path, OF_FIRST, OF_FIRST, planned=0)

    assert found.left_by == 2
    assert found.planned_to == 10, "the sink may have batch 10 of the first run"
    assert not found.history, "batch 10 does not follow what the second run gave the sink"


def test_a_cut_is_not_left_by_a_later_run_that_has_planned_nothing(tmp_path: Path) -> None:
    found = records(tmp_path, OF_FIRST, OF_FIRST)

    assert (found.left_by, sorted(found.history)) == (None, [7, 8, 9, 10])


def test_the_batches_of_the_first_run_do_not_count_for_a_cut_of_the_second(tmp_path: Path) -> None:
    found = records(tmp_path, OF_SECOND, OF_FIRST, OF_SECOND)

    assert (found.left_by, found.planned_to, sorted(found.history)) == (None, 3, [0, 1, 2, 3])
    assert found.epochs == frozenset({2})


def test_a_batch_whose_record_is_gone_was_planned_when_a_cut_is_after_it(tmp_path: Path) -> None:
    later = payload(6, 2, cut(5))

    assert records(tmp_path, OF_SECOND, OF_SECOND, later).planned_to == 5
