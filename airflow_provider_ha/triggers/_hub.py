"""Shared ZooKeeper session for all triggers of a triggerer and connection.

A triggerer runs a thousand triggers in one thread. A session each would be a thousand connections and heartbeats
(ZooKeeper's default limit is 60 per host), so triggers borrow a :class:`Hub` and return it. Requests of the same turn
of the event loop are read together. A comparison of some znodes each second, in rotation, serves as the poll of all
triggers.

Invariants:

* The hub never blocks the event loop, and a turn of the loop serves at most a few hundred triggers.
* A watch only wakes a waiter early; the waiter then reads the durable state again.
* A lost session is replaced, because its watches are lost too.
* Looks at jobs may wait for storage for minutes. They never occupy the threads that open the session, or in which the
  watchers of a cluster read ZooKeeper.
* A waiter announces itself after its first look, and a failed announcement does not affect the wait.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from math import ceil
from typing import TYPE_CHECKING, TypeVar

from airflow_provider_ha.airflow_side.job_stats import JobStats, ReportedJobs
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.notify.session import AT_ONCE, Nodes, Session, Waiter, Waiters, within
from airflow_provider_ha.jobs.runs.watchers import Announcement


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


T = TypeVar("T")
OpenClient = Callable[[HaConfig], "HaClient"]

CALL_TIMEOUT = 30.0  # seconds; above the coordinator's own bounded retries, so that its error comes first
POLL = 60.0  # seconds to compare each watched znode once; longer for more than AT_ONCE znodes a second
_BATCH = 1000  # znodes in one round trip
_TICK = 1.0  # seconds between two parts of the poll, and between an announcement and its znode
_HELD_BACK = 10  # longest series of ticks without announcements
_THREADS = 4  # bounded: a dead ZooKeeper must not occupy the threads that other providers' triggers share
_OF_CLUSTER = 2  # threads that read only ZooKeeper: a watcher's abandoned call leaves a thread to the others

_log = logging.getLogger(__name__)
_Key = tuple[int, asyncio.AbstractEventLoop, HaConfig]
_hubs: dict[_Key, Hub] = {}


@asynccontextmanager
async def borrow(config: HaConfig, open_client: OpenClient | None = None) -> AsyncIterator[Hub]:
    """Share the hub of *config* with every other trigger of this loop; the last borrower closes it.

    The process id is part of the key, because a session does not survive a fork.
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
    from airflow_provider_ha.api.ha_client import HaClient  # noqa: PLC0415  # brings kazoo and boto3

    return HaClient.open(config)


class Hub:
    """Shared client that is opened once, and replaced when its session is lost.

    :param config: Configuration of the cluster.
    :param open_client: Function that opens a client; may block.
    """

    def __init__(self, config: HaConfig, open_client: OpenClient) -> None:
        self.borrowers = 0
        self._config = config
        self._open_client = open_client
        self._loop = asyncio.get_running_loop()
        self._executor = ThreadPoolExecutor(_THREADS, thread_name_prefix="spark-ha-hub")
        self._of_cluster = ThreadPoolExecutor(_OF_CLUSTER, thread_name_prefix="spark-ha-hub-cluster")
        # One thread for znodes, so that each watch is set once and its record is not read twice.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="spark-ha-hub-nodes")
        self._session: asyncio.Task[Session] | None = None
        self._waiters = Waiters()
        self._asked: deque[tuple[Waiter, asyncio.Future[Nodes]]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._fired: deque[str] = deque()
        self._firing = threading.Lock()  # held by the threads in which watches fire
        self._announced: dict[str, Announcement] = {}
        self._to_compare: deque[str] = deque()
        self._upkeep = asyncio.ensure_future(self._look_after_the_session())
        self._stats = JobStats(ClusterPaths(config.root, config.cluster_id), self._opened)

    def waiter(self, paths: Sequence[str], absent: Sequence[str] = ()) -> AbstractContextManager[Waiter]:
        """Watch *paths* for the duration of the block; the subset *absent* probably does not exist yet."""
        return self._waiters.added(paths, absent)

    async def nodes(self, waiter: Waiter) -> Nodes:
        """Return path -> znode, ``None`` if it does not exist, for the waiter; a later change wakes the waiter.

        :raises HaError: The znodes could not be read, or the session could not be opened.
        :raises TimeoutError: Neither a session nor an answer came within ``CALL_TIMEOUT``.
        """
        waiter.clear()  # first, so that the loss of the session during this wait wakes the waiter again
        answer: asyncio.Future[Nodes] = self._loop.create_future()
        self._asked.append((waiter, answer))
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_asked())
        return await answer

    async def call(self, function: Callable[[HaClient], T], *, of_cluster: bool = False) -> T:
        """Call *function* in a thread, without a watch. Raises the errors of :meth:`nodes`.

        :param of_cluster: Use the threads reserved for watchers of the whole cluster, so that looks at jobs that wait
            for storage do not delay them; *function* never reads storage itself.
        """
        session = await self._current()
        executor = self._of_cluster if of_cluster else self._executor
        future = self._loop.run_in_executor(executor, function, session.client)
        return await within(CALL_TIMEOUT, future)

    def wake(self, path: str) -> None:
        """Wake the waiters of a znode that may have changed, or that represents another znode. For any thread."""
        self._wake_from_thread(path)

    def announce(self, announced: Announcement | None) -> None:
        """Show a wait to people after a few seconds, until the block of :meth:`announcing` ends."""
        if announced is not None:
            self._announced[announced.path] = announced

    @contextmanager
    def announcing(self, announced: Announcement | None) -> Iterator[None]:
        """Remove an announcement soon after the block, while the session lives on."""
        try:
            yield
        finally:
            if announced is not None:
                self._announced.pop(announced.path, None)

    def reporting(self, job_ids: Iterable[str] = ()) -> AbstractContextManager[ReportedJobs]:
        """Send states and alerts to Airflow's Stats for the duration of the block, once for all triggers of a job."""
        return self._stats.reporting(job_ids)

    async def close(self) -> None:
        """End the session; a session that is still opening is closed as soon as it is open."""
        self._upkeep.cancel()
        await self._stats.close()
        if self._reading is not None:
            self._reading.cancel()
        task, self._session = self._session, None
        if task is not None:
            await self._discard(task)
        self._executor.shutdown(wait=False)
        self._of_cluster.shutdown(wait=False)
        self._reader.shutdown(wait=False)

    async def _read_asked(self) -> None:
        """Answer all requests, as many per turn of the loop as one round trip holds."""
        while self._asked:
            batch, count = [], 0
            while self._asked and count < _BATCH:
                waiter, answer = self._asked.popleft()
                if not answer.done():  # otherwise cancelled, or timed out
                    batch.append((waiter, answer))
                    count += len(waiter.paths)
            try:
                session = await self._current()
                paths = [path for waiter, _ in batch for path in waiter.paths]
                absent = [path for waiter, _ in batch for path in waiter.absent]
                found = await self._in_reader(partial(session.nodes.read, paths, absent))
            except Exception as error:  # noqa: BLE001  # each that asks raises it
                await self._fail(error, batch)
                continue
            for waiter, answer in batch:
                if not answer.done():
                    answer.set_result({path: found[path] for path in waiter.paths})

    async def _fail(self, error: Exception, batch: list[tuple[Waiter, asyncio.Future[Nodes]]]) -> None:
        """Fail all requests with the error, because each would wait just as long for the same result."""
        batch.extend(self._asked)
        self._asked.clear()
        for number, (_, answer) in enumerate(batch):
            if not answer.done():
                answer.set_exception(error)
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)

    async def _look_after_the_session(self) -> None:
        """Compare some znodes and refresh the announcements each second. Never raises: looks report an outage."""
        held_back = 0
        while True:
            await asyncio.sleep(_TICK)
            session = self._opened()
            if session is None:
                continue
            # Announcements can wait while many triggers wait for their first look, but not longer than _HELD_BACK
            # ticks.
            looks = self._reading is not None and not self._reading.done()
            held_back = held_back + 1 if looks and held_back < _HELD_BACK else 0
            try:
                if not held_back:
                    await self._in_reader(partial(session.announcements.keep, list(self._announced.values())))
                await self._compare_some(session)
            except (HaError, asyncio.TimeoutError):
                continue  # the requests report an outage
            except Exception:  # noqa: BLE001  # logged, because the next turn must follow
                _log.exception("the upkeep of the triggers' session failed")

    async def _compare_some(self, session: Session) -> None:
        if not self._to_compare:
            self._to_compare.extend(self._waiters.paths())
            session.nodes.forget(lambda path: path not in self._waiters)
        share = min(AT_ONCE, ceil(len(self._waiters.paths()) / POLL * _TICK))
        some = [self._to_compare.popleft() for _ in range(min(share, len(self._to_compare)))]
        await self._in_reader(partial(session.nodes.compare, some))

    async def _in_reader(self, function: Callable[[], T]) -> T:
        return await within(CALL_TIMEOUT, self._loop.run_in_executor(self._reader, function))

    def _opened(self) -> Session | None:
        """Return the session if it is open and alive."""
        task = self._session
        if task is None or not task.done() or task.cancelled() or task.exception() is not None or task.result().lost:
            return None
        return task.result()

    async def _current(self) -> Session:
        """Return the session, opening or replacing it when needed; concurrent callers share one attempt."""
        task = self._session
        if task is not None and task.done() and self._opened() is None:
            self._session = None
            await self._discard(task)
        if self._session is None:
            self._session = asyncio.ensure_future(self._open())
        # Shielded, so that the cancellation of a trigger does not cancel the attempt for the others.
        return await within(CALL_TIMEOUT, asyncio.shield(self._session))

    async def _open(self) -> Session:
        client = await self._loop.run_in_executor(self._of_cluster, self._open_client, self._config)
        return Session(client, self._wake_from_thread)

    async def _discard(self, task: asyncio.Task[Session]) -> None:
        if not task.done():
            task.add_done_callback(_close_late)
        elif not task.cancelled() and task.exception() is None:
            with suppress(asyncio.TimeoutError):
                closing = self._loop.run_in_executor(None, task.result().close)
                await within(CALL_TIMEOUT, asyncio.shield(closing))

    def _wake_from_thread(self, path: str | None) -> None:
        with suppress(RuntimeError):  # the loop is closed, and every waiter with it
            if path is None:
                self._loop.call_soon_threadsafe(self._waiters.wake_all)
                return
            with self._firing:
                self._fired.append(path)
                first = len(self._fired) == 1
            if first:  # a lost connection fires thousands of watches, which spread over several turns of the loop
                self._loop.call_soon_threadsafe(self._wake_fired)

    def _wake_fired(self) -> None:
        for _ in range(min(AT_ONCE, len(self._fired))):
            path = self._fired.popleft()
            self._waiters.wake(path)
            self._stats.changed(path)
        if self._fired:
            self._loop.call_soon(self._wake_fired)


def _close_late(task: asyncio.Task[Session]) -> None:
    if not task.cancelled() and task.exception() is None:
        threading.Thread(target=task.result().close, name="spark-ha-hub-close", daemon=True).start()
