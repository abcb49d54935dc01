"""What the removal thread does in a turn: deletions always and first, everything else when it is due, for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.checkpoint_store import COLLECTION_SECONDS
from airflow_provider_ha.driver.checkpointing.publish_loop import (
    COLLECTION_INTERVAL,
    COLLECTION_RETRY_SECONDS,
    RemovalTurns,
)
from airflow_provider_ha.errors import LeadershipLostError, StorageUnavailableError


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


def test_a_leader_that_is_none_any_more_hears_of_it_from_the_past() -> None:
    world = World(past_error=LeadershipLostError("the lease ran out"))

    with pytest.raises(LeadershipLostError):
        world.cleaning().turn(always)


def test_a_long_clean_up_of_earlier_submissions_gives_way_to_deletions_and_goes_on() -> None:
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
