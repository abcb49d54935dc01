"""One ZooKeeper session for all triggers of one triggerer and connection.

A triggerer runs a thousand triggers in one thread; a session each would be a thousand connections and heartbeats
(ZooKeeper's default limit is 60 per host). So triggers borrow a :class:`Hub` and give it back. What they ask for in one
turn of the loop is read together, and one look a second at some of the nodes, in turns, is the poll of all of them.

Invariants: nothing here blocks the event loop, and no turn of it serves more than a few hundred triggers; a watch only
wakes a waiter early, the waiter then reads the truth again; a session that is lost is replaced, because its watches
are gone with it. Looks at jobs may wait for storage for minutes, and never occupy the threads in which the session is
opened and the watchers of a cluster read ZooKeeper. A waiter that announces itself does so after it has looked, and
what goes wrong with that is no trouble of its wait.
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

from airflow_provider_ha.airflow_side.job_stats import JobStats
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.notify.session import AT_ONCE, Nodes, Session, Waiter, Waiters, within
from airflow_provider_ha.jobs.runs.watchers import Announcement
from airflow_provider_ha.triggers._lasting_objects import leave_out_what_lasts


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


T = TypeVar("T")
OpenClient = Callable[[HaConfig], "HaClient"]

CALL_TIMEOUT = 30.0  # seconds; longer than the coordinator's own bounded retries, so that its error comes first
POLL = 60.0  # seconds in which each watched node is compared once; longer with more than AT_ONCE nodes a second
_BATCH = 1000  # nodes in one round trip
_TICK = 1.0  # seconds between two parts of the poll, and between an announcement and its node
_HELD_BACK = 10  # ticks in a row without announcements, at most
_THREADS = 4  # a dead ZooKeeper must not occupy the threads that other providers' triggers share
_OF_CLUSTER = 2  # threads for what reads ZooKeeper only: one watcher's call that was given up leaves one to the others

_log = logging.getLogger(__name__)
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


def _leave_out_what_lasts() -> None:
    """Leave out of Python's search for cycles what lasts: waits, and what their jobs' metrics keep."""
    leave_out_what_lasts(sum(hub.borrowers + hub.reported for hub in _hubs.values()))


def _open_client(config: HaConfig) -> HaClient:
    from airflow_provider_ha.api.ha_client import HaClient  # noqa: PLC0415  # brings kazoo and boto3

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
        self._of_cluster = ThreadPoolExecutor(_OF_CLUSTER, thread_name_prefix="spark-ha-hub-cluster")
        # Nodes have one thread: a watch is set once, and what is kept of it must not be read twice.
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="spark-ha-hub-nodes")
        self._session: asyncio.Task[Session] | None = None
        self._waiters = Waiters()
        self._asked: deque[tuple[Waiter, asyncio.Future[Nodes]]] = deque()
        self._reading: asyncio.Task[None] | None = None
        self._fired: deque[str] = deque()
        self._firing = threading.Lock()  # of the threads that fire
        self._announced: dict[str, Announcement] = {}
        self._to_compare: deque[str] = deque()
        self._upkeep = asyncio.ensure_future(self._look_after_the_session())
        self._stats = JobStats(config.cluster_id, self._opened)

    def waiter(self, paths: Sequence[str], absent: Sequence[str] = ()) -> AbstractContextManager[Waiter]:
        """Register interest in *paths*, of which *absent* are likely not to exist, for the time of the block."""
        return self._waiters.added(paths, absent)

    async def nodes(self, waiter: Waiter) -> Nodes:
        """Return the waiter's nodes, ``None`` for one that does not exist; a change after this wakes it.

        :raises HaError: They could not be read, or no session could be opened.
        :raises TimeoutError: No session, or no answer, within ``CALL_TIMEOUT``.
        """
        waiter.clear()  # first: a session that is lost while this one waits for it wakes the waiter again
        answer: asyncio.Future[Nodes] = self._loop.create_future()
        self._asked.append((waiter, answer))
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(self._read_asked())
        return await answer

    async def call(self, function: Callable[[HaClient], T], *, of_cluster: bool = False) -> T:
        """Call *function* in a thread, without watching anything. Same errors as :meth:`nodes`.

        :param of_cluster: Whether a watcher of the whole cluster asks. It has threads reserved, so that looks at jobs
            that wait for storage do not keep it waiting; *function* never reads storage itself.
        """
        session = await self._current()
        executor = self._of_cluster if of_cluster else self._executor
        future = self._loop.run_in_executor(executor, function, session.client)
        return await within(CALL_TIMEOUT, future)

    def wake(self, path: str) -> None:
        """Wake those that wait for a node: it, or what a watch of theirs tells of, may have changed. For any thread."""
        self._wake_from_thread(path)

    def announce(self, announced: Announcement | None) -> None:
        """Show a wait to people within some seconds, until the block of :meth:`announcing` ends."""
        if announced is not None:
            self._announced[announced.path] = announced

    @contextmanager
    def announcing(self, announced: Announcement | None) -> Iterator[None]:
        """Remove an announcement some time after the block: the session lives on without it."""
        try:
            yield
        finally:
            if announced is not None:
                self._announced.pop(announced.path, None)

    @property
    def reported(self) -> int:
        """Of how many jobs something is kept for their metrics."""
        return self._stats.kept

    def reporting(self, job_ids: Iterable[str]) -> AbstractContextManager[None]:
        """Send the metrics of jobs to Airflow's Stats for the time of the block, each once for all its triggers."""
        return self._stats.reporting(job_ids)

    async def close(self) -> None:
        """End the session; one that is still being opened is closed as soon as it is there."""
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
        """Answer all that ask, as many at once as one turn of the loop can take."""
        while self._asked:
            batch, count = [], 0
            while self._asked and count < _BATCH:
                waiter, answer = self._asked.popleft()
                if not answer.done():  # it was cancelled, or has given up
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
            _leave_out_what_lasts()

    async def _fail(self, error: Exception, batch: list[tuple[Waiter, asyncio.Future[Nodes]]]) -> None:
        """Give all that ask the reason: each of them alone would wait for it as long."""
        batch.extend(self._asked)
        self._asked.clear()
        for number, (_, answer) in enumerate(batch):
            if not answer.done():
                answer.set_exception(error)
            if number % AT_ONCE == AT_ONCE - 1:
                await asyncio.sleep(0)

    async def _look_after_the_session(self) -> None:
        """Compare some nodes and keep the announcements, again and again. Raises nothing: looks report an outage."""
        held_back = 0
        while True:
            await asyncio.sleep(_TICK)
            session = self._opened()
            if session is None:
                continue
            _leave_out_what_lasts()
            # What is shown to people can wait while many wait for their first look; a stream of looks has no end.
            looks = self._reading is not None and not self._reading.done()
            held_back = held_back + 1 if looks and held_back < _HELD_BACK else 0
            try:
                if not held_back:
                    await self._in_reader(partial(session.announcements.keep, list(self._announced.values())))
                await self._compare_some(session)
            except (HaError, asyncio.TimeoutError):
                continue  # of an outage those tell that read
            except Exception:  # noqa: BLE001  # logged: the next turn has to come all the same
                _log.exception("the session of the triggers could not be looked after")

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
        """Return the session if it is there and lives."""
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
        # Shielded: one trigger that is cancelled must not take the attempt away from the others.
        return await within(CALL_TIMEOUT, asyncio.shield(self._session))

    async def _open(self) -> Session:
        client = await self._loop.run_in_executor(self._of_cluster, self._open_client, self._config)
        leave_out_what_lasts(0)  # by now all is imported
        return Session(client, self._wake_from_thread)

    async def _discard(self, task: asyncio.Task[Session]) -> None:
        if not task.done():
            task.add_done_callback(_close_late)
        elif not task.cancelled() and task.exception() is None:
            with suppress(asyncio.TimeoutError):
                closing = self._loop.run_in_executor(None, task.result().close)
                await within(CALL_TIMEOUT, asyncio.shield(closing))

    def _wake_from_thread(self, path: str | None) -> None:
        with suppress(RuntimeError):  # the loop is gone, and every waiter with it
            if path is None:
                self._loop.call_soon_threadsafe(self._waiters.wake_all)
                return
            with self._firing:
                self._fired.append(path)
                first = len(self._fired) == 1
            if first:  # a connection that is lost fires thousands: one turn of the loop takes some
                self._loop.call_soon_threadsafe(self._wake_fired)

    def _wake_fired(self) -> None:
        for _ in range(min(AT_ONCE, len(self._fired))):
            self._waiters.wake(self._fired.popleft())
        if self._fired:
            self._loop.call_soon(self._wake_fired)


def _close_late(task: asyncio.Task[Session]) -> None:
    if not task.cancelled() and task.exception() is None:
        threading.Thread(target=task.result().close, name="spark-ha-hub-close", daemon=True).start()
