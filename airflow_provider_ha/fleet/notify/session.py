"""Shared ZooKeeper session of many waits: watched nodes, waiters and announcements.

Invariants:

- An answer is kept only until the watch that was set with it fires, so it equals the result of a new read, except for
  the delay of an event. A lost connection fires every watch.
- A silently lost watch is detected by :meth:`WatchedNodes.compare`, which reads without watching.

An error here does not affect the wait: the operation is retried a moment later. When the session ends, ZooKeeper
removes the nodes.

``asyncio.wait_for`` before Python 3.12 loses a cancellation that arrives in the same moment as the result
(python/cpython#86296): it returns as if there was no request. A trigger then continues although Airflow has removed it.
A build server hung on that for two minutes; every wait of this layer goes through here instead.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Node, Reads, SessionState
from airflow_provider_ha.errors import HaError, NodeExistsError, NodeMissingError, NotConnectedError
from airflow_provider_ha.jobs.runs.watchers import Announcement


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


Nodes = Mapping[str, Node | None]


class WatchedNodes:
    """Nodes that a session has read and watches. Used from threads.

    :param wake: Called with the path of a node that may have changed, from the session's thread.
    """

    def __init__(self, coordinator: Coordinator, wake: Callable[[str], None]) -> None:
        self._coordinator = coordinator
        self._wake = wake
        self._lock = threading.Lock()
        self._armed: set[str] = set()
        self._kept: dict[str, Node | None] = {}

    def read(self, paths: Iterable[str], absent: Iterable[str] = ()) -> Nodes:
        """Return the nodes, ``None`` for a missing node; new nodes are watched first. For one thread.

        :param absent: Nodes that probably do not exist.
        :raises NotConnectedError: They could not be read.
        """
        with self._lock:
            found = {path: self._kept[path] for path in paths if path in self._kept}
            new = [path for path in dict.fromkeys(paths) if path not in found]
            self._armed.update(new)
        try:
            read = self._coordinator.read(Reads(tuple(new), absent=frozenset(absent)), watch=self._fired).nodes
        except BaseException:
            with self._lock:
                self._armed.difference_update(new)
            raise
        with self._lock:
            self._kept.update({path: node for path, node in read.items() if path in self._armed})
        return found | dict(read)

    def kept(self, paths: Iterable[str]) -> Nodes:
        """Return the watched nodes among *paths* without a read."""
        with self._lock:
            return {path: self._kept[path] for path in paths if path in self._kept}

    def compare(self, paths: Sequence[str]) -> None:
        """Read nodes again and wake the waiters of a node that has changed without an event.

        :raises NotConnectedError: They could not be read.
        """
        with self._lock:
            before = {path: self._kept[path] for path in paths if path in self._kept}
        now = self._coordinator.read(Reads(tuple(before))).nodes
        for path, node in before.items():
            if _mark(node) != _mark(now[path]):
                self._fired(path)

    def forget(self, unwanted: Callable[[str], bool]) -> None:
        """Drop the answers without a waiter; their watches stay until they fire."""
        with self._lock:
            self._kept = {path: node for path, node in self._kept.items() if not unwanted(path)}

    def _fired(self, path: str) -> None:
        with self._lock:
            self._armed.discard(path)
            self._kept.pop(path, None)
        self._wake(path)


def _mark(node: Node | None) -> int | None:
    """Return a mark that changes with each change of a node, also when it was removed and created again."""
    return None if node is None else node.modified_zxid


# Waiters per turn of the loop: each costs some 0.1 ms.
AT_ONCE = 250


class Waiter:
    """One trigger's interest in some nodes.

    :param absent: Nodes that probably do not exist.
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
        """Report that a node may have changed."""
        if not self._changed.done():
            self._changed.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Return when a node may have changed, at the latest after *seconds* (the poll is the backstop)."""
        if self._changed.done():
            return
        # A future and a timer, and no task that waits for an event: a triggerer has thousands of them.
        timer = asyncio.get_running_loop().call_later(seconds, self.wake)
        try:
            await self._changed
        finally:
            timer.cancel()


class Waiters:
    """Waiters of a loop. Not for other threads."""

    def __init__(self) -> None:
        self._by_path: dict[str, set[Waiter]] = {}

    def __contains__(self, path: str) -> bool:
        """Whether a node has a waiter."""
        return path in self._by_path

    def paths(self) -> list[str]:
        """Return the nodes with a waiter."""
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
        """Wake the waiters of a node."""
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


_AT_ONCE = 100  # in one transaction
_AT_MOST = 500  # made by one call: others also need the session


class Announcements:
    """Announcements of a session. For one thread at a time."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator
        self._made: set[str] = set()

    def keep(self, wanted: Iterable[Announcement]) -> None:
        """Create the missing nodes and remove the expired nodes. Never raises."""
        by_path = {announced.path: announced for announced in wanted}
        over = [Delete(path) for path in self._made if path not in by_path]
        new = [announced for path, announced in by_path.items() if path not in self._made][:_AT_MOST]
        try:
            self._made.difference_update(self._applied(over))
            parents = {announced.parent for announced in new if announced.parent is not None}
            self._coordinator.ensure(*parents)
            self._made.update(self._applied([announced.create() for announced in new]))
        except HaError:
            return

    def _applied(self, writes: Sequence[Create] | Sequence[Delete]) -> Iterable[str]:
        """Yield the nodes that are in the required state; written together where possible, else one by one."""
        for start in range(0, len(writes), _AT_ONCE):
            some = writes[start : start + _AT_ONCE]
            try:
                self._coordinator.commit(*some)
            except NotConnectedError:
                raise
            except HaError:
                yield from (write.path for write in some if self._is_applied(write))
            else:
                yield from (write.path for write in some)

    def _is_applied(self, write: Create | Delete) -> bool:
        try:
            self._coordinator.commit(write)
        except NodeExistsError:
            return True  # its own: an answer was lost
        except NodeMissingError:
            return isinstance(write, Delete)  # it is gone; or the job of a new one is
        return True


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


class Session:
    """A client with its watches and announcements. Used from threads.

    :param wake: Called with the path of a node that may have changed; with ``None`` when all may have.
    """

    def __init__(self, client: HaClient, wake: Callable[[str | None], None]) -> None:
        self.client = client
        self.lost = False
        self.nodes = WatchedNodes(client.coordinator, wake)
        self.announcements = Announcements(client.coordinator)
        self._wake = wake
        client.coordinator.add_state_listener(self._state_changed)

    def close(self) -> None:
        """End the session."""
        self.client.close()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.lost = True
        self._wake(None)
