"""Kazoo client with bounded waits for each step towards a server, and the log of its connection.

The private parts of kazoo used here (``ConnectionHandler._invoke``, its ``_socket``) are tested by their behaviour in
``tests/contract/test_coordinator.py``; the dependency is pinned below 2.12 for the same reason.

Repeated attempts to connect change no state and are not logged, so an outage of an hour is two lines.
"""

from __future__ import annotations

import importlib.util
import logging
import socket
import time
from functools import lru_cache
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # with _kazoo.py the one place that imports kazoo
from kazoo.handlers.threading import SequentialThreadingHandler  # noqa: TID253  # as above
from kazoo.protocol.connection import ConnectionHandler  # noqa: TID253  # as above
from kazoo.protocol.serialization import Connect  # noqa: TID253  # as above
from kazoo.retry import KazooRetry  # noqa: TID253  # as above
from kazoo.security import make_acl, make_digest_acl  # noqa: TID253  # as above

from airflow_provider_ha.config import HaConfig, TlsOptions
from airflow_provider_ha.coordination.coordinator import SessionCredentials, SessionState
from airflow_provider_ha.coordination.raw_socket import open_socket
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.timings import Timings


log = logging.getLogger(__name__)


class ConnectionLog:
    """Logger of a connection's state changes. Called only by the thread that receives them.

    :param hosts: Addresses of the ensemble.
    """

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._session: SessionCredentials | None = None
        self._since: float | None = None

    def changed(
        self, state: SessionState, session: SessionCredentials | None, reason: str, *, refused: bool = False
    ) -> None:
        """Log one change.

        :param session: The session now; ``None`` when it is lost.
        :param reason: Why the connection was lost.
        :param refused: Whether the servers do not accept our credentials.
        """
        if state is SessionState.CONNECTED:
            log.info("%s", self._connected(session))
            self._session, self._since = session, None
            return
        self._since = time.monotonic() if self._since is None else self._since
        if refused:
            log.warning("ZooKeeper (%s) refuses the session: %s", self._hosts, reason or "no reason was given")
        elif state is SessionState.LOST:
            log.warning("the ZooKeeper session %s with %s has expired", _id(self._session), self._hosts)
        else:
            why = f": {reason}" if reason else ""
            log.warning(
                "the connection to ZooKeeper (%s) is interrupted%s; connecting again, session %s",
                self._hosts,
                why,
                _id(self._session),
            )

    def _connected(self, session: SessionCredentials | None) -> str:
        if self._since is None:
            return f"connected to ZooKeeper ({self._hosts}), session {_id(session)}"
        after = f"connected to ZooKeeper ({self._hosts}) again after {time.monotonic() - self._since:.1f} s"
        same = self._session is not None and session is not None and session.session_id == self._session.session_id
        return f"{after}, session {_id(session)}" + (" goes on" if same else " is a new one")


def _id(session: SessionCredentials | None) -> str:
    return "none" if session is None else f"0x{session.session_id:x}"


# kazoo logs passwords of sessions and users at DEBUG, and up to six lines for one lost connection: this logger drops
# both. The coordinator logs each change of a connection once.
_log = logging.getLogger("airflow_provider_ha.kazoo")
_log.setLevel(logging.ERROR)


class KazooLog(logging.LoggerAdapter):  # type: ignore[type-arg]  # generic for type checkers only, until 3.11
    """Log of a kazoo client that passes errors on and keeps the reason of a lost connection.

    :ivar reason: Reason of the newest loss, in kazoo's words; empty when kazoo has not logged any.
    """

    reason = ""

    def log(self, level: int, msg: object, *args: object, **options: Any) -> None:
        """Log a line of kazoo's; its warnings with a value are about the connection."""
        if level == logging.WARNING and args:
            self.reason = str(msg) % args
        super().log(level, msg, *args, **options)


class BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Handler that connects within its own limit: kazoo gives a silent host the whole session timeout (kazoo #517)."""

    def __init__(self, limit: float, tls: TlsOptions | None) -> None:
        super().__init__()
        self._limit = limit
        self._tls = tls
        self.last_error = ""

    def create_connection(self, *args: Any, timeout: float | None = None, **options: Any) -> socket.socket:
        """Open a connection within the limit, and keep the reason of a failure: kazoo only logs it.

        TLS is not left to kazoo, which loses the socket of a handshake that fails.
        """
        bounded = self._limit if timeout is None else min(timeout, self._limit)
        try:
            if self._tls is not None and "address" in options:
                return open_socket(self._tls, options["address"], bounded, name=options["hostname"])
            connection: socket.socket = super().create_connection(*args, timeout=bounded, **options)
        except OSError as error:
            self.last_error = str(error)
            raise
        return connection


class BoundedConnection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """Connection that bounds the wait for a server's greeting and keeps the negotiated timeout, which kazoo discards.

    :ivar negotiated_timeout: T in seconds as the server granted it; 0 before the first connection (kazoo #769).
    """

    negotiated_timeout = 0.0

    def __init__(self, client: KazooClient, limit: float, retry: KazooRetry, sasl: dict[str, str] | None) -> None:
        super().__init__(client, retry, logger=client.logger, sasl_options=sasl)
        self._limit = limit

    def _invoke(self, timeout: float, request: Any, xid: int | None = None) -> Any:
        answer = super()._invoke(min(timeout, self._limit), request, xid)
        if isinstance(request, Connect) and answer[0].time_out > 0:
            self.negotiated_timeout = answer[0].time_out / 1000.0
        return answer

    def shut_down_socket(self) -> None:
        """Make the current connection fail immediately, even when kazoo's thread is blocked within a frame."""
        connection = self._socket
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:  # the connection has already failed
                _log.debug("the connection was gone already")


def make_client(config: HaConfig) -> KazooClient:
    """Return a client that is not started yet and never accepts a read-only server.

    :raises ConfigurationError: A file or library for TLS or SASL is missing on this host.
    """
    timings = config.timings
    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_jitter=0.2, max_delay=_longest_pause(timings))
    client = KazooClient(
        hosts=config.zookeeper + (config.chroot or ""),
        timeout=timings.session_timeout,
        handler=BoundedHandler(timings.connect_timeout, config.tls),
        connection_retry=retry,
        command_retry=KazooRetry(max_tries=1),  # only the coordinator knows which commands are repeatable
        logger=KazooLog(_log, {}),
        read_only=False,  # such a server may lag behind without end, and kazoo would report it as plainly connected
        **_authentication(config),
        **_tls(config),
    )
    # kazoo's constructor hard-wires its connection class.
    client._connection = BoundedConnection(client, timings.connect_timeout, client._conn_retry.copy(), _sasl(config))  # noqa: SLF001  # see above
    return client


def _longest_pause(timings: Timings) -> float:
    """Return the longest pause between two rounds of connecting, in seconds.

    It counts towards the longest tolerated network interruption, so it stays within the margin; kazoo's default grows
    to an hour.
    """
    return min(1.0, max(0.05, timings.margin / 2))


def _authentication(config: HaConfig) -> dict[str, Any]:
    """Return the credentials, and the ACL for all nodes that this session creates (only its own, if any)."""
    given, acl = [], []
    if config.digest_auth is not None:
        _warn_in_clear(config, "the password is sent in clear text")
        for each in filter(None, (config.digest_auth, config.digest_auth_also)):
            credentials = each.get_secret_value()
            user, _, password = credentials.partition(":")
            given.append(("digest", credentials))
            acl.append(make_digest_acl(user, password, all=True))
    if config.sasl_auth is not None:
        _warn_in_clear(config, "a password sent by DIGEST-MD5 can be guessed from the traffic")
        user = config.sasl_auth.get_secret_value().partition(":")[0]
        acl.append(make_acl("sasl", user, all=True))
    return {"auth_data": given, "default_acl": acl} if acl else {}


def _warn_in_clear(config: HaConfig, what: str) -> None:
    if config.tls is None:
        _warn_once(f"credentials for ZooKeeper are used without TLS: {what}. Switch TLS on (tls, SPARK_HA_TLS)")


@lru_cache(maxsize=8)
def _warn_once(message: str) -> None:
    """Log a warning once per process, because sessions are opened often."""
    log.warning(message)


def _sasl(config: HaConfig) -> dict[str, str] | None:
    if config.sasl_auth is None:
        return None
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigurationError(
            "SASL needs the package pure-sasl, which is not installed",
            next_step="Install airflow-provider-ha[sasl] on this host",
        )
    user, _, password = config.sasl_auth.get_secret_value().partition(":")
    return {"mechanism": "DIGEST-MD5", "username": user, "password": password}


def _tls(config: HaConfig) -> dict[str, Any]:
    if config.tls is None:
        return {}
    config.tls.check_files()
    return {"use_ssl": True}
