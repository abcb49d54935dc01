"""ZooKeeper session on top of kazoo. Invariant: no kazoo exception and no kazoo type leaves this module.

Threads: public methods may be called from any thread of the process that connected. Watches and state listeners run on
kazoo's own threads and must not block. Reads are repeated until they succeed or time is up. A transaction is sent once:
the caller reads back first, then decides whether to repeat it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from kazoo.exceptions import (  # noqa: TID253  # with _kazoo_client.py the one place that imports kazoo
    ConnectionLoss,
    KazooException,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
    SessionMovedError,
)
from kazoo.handlers.threading import KazooTimeoutError  # noqa: TID253  # as above
from kazoo.protocol.states import KazooState, KeeperState  # noqa: TID253  # as above
from typing_extensions import Self

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo_client import ConnectionLog, make_client
from airflow_provider_ha.coordination._kazoo_reads import (
    KNOWN,
    MANY,
    PendingMultiReads,
    PendingReads,
    PendingResponses,
    PendingWatchedReads,
    is_answered,
    node_of,
    node_watch,
)
from airflow_provider_ha.coordination._kazoo_transaction import build_transaction, refused, translate, versions_of
from airflow_provider_ha.coordination.coordinator import (
    Coordinator,
    Create,
    Node,
    Op,
    PathWatch,
    ReadResponse,
    Reads,
    SessionCredentials,
    SessionState,
    missing,
)
from airflow_provider_ha.coordination.raw_socket import unresolved
from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    HaError,
    NodeExistsError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
)


_log = logging.getLogger(__name__)

_STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.LOST,
}
# After these errors it is unknown whether the server received the request, or will still receive it.
_NO_ANSWER = (ConnectionLoss, SessionExpiredError, OperationTimeoutError, SessionMovedError, KazooTimeoutError)
_CLOSE_TIMEOUT = 5.0
_ASK_TIMEOUT = 5.0  # seconds: limit of a probe of a server, while a reader waits


class KazooCoordinator(Coordinator):
    """Session with an ensemble; see :class:`Coordinator`.

    :param config: Configuration of the cluster. Use :meth:`connect`, which also waits for the session.
    """

    def __init__(self, config: HaConfig) -> None:
        self._config = config
        self._hosts = config.zookeeper
        self._timeout = config.timings.session_timeout
        self._pid = os.getpid()
        self._client = make_client(config)
        self._state = SessionState.LOST
        self._session: SessionCredentials | None = None
        self._connected = threading.Event()
        self._closed = False
        self._refused = False
        self._unsure = False
        self._dropped = False
        self._news = ConnectionLog(config.zookeeper)
        self._listeners: list[Callable[[SessionState], None]] = []
        self._client.add_listener(self._on_state)

    @classmethod
    def connect(cls, config: HaConfig, *, timeout: float = 15.0) -> Self:
        """Open a session.

        :param config: Configuration of the cluster.
        :param timeout: Seconds to wait for a server.
        :raises NotConnectedError: No server answered; names the hosts.
        :raises ConfigurationError: The servers refuse the session, or grant one too short for the timings.
        """
        coordinator = cls(config)
        coordinator._client.start_async()
        try:
            coordinator._await_session(config, timeout)
        except BaseException:
            coordinator.close()
            raise
        return coordinator

    def _await_session(self, config: HaConfig, timeout: float) -> None:
        if not self._connected.wait(timeout):
            reason = unresolved(config) or self._client.handler.last_error
            raise NotConnectedError(
                f"no ZooKeeper server of {config.zookeeper} answered within {timeout:g} s"
                + (f" ({reason})" if reason else ""),
                next_step="Check the hosts, and that a majority of the ensemble runs",
            )
        if config.chroot or config.sasl_auth:
            # The servers accept or refuse both only after the session exists.
            self._check_admitted(config)
        if self.negotiated_timeout < config.timings.session_timeout:
            hosts = len(config.zookeeper.split(","))
            granted = config.timings.granted(self.negotiated_timeout, hosts)
            _log.warning(
                "ZooKeeper granted a session timeout of %g s, not %g s: a cut may last %g s",
                granted.session_timeout,
                config.timings.session_timeout,
                granted.tolerated_cut(hosts),
            )

    def _check_admitted(self, config: HaConfig) -> None:
        if not self._read("/", lambda: self._client.exists_async("/")):
            raise ConfigurationError(
                f"the chroot {config.chroot} does not exist in ZooKeeper ({self._hosts})",
                next_step=f"Let the owner of the ensemble create it: zkCli.sh create {config.chroot}",
            )

    @property
    def state(self) -> SessionState:
        """Current state of the session."""
        return self._state

    @property
    def session(self) -> SessionCredentials | None:
        """Current session, also while it is suspended; ``None`` without a session."""
        return self._session

    @property
    def negotiated_timeout(self) -> float:
        """T in seconds, as the server granted it."""
        granted: float = self._client._connection.negotiated_timeout  # noqa: SLF001  # our own class, see make_client
        return granted

    def get(self, path: str, *, watch: Callable[[], None] | None = None) -> Node:
        """Read a node; see :meth:`Coordinator.get`."""
        try:
            return node_of(path, self._read(path, lambda: self._client.get_async(path, watch=node_watch(watch))))
        except NoNodeError:
            raise missing(path) from None

    def find(self, path: str, *, watch: Callable[[], None] | None = None) -> Node | None:
        """Read a node or return ``None``; see :meth:`Coordinator.find`."""
        while True:
            try:
                return self.get(path, watch=watch)
            except NodeMissingError:  # noqa: PERF203  # it may come and go while we look
                # Only ``exists`` can watch a missing node. If the node was created in between, read it after all.
                if watch is None or not self._read(
                    path, lambda: self._client.exists_async(path, watch=node_watch(watch))
                ):
                    return None

    def children(self, path: str, *, watch: Callable[[], None] | None = None) -> list[str]:
        """Return the names of a node's children, sorted; see :meth:`Coordinator.children`."""
        while True:
            try:
                names = self._read(path, lambda: self._client.get_children_async(path, watch=node_watch(watch)))
            except NoNodeError:  # noqa: PERF203  # it may come and go while we look
                if watch is None or not self._read(
                    path, lambda: self._client.exists_async(path, watch=node_watch(watch))
                ):
                    return []
            else:
                return sorted(names)

    def read(self, reads: Reads, *, watch: PathWatch | None = None) -> ReadResponse:
        """Read all in one round trip; see :meth:`Coordinator.read`."""
        if not reads.nodes and not reads.lists:
            return ReadResponse({}, {})
        return self._read((reads.nodes + reads.lists)[0], self._sender(reads, watch))  # type: ignore[no-any-return]

    def _sender(self, reads: Reads, watch: PathWatch | None) -> Callable[[], Any]:
        """Return a function that sends the reads, in the fewest requests that pay off and the servers support."""
        count = len(reads.nodes) + len(reads.lists)
        # Watches that are set in a single request cost two more round trips.
        several = count > 1 if watch is None else len(reads.nodes) >= MANY
        if not (several and KNOWN.know(self._hosts, self._answers_multi_read, reads=count)):
            return lambda: PendingReads(self._client, reads, watch)
        if watch is None:
            return lambda: PendingMultiReads(self._client, reads)
        return lambda: PendingWatchedReads(self._client, reads, watch)

    def _answers_multi_read(self) -> bool | None:
        """Probe the servers in another session, because they end a session that sends an unknown request."""
        try:
            other = KazooCoordinator.connect(self._config, timeout=_ASK_TIMEOUT)
        except HaError:  # this session stays open; a server may limit the connections of a host
            return None
        try:
            answered = is_answered(other._client, _ASK_TIMEOUT)  # noqa: SLF001  # our own class
        finally:
            other.close()
        if answered is False:
            _log.warning("ZooKeeper (%s) is older than 3.6: many jobs are read slowly", self._hosts)
        return answered

    @property
    def default_acl(self) -> list[Any] | None:
        """ACL of the nodes that this session creates, as kazoo's type; ``None`` without credentials."""
        acl: list[Any] | None = self._client.default_acl
        return acl

    def pipelined(self, send: Callable[[Any], list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
        """Send many ACL requests before awaiting the first response; for ``_kazoo_acls.py``.

        :param send: Takes the client and returns the pending responses; called again when a connection is lost.
        :returns: The responses; an error of a single node is returned as its exception.
        """
        return list(self._read("/", lambda: PendingResponses(send(self._client))))

    def ensure(self, *paths: str) -> None:
        """Create the persistent nodes that do not exist yet, parents included."""
        wanted = tuple(dict.fromkeys(node for path in paths for node in _lineage(path)))
        for node, found in self.read(Reads(wanted)).nodes.items():
            if found is None:
                self._ensure_one(node)

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        """Apply all *ops* in one transaction, or reject all; see :meth:`Coordinator.commit`."""
        limit = self._timeout if timeout is None else timeout
        self._wait_until_connected(limit)
        try:
            results = build_transaction(self._client, ops).commit_async().get(timeout=limit)
        except _NO_ANSWER as error:
            self._unsure = True
            raise OutcomeUnknownError(
                f"ZooKeeper ({self._hosts}) did not answer a write of {', '.join(op.path for op in ops)} "
                f"({type(error).__name__})",
                next_step="Read back before writing again",
            ) from None
        except KazooException as error:
            raise translate(error, ops[0].path, self._hosts) from None
        return versions_of(results, ops, self._hosts)

    def add_state_listener(self, listener: Callable[[SessionState], None]) -> None:
        """Call *listener* on each change of state, from the event thread: it must not block."""
        self._listeners.append(listener)

    def drop_connection(self) -> None:
        """Drop the connection and try the next server; the session lives on."""
        self._dropped = True
        self._client._connection.shut_down_socket()  # noqa: SLF001  # our own class, see make_client

    def close(self) -> None:
        """End the session within a few seconds, also when kazoo hangs. Idempotent; in a forked child it does nothing.

        kazoo joins its threads when it stops, and never returns when one is stuck (kazoo #582).
        """
        if self._closed or os.getpid() != self._pid:
            return
        self._closed = True
        helper = threading.Thread(target=self._stop, name="ha-close-session", daemon=True)
        helper.start()
        helper.join(_CLOSE_TIMEOUT)
        if helper.is_alive():
            _log.warning("the session with %s could not be ended in order; it ends by its timeout", self._hosts)
            self._client._connection.shut_down_socket()  # noqa: SLF001  # our own class, see make_client
            atexit.unregister(self._client.handler.stop)  # another stop would hang in the same place

    def _stop(self) -> None:
        try:
            self._client.stop()
            self._client.close()
        except Exception:  # noqa: BLE001  # top of a helper thread; the process is about to continue without the session
            _log.exception("the session with %s was not ended in order", self._hosts)

    def _on_state(self, state: str) -> None:
        self._state = _STATES[state]
        if self._client._state == KeeperState.AUTH_FAILED:  # noqa: SLF001  # to listeners it is a session lost
            self._refused = True
            self._session = None
            self._connected.set()  # the waiting threads can return, because kazoo never tries again
        elif self._state is SessionState.CONNECTED:
            self._session = SessionCredentials(*self._client.client_id)
            self._connected.set()
        else:
            self._connected.clear()
            if self._state is SessionState.LOST:
                self._session = None
        for listener in tuple(self._listeners):
            try:
                listener(self._state)
            except Exception:  # noqa: BLE001, PERF203  # the other listeners still have to be notified
                _log.exception("a listener of the session's state failed")
        if not self._closed:  # an end in order is no news
            # Last: a log that blocks must not delay the listeners, which act on the change.
            self._news.changed(self._state, self._session, self._reason(), refused=self._refused)

    def _reason(self) -> str:
        """Return why the connection was lost."""
        dropped, self._dropped = self._dropped, False
        return "the server does not answer" if dropped else str(self._client.logger.reason)

    def _ensure_one(self, path: str) -> None:
        end = time.monotonic() + self._timeout
        while True:
            try:
                self.commit(Create(path))
            except NodeExistsError:  # noqa: PERF203  # a retry is a try in a loop
                return
            except OutcomeUnknownError:  # a repeated call is harmless
                if time.monotonic() > end:
                    raise
            else:
                return

    def _read(self, path: str, send: Callable[[], Any]) -> Any:
        """Repeat a read until it is answered or the session timeout is over."""
        last: Exception | None = None
        for left in self._attempts():
            try:
                if self._unsure:
                    # A member that lags behind could still show the state before the unanswered write.
                    self._client.sync_async(path).get(timeout=left)
                    self._unsure = False
                return send().get(timeout=left)
            except _NO_ANSWER as error:  # noqa: PERF203  # a retry is a try in a loop
                last = error
            except NoNodeError:
                raise
            except KazooException as error:
                raise translate(error, path, self._hosts) from None
        raise self._not_connected(f"did not answer a read of {path} ({type(last).__name__})")

    def _attempts(self) -> Iterator[float]:
        """Yield the seconds left, each time the session is connected, until the time is over."""
        end = time.monotonic() + self._timeout
        while (left := end - time.monotonic()) > 0:
            self._wait_until_connected(left)
            yield max(0.01, end - time.monotonic())

    def _wait_until_connected(self, timeout: float) -> None:
        """Wait for a connection: a request that kazoo queues now could be sent under another session later."""
        if os.getpid() != self._pid:
            raise CoordinationError(
                "a ZooKeeper session was used in a forked process, where its threads do not exist",
                next_step="Connect again in the child process",
            )
        if self._closed:
            raise CoordinationError(f"the session with {self._hosts} was closed", next_step="Connect again")
        connected = self._connected.wait(timeout)
        if self._refused:
            raise refused(self._hosts)
        if not connected:
            raise self._not_connected(f"could not be reached for {timeout:.3g} s, so no request was sent")

    def _not_connected(self, what: str) -> NotConnectedError:
        return NotConnectedError(
            f"ZooKeeper ({self._hosts}) {what}", next_step="Check that a majority of the ensemble runs, then try again"
        )


def _lineage(path: str) -> list[str]:
    """Return *path* and its parents, the highest first."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[: count + 1]) for count in range(len(parts))]
