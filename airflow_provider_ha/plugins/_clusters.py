"""Clusters of the pages: every connection of type ``spark_ha``, with one session per cluster in use.

Invariants: the first request that needs a session opens it; later requests share it; it closes after a time without
requests, or when its connection was edited. A cluster that does not answer does not affect the pages of another.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from airflow.models.connection import Connection
from airflow.utils.session import create_session
from sqlalchemy import select

from airflow_provider_ha.compat.sdk import AirflowNotFoundException
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.errors import ConfigurationError, CoordinationError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.plugins._bounded import AT_ONCE, Bounded


_VARIABLE = "AIRFLOW_CONN_"
IDLE_SECONDS = 60.0
CONNECT_SECONDS = 3.0
AT_ONCE_STORAGE = 24  # reads: a job's page has several


class MissingConnectionError(ConfigurationError):
    """Airflow has no connection with this id."""


class Clusters:
    """The clusters of this Airflow. Thread-safe; a forked child begins with no session.

    :param names: Returns the ids of the connections.
    :param config_of: Reads a connection.
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
        # Each lives as long as its reads: users name connections, so their number is unlimited.
        self._bounds: weakref.WeakValueDictionary[tuple[str, str], Bounded] = weakref.WeakValueDictionary()

    def names(self) -> list[str]:
        """Return the ids of all clusters' connections, the default first."""
        found = set(self._names())
        return sorted(found, key=lambda name: (name != DEFAULT_CONN_ID, name))

    def zookeeper(self, conn_id: str) -> Bounded:
        """Return the bounded reads of a cluster's ZooKeeper."""
        next_step = "Check that a majority of the ensemble runs and can be reached from the API server"
        return self._bound(conn_id, "ZooKeeper", next_step, AT_ONCE)

    def storage(self, conn_id: str) -> Bounded:
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

    def _bound(self, conn_id: str, what: str, next_step: str, at_once: int) -> Bounded:
        with self._lock:
            key = (conn_id, what)
            return self._bounds.setdefault(key, Bounded(what, next_step=next_step, at_once=at_once))

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
    """A session with a cluster, open while it is used."""

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
        """Note a request; return its time on the monotonic clock."""
        with self._lock:
            self._users += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
        return time.monotonic()

    def client(self, asked: float) -> HaClient:
        """Return the client. Requests that wait for a connection attempt share its outcome.

        :param asked: Time of the request.
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
        """Close as soon as no request uses it."""
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

    Another secrets backend cannot be listed: ``spark_ha_default`` is tried nevertheless.
    """
    with create_session() as session:
        found = set(session.scalars(select(Connection.conn_id).where(Connection.conn_type == SparkHaHook.conn_type)))
    named = [name.removeprefix(_VARIABLE).lower() for name in os.environ if name.startswith(_VARIABLE)]
    return sorted(found | {name for name in named if _is_ours(name)} | {DEFAULT_CONN_ID})


def read_config(conn_id: str) -> HaConfig:
    """Read a connection.

    :raises MissingConnectionError: It does not exist.
    :raises ConfigurationError: It is of another type, or cannot be used.
    """
    try:
        connection = SparkHaHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise MissingConnectionError(
            f"Airflow has no connection {conn_id!r}",
            next_step=f"Create one of type {SparkHaHook.hook_name} (Admin, Connections)",
        ) from None
    if connection.conn_type != SparkHaHook.conn_type:
        raise ConfigurationError(
            f"connection {conn_id!r} is of type {connection.conn_type!r}",
            next_step=f"Choose one of type {SparkHaHook.hook_name}",
        )
    return SparkHaHook(conn_id).get_config()


def _is_ours(conn_id: str) -> bool:
    try:
        return bool(SparkHaHook.get_connection(conn_id).conn_type == SparkHaHook.conn_type)
    except Exception:  # noqa: BLE001  # a variable without a connection is not ours
        return False
