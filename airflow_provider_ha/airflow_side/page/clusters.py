"""Clusters of the page: connections of type ``spark_ha``, their sessions, and reads with a time limit.

Invariants: the first request that needs a session opens it; later requests share it; it closes after a time without
requests, or when its connection was edited. An outage of a cluster does not affect the pages of another.

An overdue read continues in its thread until it ends, because it cannot be cancelled. So the number of threads is
bounded, and a page fails immediately when all threads are busy.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow.models.connection import Connection
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_ha.airflow_side.compat.sdk import AirflowNotFoundException
from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError, CoordinationError, HaError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook


T = TypeVar("T")
SECONDS = 4.0  # seconds that a person waits before they assume a failure
AT_ONCE = 12  # concurrent reads, of all pages of a process


class OverTimeError(HaError):
    """Read that took too long, so the state of its object is unknown."""

    retryable = True


@dataclass(frozen=True, slots=True)
class ReadResult(Generic[T]):
    """Result of a read among several, or its error.

    :param problem: Error; empty without one.
    """

    value: T | None = None
    problem: str = ""


class BoundedCalls:
    """Caller that runs each function in a separate thread. Thread-safe.

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

    def together(self, functions: Mapping[str, Callable[[], Any]]) -> dict[str, ReadResult[Any]]:
        """Call functions concurrently, with one limit for all; return their answers by name.

        :raises Exception: Any error that is not this package's.
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

    def _answer(self, begun: Future[T], until: float) -> ReadResult[T]:
        try:
            return ReadResult(self._result(begun, wait=_left(until), limit=self._seconds))
        except HaError as error:
            return ReadResult(problem=str(error))

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


_VARIABLE = "AIRFLOW_CONN_"
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 3.0
AT_ONCE_STORAGE = 24  # reads: a job's page has several


class MissingConnectionError(ConfigurationError):
    """Connection id that Airflow does not know."""


class Clusters:
    """Clusters of this Airflow. Thread-safe; a forked child begins with no session.

    :param names: Function that returns the ids of the connections.
    :param config_of: Function that reads a connection.
    """

    def __init__(
        self,
        *,
        names: Callable[[], list[str]] | None = None,
        config_of: Callable[[str], HaConfig] | None = None,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._names = names or connection_ids
        self._config_of = config_of or read_config
        self._idle_seconds = idle_seconds
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()
        # Each lives as long as its reads, because users name connections and their number is unlimited.
        self._bounds: weakref.WeakValueDictionary[tuple[str, str], BoundedCalls] = weakref.WeakValueDictionary()

    def names(self) -> list[str]:
        """Return the ids of all clusters' connections, the default first."""
        found = set(self._names())
        return sorted(found, key=lambda name: (name != DEFAULT_CONN_ID, name))

    def zookeeper(self, conn_id: str) -> BoundedCalls:
        """Return the bounded reads of a cluster's ZooKeeper."""
        next_step = "Check that a majority of the ensemble runs and can be reached from the API server"
        return self._bound(conn_id, "ZooKeeper", next_step, AT_ONCE)

    def storage(self, conn_id: str) -> BoundedCalls:
        """Return the bounded reads of a cluster's storage."""
        next_step = "Check that the storage root answers, and can be reached from the API server"
        return self._bound(conn_id, "storage", next_step, AT_ONCE_STORAGE)

    @contextmanager
    def client(self, conn_id: str) -> Iterator[HaClient]:
        """Lend the client of a cluster to the block.

        :raises ConfigurationError: The connection does not exist, or cannot be used.
        :raises NotConnectedError: No ZooKeeper server answered.
        """
        config = self._config_of(conn_id)
        session = self._session(conn_id, config)
        asked = session.begin()
        try:
            yield session.client(asked)
        finally:
            session.end()

    def close(self) -> None:
        """End every session."""
        with self._lock:
            sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            session.close()

    def _bound(self, conn_id: str, what: str, next_step: str, at_once: int) -> BoundedCalls:
        with self._lock:
            key = (conn_id, what)
            return self._bounds.setdefault(key, BoundedCalls(what, next_step=next_step, at_once=at_once))

    def _session(self, conn_id: str, config: HaConfig) -> _Session:
        with self._lock:
            if self._pid != os.getpid():
                self._sessions, self._pid = {}, os.getpid()
            session = self._sessions.get(conn_id)
            if session is None or session.config != config:
                if session is not None:
                    session.retire()
                session = self._sessions[conn_id] = _Session(config, self._idle_seconds)
            return session


class _Session:
    """Session with a cluster, open while it is used."""

    def __init__(self, config: HaConfig, idle_seconds: float) -> None:
        self.config = config
        self._idle_seconds = idle_seconds
        self._client: HaClient | None = None
        self._failed: CoordinationError | None = None
        self._failed_at = 0.0
        self._users = 0
        self._retired = False
        self._timer: threading.Timer | None = None
        self._opening = threading.Lock()
        self._lock = threading.Lock()

    def begin(self) -> float:
        """Record a request; return its time on the monotonic clock."""
        with self._lock:
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return time.monotonic()

    def client(self, asked: float) -> HaClient:
        """Return the client. Requests that wait for a connection attempt share its outcome.

        :param asked: Time of the request on the monotonic clock.
        """
        with self._opening:
            if self._client is None:
                if self._failed is not None and self._failed_at >= asked:
                    raise type(self._failed)(self._failed.message, next_step=self._failed.next_step)
                self._client = self._open()
            return self._client

    def _open(self) -> HaClient:
        try:
            return HaClient.open(self.config, timeout=CONNECT_SECONDS)
        except CoordinationError as error:
            self._failed, self._failed_at = error, time.monotonic()
            raise

    def end(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users:
                return
            self._timer = threading.Timer(0 if self._retired else self._idle_seconds, self._close_idle)
            self._timer.daemon = True
            self._timer.start()

    def retire(self) -> None:
        """Close as soon as no request uses the session."""
        self._retired = True
        self._close_idle()

    def close(self) -> None:
        with self._opening:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _close_idle(self) -> None:
        with self._lock:
            if self._users:
                return
        self.close()


def connection_ids() -> list[str]:
    """Return the ids of the connections of type ``spark_ha``, from Airflow's database and the environment.

    Other secrets backends cannot be listed, but ``spark_ha_default`` is tried nevertheless.
    """
    with create_session() as session:
        found = set(session.scalars(select(Connection.conn_id).where(Connection.conn_type == SparkHaHook.conn_type)))
    named = [name.removeprefix(_VARIABLE).lower() for name in os.environ if name.startswith(_VARIABLE)]
    return sorted(found | {name for name in named if _is_ours(name)} | {DEFAULT_CONN_ID})


def read_config(conn_id: str) -> HaConfig:
    """Read a connection.

    :raises MissingConnectionError: The connection does not exist.
    :raises ConfigurationError: The connection has another type, or cannot be used.
    """
    try:
        connection = SparkHaHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise MissingConnectionError(
            f"Airflow has no connection {conn_id!r}",
            next_step=f"Create a connection of type {SparkHaHook.hook_name} (Admin, Connections)",
        ) from None
    if connection.conn_type != SparkHaHook.conn_type:
        raise ConfigurationError(
            f"connection {conn_id!r} is of type {connection.conn_type!r}",
            next_step=f"Choose a connection of type {SparkHaHook.hook_name}",
        )
    return SparkHaHook(conn_id).get_config()


def _is_ours(conn_id: str) -> bool:
    try:
        return bool(SparkHaHook.get_connection(conn_id).conn_type == SparkHaHook.conn_type)
    except Exception:  # noqa: BLE001  # a variable without a connection is not ours
        return False
