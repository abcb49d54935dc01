"""Who waits for which node, by path: with thousands of waiters an event must not look at each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice


# Of what is done in one turn of the loop: each waiter costs some 0.1 ms.
AT_ONCE = 250


class Waiter:
    """One trigger's interest in some nodes.

    :param paths: The nodes.
    :param absent: Those of them that are likely not to exist.
    """

    def __init__(self, paths: frozenset[str], absent: Sequence[str] = ()) -> None:
        self.paths = paths
        self.absent = absent
        self._changed = asyncio.get_running_loop().create_future()

    def clear(self) -> None:
        """Forget the changes until now."""
        if self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()

    def wake(self) -> None:
        """Say that one of the nodes may have changed."""
        if not self._changed.done():
            self._changed.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Return when one of the nodes may have changed, at the latest after *seconds* (the poll is the backstop)."""
        if self._changed.done():
            return
        # A future and a timer, and no task that waits for an event: a triggerer has thousands of them.
        timer = asyncio.get_running_loop().call_later(seconds, self.wake)
        try:
            await self._changed
        finally:
            timer.cancel()


class Waiters:
    """All waiters of one loop. Not for other threads."""

    def __init__(self) -> None:
        self._by_path: dict[str, set[Waiter]] = {}

    def __contains__(self, path: str) -> bool:
        """Whether a node is waited for."""
        return path in self._by_path

    def paths(self) -> list[str]:
        """Return the nodes that are waited for."""
        return list(self._by_path)

    @contextmanager
    def added(self, paths: Sequence[str], absent: Sequence[str] = ()) -> Iterator[Waiter]:
        """Wake a new waiter for the time of the block."""
        waiter = Waiter(frozenset(paths), absent)
        for path in waiter.paths:
            self._by_path.setdefault(path, set()).add(waiter)
        try:
            yield waiter
        finally:
            for path in waiter.paths:
                self._by_path[path].discard(waiter)
                if not self._by_path[path]:
                    del self._by_path[path]

    def wake(self, path: str) -> None:
        """Wake those that wait for a node."""
        for waiter in self._by_path.get(path, ()):
            waiter.wake()

    def wake_all(self) -> None:
        """Wake all, some in each turn of the loop: the loop has others to serve."""
        everyone = dict.fromkeys(chain.from_iterable(self._by_path.values()))
        self._wake_next(iter(everyone))

    def _wake_next(self, left: Iterator[Waiter]) -> None:
        woken = list(islice(left, AT_ONCE))
        for waiter in woken:
            waiter.wake()
        if woken:
            asyncio.get_running_loop().call_soon(self._wake_next, left)
