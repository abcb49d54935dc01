"""The thread that removes old checkpoints: when it works, and what it makes of errors."""

from __future__ import annotations

import threading
from collections.abc import Callable

from airflow_provider_ha.driver.checkpointing.publish_loop import RemovalLoop
from airflow_provider_ha.errors import LeadershipLostError, StorageUnavailableError
from airflow_provider_ha.testing.waiting import wait_until


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


def test_it_cleans_at_the_start_when_it_is_woken_and_at_the_end() -> None:
    """The first turn does what an earlier leader has left; the last one leaves nothing behind."""
    cleaning = Cleaning()

    cleaning.loop.start()
    wait_until(lambda: cleaning.turns == 1, timeout=5, what="the first turn")
    cleaning.loop.wake()
    wait_until(lambda: cleaning.turns == 2, timeout=5, what="the second turn")
    cleaning.loop.stop()

    assert cleaning.turns == 3


def test_what_could_not_be_removed_is_no_reason_to_end_the_job() -> None:
    """Fails when an error of storage reaches the driver (C3)."""
    cleaning = Cleaning(StorageUnavailableError("away"), OSError(13, "no"))

    cleaning.loop.start()
    wait_until(lambda: cleaning.turns == 1, timeout=5, what="the first turn")
    cleaning.loop.stop()

    assert (cleaning.turns, cleaning.failed) == (2, [])


def test_a_leader_that_is_none_any_more_hears_of_it() -> None:
    cleaning = Cleaning(LeadershipLostError("the lease ran out"))

    cleaning.loop.start()

    wait_until(lambda: cleaning.failed, timeout=5, what="the error")
    assert isinstance(cleaning.failed[0], LeadershipLostError)


def test_a_removal_that_takes_long_holds_nobody_up() -> None:
    """Fails when waking waits for the turn that is under way."""
    going_on = threading.Event()
    loop = RemovalLoop(lambda _: going_on.wait(10), lambda _: None)
    loop.start()

    loop.wake()
    loop.wake()
    going_on.set()

    loop.stop()
