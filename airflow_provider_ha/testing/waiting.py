"""Waiting for a condition instead of sleeping for a while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar


__all__ = ["wait_until"]


T = TypeVar("T")


def wait_until(predicate: Callable[[], T | None], *, timeout: float, what: str, interval: float = 0.05) -> T:
    """Return the first true value of *predicate*.

    :param predicate: Asked again and again.
    :param timeout: Seconds after which to give up.
    :param what: What is waited for, for the error.
    :param interval: Seconds between two questions.
    :raises TimeoutError: It did not become true in time; names *what* and the last value.
    """
    end = time.monotonic() + timeout
    while True:
        value = predicate()
        if value:
            return value
        if time.monotonic() >= end:
            raise TimeoutError(f"waited {timeout:g} s for {what}; the last value was {value!r}")
        time.sleep(interval)
