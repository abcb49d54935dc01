"""Cells of the zombie matrix, and takeovers in a row; the whole matrix is ``make proof SUITE=zombie``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.zombie import takeover
from lab.zombie.cells import CELLS, State, Store, Where, Who
from lab.zombie.play import Scene, play, scene
from lab.zombie.purging import purge
from lab.zombie.stage import Stage, on_hdfs, on_s3


# A cell is two Sparks with executors in other processes. Of what holds here, `make test` proves the parts: in
# `test_race.py` one of eight writers on S3 gets each name, in `tests/unit/checkpoints/test_slot.py` a takeover fences.
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]
LIVES_SECONDS = 60.0
TAKEOVERS = 5
DYING = 3  # which of them
NAMED = {"both-never-rocksdb_2-s3", "driver-task-rocksdb_2-hdfs"}
HOURS = {"both-never-rocksdb_2-s3", "executors-upload-hdfs_backed-s3", "driver-task-rocksdb_2-hdfs"}
SAMPLE = {cell.name: cell for cell in CELLS if cell.name in NAMED} | {
    cell.name: cell
    for cell in CELLS
    if cell.levels[:2] in {(Who.BOTH, Where.UPLOAD), (Who.EXECUTORS, Where.UPLOAD), (Who.DRIVER, Where.COMMIT_PUT)}
}


def of(store: Store) -> list[Any]:
    """Return the cells of a store."""
    names = [name for name, cell in SAMPLE.items() if cell.store is store]
    return [pytest.param(name, marks=pytest.mark.hours) if name in HOURS else name for name in names]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_s3(tmp_path_factory.mktemp("drivers-on-s3")) as stage:
        yield stage


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with on_hdfs(tmp_path_factory.mktemp("drivers-on-hdfs")) as stage:
        yield stage


@pytest.mark.parametrize("name", of(Store.S3))
def test_what_comes_back_changes_nothing_on_s3(name: str, s3: Stage, tmp_path: Path) -> None:
    outcome = play(SAMPLE[name], s3, tmp_path)

    assert outcome.wrong == []


@pytest.mark.hours
@pytest.mark.parametrize("name", of(Store.HDFS))
def test_what_comes_back_changes_nothing_on_hdfs(name: str, hdfs: Stage, tmp_path: Path) -> None:
    outcome = play(SAMPLE[name], hdfs, tmp_path)

    assert outcome.wrong == []


@pytest.mark.hours
def test_a_zombie_that_lives_and_deletes_all_it_sees_changes_nothing(s3: Stage, tmp_path: Path) -> None:
    outcome = purge(s3, tmp_path, State.CHANGELOG_2, LIVES_SECONDS)

    assert outcome.wrong == []


@pytest.mark.hours
def test_five_takeovers_in_a_row_with_a_kill_after_every_step(s3: Stage, tmp_path: Path) -> None:
    """No driver is killed or frozen: each one that is taken over from runs on, and dies of the fence."""
    with scene(s3, tmp_path, State.CHANGELOG_2) as on:
        on.stream.feed(3)
        leader = on.hire()
        leader.await_ready()
        on.lead(leader, 1)
        deaths = 0
        for number in range(1, TAKEOVERS + 1):
            leader = on.lead_to(leader, on.stream.files - 1)
            old = leader
            on.stream.feed(2)
            if number == DYING:
                made, deaths = die_in_each_step(on)
                leader = on.take_over(made)
            else:
                leader = on.take_over()
            on.stream.feed(1)
            assert old.answer()["failures"]
            s3.give_back(old)
        leader = on.lead_to(leader, on.stream.files - 1)

        assert deaths >= len(("slot", "directory", "base"))
        assert on.stream.wrong(leader.stop()) == []
        s3.give_back(leader)


def die_in_each_step(on: Scene) -> tuple[int, int]:
    """Take over, each time as a new epoch that dies one step later; return the last one, and the deaths."""
    new = on.epoch
    for deaths, changes in enumerate([1, *range(1, 50)]):  # the first death leaves the slot taken
        new += 1
        request = {"storage": on.storage.to_json(), "old": on.epoch, "new": new, "changes": changes}
        done = subprocess.run(
            [sys.executable, "-m", takeover.__name__], input=json.dumps(request), text=True, check=False, timeout=120
        )
        if done.returncode == 0:
            return new, deaths
        assert done.returncode == -signal.SIGKILL
    raise AssertionError("a takeover has no end")
