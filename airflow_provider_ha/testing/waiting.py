"""Waiting for a condition, in place of a fixed sleep."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar


__all__ = ["wait_until"]


T = TypeVar("T")


def wait_until(predicate: Callable[[], T | None], *, timeout: float, what: str, interval: float = 0.05) -> T:
    """Return the first true value of *predicate*.

    :param predicate: Function that is called repeatedly.
    :param timeout: Seconds until the call fails.
    :param what: Description of the condition, for the error.
    :param interval: Seconds between two calls.
    :raises TimeoutError: The condition did not become true in time; names *what* and the last value.
    """
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {timeout:g} s for {what}; the last value was {value!r}")
        time.sleep(interval)
