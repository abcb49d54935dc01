"""Blocking reads with a time limit: ZooKeeper and storage may hang, the page does not.

An overdue read continues in its thread until it ends, because it cannot be cancelled. So their number is bounded, and
a page fails immediately when all threads are busy.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_ha.errors import HaError


T = TypeVar("T")
SECONDS = 4.0  # seconds that a person waits before they assume a failure
AT_ONCE = 12  # concurrent reads, of all pages of a process


class OverTimeError(HaError):
    """A read took too long: the state of its object is unknown."""

    retryable = True


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """Result of one of several reads, or its error.

    :param problem: The error; empty without one.
    """

    value: T | None = None
    problem: str = ""


class Bounded:
    """Calls each function in a separate thread. Thread-safe.

    :param what: Object of the reads, for the error: ``"ZooKeeper"``.
    :param next_step: Remedy when it does not answer.
    """

    def __init__(self, what: str, *, next_step: str, seconds: float = SECONDS, at_once: int = AT_ONCE) -> None:
        self._what = what
        self._next_step = next_step
        self._seconds = seconds
        self._free = threading.BoundedSemaphore(at_once)

    def call(self, function: Callable[[], T], *, seconds: float | None = None) -> T:
        """Return the result of *function*, and raise its errors.

        :param seconds: Another limit, for large reads after a successful one.
        :raises OverTimeError: It took too long, or all threads are busy with overdue reads.
        """
        limit = self._seconds if seconds is None else seconds
        return self._result(self._begin(function, wait=self._seconds), wait=limit, limit=limit)

    def together(self, functions: Mapping[str, Callable[[], Any]]) -> dict[str, Answer[Any]]:
        """Call functions concurrently, with one limit for all; return their answers by name.

        Errors that are not this package's are raised.
        """
        until = time.monotonic() + self._seconds
        begun = {name: self._begin(function, wait=_left(until)) for name, function in functions.items()}
        return {name: self._answer(each, until) for name, each in begun.items()}

    def _begin(self, function: Callable[[], T], *, wait: float) -> Future[T]:
        future: Future[T] = Future()
        if not self._free.acquire(timeout=wait):
            future.set_exception(self._over_time("earlier reads still wait for it"))
            return future

        def run() -> None:
            try:
                future.set_result(function())
            except BaseException as error:  # noqa: BLE001  # it belongs to the caller
                with suppress(InvalidStateError):
                    future.set_exception(error)
            finally:
                self._free.release()

        threading.Thread(target=run, name=f"spark-ha-page {self._what}", daemon=True).start()
        return future

    def _answer(self, begun: Future[T], until: float) -> Answer[T]:
        try:
            return Answer(self._result(begun, wait=_left(until), limit=self._seconds))
        except HaError as error:
            return Answer(problem=str(error))

    def _result(self, future: Future[T], *, wait: float, limit: float) -> T:
        try:
            return future.result(timeout=wait)
        except FutureTimeoutError:
            if future.done():  # the function's own
                raise
            raise self._over_time(f"no answer within {limit:g} s") from None

    def _over_time(self, reason: str) -> OverTimeError:
        return OverTimeError(f"{self._what} does not answer: {reason}", next_step=self._next_step)


def _left(moment: float) -> float:
    return max(0.0, moment - time.monotonic())
