"""Concurrent requests for many objects: the server does the work, and a request mainly waits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from airflow_provider_ha.checkpoints.trees.object_tree import AT_ONCE


Item = TypeVar("Item")
Answer = TypeVar("Answer")


def each(work: Callable[[Item], Answer], items: Iterable[Item]) -> list[Answer]:
    """Return the result of *work* for every item, in order; when it raises, items that are not begun are skipped."""
    with ThreadPoolExecutor(AT_ONCE) as threads:
        try:
            return list(threads.map(work, items))
        finally:
            threads.shutdown(cancel_futures=True)
