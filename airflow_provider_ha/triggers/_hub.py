"""One ZooKeeper session for all triggers of one triggerer and connection.

A triggerer runs a thousand triggers in one thread; a session each would be a thousand connections and heartbeats
(ZooKeeper's default limit is 60 per host). So triggers borrow a :class:`Hub` and give it back.

Invariants: nothing here blocks the event loop; a watch only wakes a waiter early, the waiter then reads the truth
again; a session that is lost is replaced, because its watches are gone with it. A waiter that announces itself does so
after it has looked, and what goes wrong with that is no trouble of its wait.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SessionState
from airflow_provider_ha.jobs.presence import Announcement
from airflow_provider_ha.triggers._announcements import Announcements
from airflow_provider_ha.triggers._time_limit import within


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


T = TypeVar("T")
OpenClient = Callable[[HaConfig], "HaClient"]

CALL_TIMEOUT = 30.0  # seconds; longer than the coordinator's own bounded retries, so that its error comes first
_THREADS = 4  # a dead ZooKeeper must not occupy the threads that other providers' triggers share

_Key = tuple[int, asyncio.AbstractEventLoop, HaConfig]
_hubs: dict[_Key, Hub] = {}


@asynccontextmanager
async def borrow(config: HaConfig, open_client: OpenClient | None = None) -> AsyncIterator[Hub]:
    """Share the hub of *config* with every other trigger of this loop; the last one to leave closes it.

    The process id is part of the key: a session does not survive a fork.
    """
    key = (os.getpid(), asyncio.get_running_loop(), config)
    hub = _hubs.get(key)
    if hub is None:
        hub = _hubs[key] = Hub(config, open_client or _open_client)
    hub.borrowers += 1
    try:
        yield hub
    finally:
        hub.borrowers -= 1
        if hub.borrowers == 0:
            del _hubs[key]
            await hub.close()


def _open_client(config: HaConfig) -> HaClient:
    from airflow_provider_ha.control.client import HaClient  # noqa: PLC0415  # brings kazoo and boto3

    return HaClient.open(config)


class Hub:
    """A client that is opened once, shared, and replaced when its session is lost.

    :param config: The cluster.
    :param open_client: Opens a client; blocks.
    """

    def __init__(self, config: HaConfig, open_client: OpenClient) -> None:
        self.borrowers = 0
        self._config = config
        self._open_client = open_client
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="spark-ha-hub")
        self._session: asyncio.Task[_Session] | None = None
        # By path: with thousands of waiters an event must not look at each of them.
        self._waiters: dict[str, set[Waiter]] = {}

    async def read(self, waiter: Waiter, reader: Callable[[HaClient], T], announced: Announcement | None = None) -> T:
        """Watch the waiter's nodes, then call *reader* in a thread: in this order no change falls in between.

        :param announced: How the wait is shown to people, once *reader* has returned; see :meth:`announced`.
        :raises HaError: What *reader* raised, or why no session could be opened.
        :raises TimeoutError: No answer within ``CALL_TIMEOUT``.
        """
        waiter.changed.clear()  # first: a session that is lost while this one waits for it wakes the waiter again
        session = await self._current()

        def call() -> T:
            session.arm(waiter.paths)
            found = reader(session.client)
            session.announcements.announce(announced)
            return found

        return await within(CALL_TIMEOUT, self._loop.run_in_executor(self._executor, call))

    async def call(self, function: Callable[[HaClient], T]) -> T:
        """Call *function* in a thread, without watching anything. Same errors as :meth:`read`."""
        session = await self._current()
        future = self._loop.run_in_executor(self._executor, function, session.client)
        return await within(CALL_TIMEOUT, future)

    @asynccontextmanager
    async def waiter(self, paths: Sequence[str]) -> AsyncIterator[Waiter]:
        """Register interest in *paths* for the time of the block."""
        waiter = Waiter(frozenset(paths))
        for path in waiter.paths:
            self._waiters.setdefault(path, set()).add(waiter)
        try:
            yield waiter
        finally:
            for path in waiter.paths:
                self._waiters[path].discard(waiter)
                if not self._waiters[path]:
                    del self._waiters[path]

    @asynccontextmanager
    async def announced(self, announced: Announcement | None) -> AsyncIterator[None]:
        """Remove an announcement after the block, without waiting for that: the session lives on without it."""
        try:
            yield
        finally:
            task = self._session
            opened = task is not None and task.done() and not task.cancelled() and task.exception() is None
            if announced is not None and task is not None and opened:
                # guard: presence-outlives-the-wait
                self._loop.run_in_executor(self._executor, task.result().announcements.withdraw, announced)

    async def close(self) -> None:
        """End the session; one that is still being opened is closed as soon as it is there."""
        task, self._session = self._session, None
        if task is not None:
            await self._discard(task)
        self._executor.shutdown(wait=False)

    async def _current(self) -> _Session:
        """Return the session, opening or replacing it when needed; concurrent callers share one attempt."""
        task = self._session
        if task is not None and task.done() and (task.cancelled() or task.exception() or task.result().lost):
            self._session = None
            await self._discard(task)
        if self._session is None:
            self._session = asyncio.ensure_future(self._open())
        # Shielded: one trigger that is cancelled must not take the attempt away from the others.
        return await within(CALL_TIMEOUT, asyncio.shield(self._session))

    async def _open(self) -> _Session:
        client = await self._loop.run_in_executor(self._executor, self._open_client, self._config)
        return _Session(client, self._wake_from_thread)

    async def _discard(self, task: asyncio.Task[_Session]) -> None:
        if not task.done():
            task.add_done_callback(_close_late)
        elif not task.cancelled() and task.exception() is None:
            with suppress(asyncio.TimeoutError):
                closing = self._loop.run_in_executor(None, task.result().close)
                await within(CALL_TIMEOUT, asyncio.shield(closing))

    def _wake_from_thread(self, path: str | None) -> None:
        with suppress(RuntimeError):  # the loop is gone, and every waiter with it
            self._loop.call_soon_threadsafe(self._wake, path)

    def _wake(self, path: str | None) -> None:
        woken = self._waiters.values() if path is None else (self._waiters.get(path, ()),)
        for waiter in chain.from_iterable(woken):
            waiter.changed.set()


def _close_late(task: asyncio.Task[_Session]) -> None:
    if not task.cancelled() and task.exception() is None:
        threading.Thread(target=task.result().close, name="spark-ha-hub-close", daemon=True).start()


class Waiter:
    """One trigger's interest in some nodes.

    :param paths: The nodes.
    """

    def __init__(self, paths: frozenset[str]) -> None:
        self.paths = paths
        self.changed = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Return when one of the nodes may have changed, at the latest after *seconds* (the poll is the backstop)."""
        with suppress(asyncio.TimeoutError):
            await within(seconds, self.changed.wait())


class _Session:
    """A client with the watches that are set through it. Used from threads.

    A watch is set once per node, for any number of waiters and polls: a new one per poll would pile up in the
    client until the node changes, which for a healthy job is never.
    """

    def __init__(self, client: HaClient, wake: Callable[[str | None], None]) -> None:
        self.client = client
        self.lost = False
        self._wake = wake
        self._lock = threading.Lock()
        self._armed: set[str] = set()
        self.announcements = Announcements(client.coordinator)
        client.coordinator.add_state_listener(self._state_changed)

    def arm(self, paths: frozenset[str]) -> None:
        """Make sure that each of *paths* is watched, whether it exists yet or not."""
        for path in paths:
            with self._lock:
                new = path not in self._armed
                self._armed.add(path)
            if new:
                self._arm(path)

    def _arm(self, path: str) -> None:
        def fired() -> None:
            with self._lock:
                self._armed.discard(path)
            self._wake(path)

        try:
            self.client.coordinator.find(path, watch=fired)
        except BaseException:
            with self._lock:
                self._armed.discard(path)
            raise

    def close(self) -> None:
        """End the session."""
        self.client.close()

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.lost = True
        self._wake(None)
