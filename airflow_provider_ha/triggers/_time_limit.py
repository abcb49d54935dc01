"""Wait for something with a limit, and stay cancellable while doing so.

``asyncio.wait_for`` before Python 3.12 loses a cancellation that arrives in the same moment as the result
(python/cpython#86296): it returns as if nothing had been asked. A trigger then goes on although Airflow has removed
it. A build server hung on that for two minutes; every wait of this layer goes through here instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar


T = TypeVar("T")


async def within(seconds: float, awaitable: Awaitable[T]) -> T:
    """Return the result of *awaitable*; a cancellation of the caller always wins over it.

    :param seconds: The limit. When it is over, *awaitable* is cancelled, but not waited for.
    :raises asyncio.TimeoutError: There was no result in time.
    :raises asyncio.CancelledError: The caller was cancelled.
    """
    future = asyncio.ensure_future(awaitable)
    try:
        done, _ = await asyncio.wait({future}, timeout=seconds)
    finally:
        future.cancel()  # does nothing to one that is done
    if not done:
        raise asyncio.TimeoutError
    return future.result()
