"""Calls in threads of which none begins before the one before it has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


T = TypeVar("T")


class OneAtATime:
    """Refuses a call while an earlier one goes on.

    One that was given up goes on in its thread: one more at each poll would take every thread of the hub, and what they
    read is not for several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __call__(self, function: Callable[[HaClient], T]) -> Callable[[HaClient], T]:
        """Return *function* for :meth:`~airflow_provider_ha.triggers._hub.Hub.call`.

        The result raises ``asyncio.TimeoutError`` while an earlier call goes on.
        """

        def alone(client: HaClient) -> T:
            if not self._lock.acquire(blocking=False):
                raise asyncio.TimeoutError("an earlier call goes on")
            try:
                return function(client)
            finally:
                self._lock.release()

        return alone
