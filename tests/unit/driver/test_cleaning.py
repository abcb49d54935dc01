"""Removal: the thread that removes what is old, and processes that are killed as a tree."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.checkpoint_store import COLLECTION_SECONDS
from airflow_provider_ha.driver.checkpointing.publish_loop import (
    COLLECTION_INTERVAL,
    COLLECTION_RETRY_SECONDS,
    RemovalLoop,
    RemovalTurns,
)
from airflow_provider_ha.errors import LeadershipLostError, StorageUnavailableError
from airflow_provider_ha.testing.waiting import wait_until


@dataclass
class World:
    """A store that notes what is asked of it, and a clock that goes on by a second with each step of a collection.

    :ivar steps: Of a collection until it is done.
    """

    steps: int = 1
    time: float = 0.0
    error: Exception | None = None
    calls: list[str] = field(default_factory=list)
    left: int = 0
    past_error: Exception | None = None

    def cleaning(self) -> RemovalTurns:
        return RemovalTurns(self, None, self, self.past)  # type: ignore[arg-type]

    def lease_time(self) -> float:
        return self.time

    def now(self) -> datetime:
        return datetime.now(timezone.utc)

    def past(self) -> Iterator[None]:
        self.calls.append("past")
        yield
        if self.past_error is not None:
            raise self.past_error

    def work_off(self, leadership: Any) -> None:
        del leadership
        self.calls.append("work off")

    def collect(self, leadership: Any, go_on: Callable[[], bool]) -> bool:
        del leadership
        self.calls.append("collect")
        if self.error is not None:
            raise self.error
        self.left = self.left or self.steps
        while self.left:
            self.left -= 1
            self.time += 1.0
            if not go_on():
                break
        return self.left == 0


def always() -> bool:
    return True


def test_a_collection_follows_ten_minutes_after_the_last_one() -> None:
    """[review B3] Fails when every checkpoint has everything listed."""
    world = World()
    cleaning = world.cleaning()

    for at in (0.0, 10.0, COLLECTION_INTERVAL, COLLECTION_INTERVAL + 2):
        world.time = at
        assert cleaning.turn(always)

    assert world.calls == ["work off", "past", "collect", "work off", "work off", "work off", "collect"]


def test_deletions_come_before_each_part_of_a_long_collection() -> None:
    world = World(steps=int(COLLECTION_SECONDS) * 2)
    cleaning = world.cleaning()

    done = [cleaning.turn(always), cleaning.turn(always)]

    assert done == [False, True]
    assert world.calls == ["work off", "past", "collect", "work off", "collect"]


def test_a_thread_that_is_woken_leaves_the_collection() -> None:
    world = World(steps=5)
    answers = iter([True, True, True, True, False])

    assert not world.cleaning().turn(lambda: next(answers))

    assert world.left > 0


def test_a_last_turn_only_works_off_the_list() -> None:
    world = World()

    assert world.cleaning().turn(lambda: False)

    assert world.calls == ["work off"]


def test_a_collection_that_failed_is_tried_again_after_a_minute() -> None:
    world = World(error=StorageUnavailableError("away"))
    cleaning = world.cleaning()

    with pytest.raises(StorageUnavailableError):
        cleaning.turn(always)
    world.time = COLLECTION_RETRY_SECONDS / 2
    assert cleaning.turn(always)
    world.time = COLLECTION_RETRY_SECONDS
    with pytest.raises(StorageUnavailableError):
        cleaning.turn(always)

    assert world.calls.count("collect") == 2


def test_earlier_submissions_that_cannot_be_removed_keep_no_collection_from_its_turn() -> None:
    world = World(past_error=OSError(13, "no"))

    assert world.cleaning().turn(always)

    assert world.calls == ["work off", "past", "collect"]


def test_a_former_leader_is_refused_by_the_records_of_past_runs() -> None:
    world = World(past_error=LeadershipLostError("the lease ran out"))

    with pytest.raises(LeadershipLostError):
        world.cleaning().turn(always)


def test_a_long_clean_up_of_earlier_submissions_yields_to_deletions_and_continues() -> None:
    world = World()
    answers = iter([True, False])

    assert world.cleaning().turn(lambda: next(answers)) is False

    assert world.calls == ["work off", "past"]


class Files:
    """A collector of working files that notes when it is asked."""

    def __init__(self, world: World) -> None:
        self.world = world

    def collect(self, leadership: Any, go_on: Callable[[], bool]) -> bool:
        del leadership
        self.world.calls.append("files")
        return go_on()


def test_the_files_of_working_directories_are_collected_last() -> None:
    world = World()

    done = RemovalTurns(world, None, world, world.past, Files(world)).turn(always)  # type: ignore[arg-type]

    assert done
    assert world.calls == ["work off", "past", "collect", "files"]


class Cleaning:
    """Counts its turns; raises what it is given, one per turn."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.turns = 0
        self.failed: list[BaseException] = []
        self.loop = RemovalLoop(self.clean, self.failed.append)

    def clean(self, go_on: Callable[[], bool]) -> bool:
        del go_on
        self.turns += 1
        if self.errors:
            raise self.errors.pop(0)
        return True


def test_it_cleans_at_the_first_batch_when_it_is_woken_and_at_the_end() -> None:
    """The first turn does what an earlier leader has left; the last one leaves nothing behind."""
    cleaning = Cleaning()

    cleaning.loop.start()
    cleaning.loop.begin()
    wait_until(lambda: cleaning.turns == 1, timeout=5, what="the first turn")
    cleaning.loop.wake()
    wait_until(lambda: cleaning.turns == 2, timeout=5, what="the second turn")
    cleaning.loop.stop()

    assert cleaning.turns == 3


def test_nothing_is_removed_before_the_first_batch_however_often_it_is_woken() -> None:
    cleaning = Cleaning()
    cleaning.loop.start()

    cleaning.loop.wake()
    cleaning.loop._thread.join(timeout=0.2)

    assert cleaning.turns == 0
    cleaning.loop.stop()


def test_what_could_not_be_removed_is_no_reason_to_end_the_job() -> None:
    """Fails when an error of storage reaches the driver (C3)."""
    cleaning = Cleaning(StorageUnavailableError("away"), OSError(13, "no"))

    cleaning.loop.start()
    cleaning.loop.begin()
    wait_until(lambda: cleaning.turns == 1, timeout=5, what="the first turn")
    cleaning.loop.stop()

    assert (cleaning.turns, cleaning.failed) == (2, [])


def test_a_former_leader_is_refused() -> None:
    cleaning = Cleaning(LeadershipLostError("the lease ran out"))

    cleaning.loop.start()
    cleaning.loop.begin()

    wait_until(lambda: cleaning.failed, timeout=5, what="the error")
    assert isinstance(cleaning.failed[0], LeadershipLostError)


def test_a_removal_that_takes_long_holds_nobody_up() -> None:
    """Fails when waking waits for the turn that is under way."""
    going_on = threading.Event()
    loop = RemovalLoop(lambda _: going_on.wait(10), lambda _: None)
    loop.start()
    loop.begin()

    loop.wake()
    loop.wake()
    going_on.set()

    loop.stop()


DENIED_THREE_TIMES = """
import logging, os, sys
from pathlib import Path
import psutil
from airflow_provider_ha.host.process_tree import ProcessTree
logging.basicConfig(stream=sys.stdout, format="%(message)s")
here = Path(sys.argv[1])
child = [sys.executable, "-c", "import time; time.sleep(600)"]
tree = ProcessTree(child, env=dict(os.environ), directory=here, log_file=here / "log")
kill, denials = psutil.Process.kill, [tree.pid] * 3

def kill_at_last(process):
    if denials:
        raise psutil.AccessDenied(denials.pop())
    kill(process)

psutil.Process.kill = kill_at_last
assert tree.kill() == (tree.pid,), "its death is proven"
assert not denials, "it was tried again"
print(tree.pid)
"""


def test_a_process_that_may_not_be_killed_is_tried_again_and_named_once(tmp_path: Path) -> None:
    """A setuid program belongs to another user. An exception here would end the supervisor without an exit record."""
    run = subprocess.run(
        [sys.executable, "-c", DENIED_THREE_TIMES, str(tmp_path)], capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stderr
    warning, pid = run.stdout.splitlines()
    assert warning == f"process {pid} may not be killed by this user: waiting for its end"
