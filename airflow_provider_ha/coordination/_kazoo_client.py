"""A kazoo client that cannot wait for ever: every step towards a server is bounded.

What is private to kazoo and used here (``ConnectionHandler._invoke``, its ``_socket``) is tested by what it does in
``tests/contract/test_coordinator.py``; the dependency is pinned below 2.12 for the same reason.
"""

from __future__ import annotations

import logging
import socket
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # with _kazoo.py the one place that imports kazoo
from kazoo.handlers.threading import SequentialThreadingHandler  # noqa: TID253  # as above
from kazoo.protocol.connection import ConnectionHandler  # noqa: TID253  # as above
from kazoo.protocol.serialization import Connect  # noqa: TID253  # as above
from kazoo.retry import KazooRetry  # noqa: TID253  # as above
from kazoo.security import make_digest_acl  # noqa: TID253  # as above

from airflow_provider_ha.config import HaConfig, Timings


# kazoo writes passwords of sessions and users at DEBUG: this logger never lets these lines through.
_log = logging.getLogger("airflow_provider_ha.kazoo")
_log.setLevel(logging.INFO)


class BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Connects within a limit of its own: kazoo would give one silent host the whole session timeout (kazoo #517)."""

    def __init__(self, limit: float) -> None:
        super().__init__()
        self._limit = limit

    def create_connection(self, *args: Any, timeout: float | None = None, **options: Any) -> socket.socket:
        """Open a TCP connection within the limit."""
        bounded = self._limit if timeout is None else min(timeout, self._limit)
        connection: socket.socket = super().create_connection(*args, timeout=bounded, **options)
        return connection


class BoundedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Waits for a server's greeting within the limit, and keeps what kazoo throws away: the negotiated timeout.

    :ivar negotiated_timeout: T in seconds as the server granted it; 0 before the first connection (kazoo #769).
    """

    negotiated_timeout = 0.0

    def __init__(self, client: KazooClient, limit: float, retry: KazooRetry) -> None:
        super().__init__(client, retry, logger=_log)
        self._limit = limit

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(min(timeout, self._limit), request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.negotiated_timeout = answer[0].time_out / 1000.0
        return answer

    def shut_down_socket(self) -> None:
        """Make the current connection fail at once, also when kazoo's thread is stuck in the middle of a frame."""
        connection = self._socket
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # it failed by itself meanwhile
                _log.debug("the connection was gone already")


def make_client(config: HaConfig) -> KazooClient:
    """Return a client that is not started yet."""
    timings = config.timings
    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_jitter=0.2, max_delay=_longest_pause(timings))
    client = KazooClient(
        hosts=config.zookeeper,
        timeout=timings.session_timeout,
        handler=BoundedHandler(timings.connect_timeout),
        connection_retry=retry,
        command_retry=KazooRetry(max_tries=1),  # commands are repeated by the coordinator, which knows which may be
        logger=_log,
        **_authentication(config),
    )
    # kazoo's constructor hard-wires its connection class.
    client._connection = BoundedConnection(client, timings.connect_timeout, client._conn_retry.copy())  # noqa: SLF001  # see above
    return client


def _longest_pause(timings: Timings) -> float:
    """Return the longest pause between two rounds of connecting, seconds.

    It is part of what a cut may last, so it stays within the margin; kazoo's default grows to an hour.
    """
    return min(1.0, max(0.05, timings.margin / 2))


def _authentication(config: HaConfig) -> dict[str, Any]:
    if config.digest_auth is None:
        return {}
    credentials = config.digest_auth.get_secret_value()
    user, _, password = credentials.partition(":")
    return {"auth_data": [("digest", credentials)], "default_acl": [make_digest_acl(user, password, all=True)]}
