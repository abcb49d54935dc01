"""Where runs began: what a later run has left behind, and what it has given up of the runs before it."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.restore.timeline import KnownRuns, RunStart


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


def test_a_run_that_went_on_from_a_later_batch_has_left_nothing() -> None:
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


def test_what_a_run_has_given_up_with_its_start_is_not_planned_any_more() -> None:
    runs = known(RunStart({"q": 3}))
    planned = {1: 9, 2: 2, 3: 5}

    assert runs.kept(planned, runs.turns("q", planned), run=2) == {1: 3, 2: 2, 3: 5}


def test_what_a_run_after_the_cut_has_given_up_still_counts() -> None:
    runs = known(BEGAN_ANEW)
    planned = {1: 9, 3: 2}

    assert runs.kept(planned, runs.turns("q", planned), run=RUN) == planned
