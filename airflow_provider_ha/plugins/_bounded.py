"""Blocking reads with a time limit: ZooKeeper and storage may hang, the page does not.

A read that is over time goes on in its thread until it ends by itself: nothing can end it. So their number is bounded,
and a page that finds all threads taken says so at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import TypeVar

from airflow_provider_ha.errors import HaError


T = TypeVar("T")
SECONDS = 4.0  # what a person waits for before they take it for broken
AT_ONCE = 12  # reads that may be under way, of all pages of a process


class OverTimeError(HaError):
    """Something did not answer in time: says nothing about it."""

    retryable = True


class Bounded:
    """Calls each function in a separate thread. Safe in any thread.

    :param what: What is read, for the error: ``"ZooKeeper"``.
    :param next_step: What helps when it does not answer.
    """

    def __init__(self, what: str, *, next_step: str, seconds: float = SECONDS, at_once: int = AT_ONCE) -> None:
        self._what = what
        self._next_step = next_step
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(at_once)

    def call(self, function: Callable[[], T], *, seconds: float | None = None) -> T:
        """Return what *function* returns, and raise what it raises.

        :param seconds: Another limit, for much that is read from what has just answered.
        :raises OverTimeError: It took too long, or as many others still do.
        """
        limit = self._seconds if seconds is None else seconds
        if not self._free.acquire(timeout=self._seconds):  # guard: hanging-reads-pile-up
            raise self._over_time("earlier reads still wait for it")
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  # it belongs to the caller
                with suppress(InvalidStateError):
                    future.set_exception(error)
            finally:
                self._free.release()

        threading.Thread(target=run, name=f"spark-ha-page {self._what}", daemon=True).start()
        try:
            return future.result(timeout=limit)
        except FutureTimeoutError:
            if future.done():  # the function's own
                raise
            raise self._over_time(f"no answer within {limit:g} s") from None

    def _over_time(self, reason: str) -> OverTimeError:
        return OverTimeError(f"{self._what} does not answer: {reason}", next_step=self._next_step)
