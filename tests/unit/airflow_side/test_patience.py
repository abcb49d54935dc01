"""A wait with a limit that never loses a cancellation (python/cpython#86296, open in every Python before 3.12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from airflow_provider_ha.fleet.notify.session import Waiter, within


def test_the_result_comes_back() -> None:
    async def scenario() -> str:
        return await within(5, asyncio.sleep(0, "done"))

    assert asyncio.run(scenario()) == "done"


def test_an_error_comes_back() -> None:
    async def fails() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        asyncio.run(within(5, fails()))


def test_no_result_in_time_is_an_error_and_what_was_waited_for_is_cancelled() -> None:
    async def scenario() -> bool:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(asyncio.TimeoutError):
            await within(0.01, never)
        return never.cancelled()

    assert asyncio.run(scenario())


def _wait_within(future: asyncio.Future[None]) -> Awaitable[Any]:
    return within(5, future)


def _wait_as_a_trigger_does(future: asyncio.Future[None]) -> Awaitable[Any]:
    waiter = Waiter(frozenset())
    future.add_done_callback(lambda _: waiter.wake())
    return waiter.wait(5)


@pytest.mark.parametrize("wait", [_wait_within, _wait_as_a_trigger_does])
@pytest.mark.parametrize("rounds_between", range(4))
def test_a_cancellation_that_meets_the_result_wins(
    wait: Callable[[asyncio.Future[None]], Awaitable[Any]], rounds_between: int
) -> None:
    async def scenario() -> str:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def trigger() -> str:
            await wait(future)
            await asyncio.sleep(0)  # the next step of a trigger, which would never end
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return "the cancellation was lost"

        waiting = asyncio.ensure_future(trigger())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        future.set_result(None)
        for _ in range(rounds_between):
            await asyncio.sleep(0)
        waiting.cancel()
        try:
            return await waiting
        except asyncio.CancelledError:
            return "cancelled"

    assert asyncio.run(scenario()) == "cancelled"
