"""Pipelined reads on top of kazoo: all sent before the first response, many in one multiRead and one setWatches.

A request costs kazoo about 0.1 ms of Python, a read within a ``multiRead`` a small fraction
(``benchmarks/recovery.py``). The server reads in the order of the request and returns a separate result for each read:
a failed read does not affect the others.

A server before 3.6 ends a session that sends an unknown request. So ``_kazoo.py`` probes the servers in a separate
session, once per process with many reads: a driver must not lose its leadership by a read.

Clients send ``setWatches`` after a reconnect. It names the last transaction that the client has seen; the server
answers with an event for each node that has changed since, and watches the others. So a watch set after the read misses
no change, if it names a transaction from before the read. An event for a change that the read has seen is possible, and
only costs another read.

The private parts of kazoo used here (``KazooClient._call``, ``kazoo.protocol``) are tested by their behaviour in
``tests/contract/test_coordinator.py``; the dependency is pinned below 2.12 for the same reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kazoo.client import KazooClient  # noqa: TID253  # part of _kazoo.py
from kazoo.exceptions import (  # noqa: TID253  # as above
    EXCEPTIONS,
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NoNodeError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError  # noqa: TID253  # as above
from kazoo.protocol.paths import _prefix_root  # noqa: TID253  # as above
from kazoo.protocol.serialization import (  # noqa: TID253  # as above  # noqa: TID253  # as above
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    long_struct,
    read_buffer,
    stat_struct,
    write_string,
)
from kazoo.protocol.states import ZnodeStat  # noqa: TID253  # as above

from airflow_provider_ha.coordination.coordinator import Node, PathWatch, ReadResponse, Reads


@dataclass(frozen=True)
class _Watch:
    """Watch callback for every event, including type NONE (the connection is lost, and kazoo drops its watches).

    Equal for equal callbacks: kazoo keeps watches in a set, so repeated arming adds no entries.
    """

    callback: Callable[[], None]

    def __call__(self, event: Any) -> None:  # noqa: ARG002  # an event is only a reason to read again
        self.callback()


def node_watch(callback: Callable[[], None] | None) -> _Watch | None:
    """Return a watch of kazoo that calls *callback*; ``None`` without one."""
    return None if callback is None else _Watch(callback)


@dataclass(frozen=True)
class NodeWatch:
    """Callback with the path; equal for equal paths, so kazoo keeps one watch per path however often it is set."""

    callback: PathWatch
    path: str

    def __call__(self, event: Any) -> None:  # noqa: ARG002  # an event is only a reason to read again
        self.callback(self.path)


class PendingReads:
    """Reads that were sent. If one fails, all fail, because they are consistent only within one connection.

    :param client: Connected client.
    :param reads: Paths to read.
    :param watch: Called for each node when it may have changed.
    """

    def __init__(self, client: KazooClient, reads: Reads, watch: PathWatch | None = None) -> None:
        self._client = client
        self._watch = watch
        absent = reads.absent if watch is not None else frozenset()
        self._order = reads.nodes
        self._nodes = [
            (path, client.get_async(path, watch=self._watch_of(path))) for path in reads.nodes if path not in absent
        ]
        self._absent = [
            (path, client.exists_async(path, watch=self._watch_of(path))) for path in reads.nodes if path in absent
        ]
        self._lists = [(path, client.get_children_async(path)) for path in reads.lists]

    def get(self, timeout: float) -> ReadResponse:
        """Wait for all answers, at most *timeout* seconds together."""
        end = time.monotonic() + timeout
        nodes = _nodes(self._nodes, end)
        if self._watch is not None:
            missing = [path for path, node in nodes.items() if node is None]
            sent = [(path, self._client.exists_async(path, watch=self._watch_of(path))) for path in missing]
            nodes |= self._that_are_there([*self._absent, *sent], end)
        lists = {path: sorted(_answer(result, end) or ()) for path, result in self._lists}
        return ReadResponse({path: nodes.get(path) for path in self._order}, lists)

    def _that_are_there(self, asked: list[tuple[str, Any]], end: float) -> dict[str, Node | None]:
        """Return the nodes that exist now. Only ``exists`` can watch a missing node."""
        there = [path for path, result in asked if _answer(result, end)]
        return _nodes([(path, self._client.get_async(path)) for path in there], end)

    def _watch_of(self, path: str) -> NodeWatch | None:
        return None if self._watch is None else NodeWatch(self._watch, path)


def _nodes(sent: list[tuple[str, Any]], end: float) -> dict[str, Node | None]:
    answers = {path: _answer(result, end) for path, result in sent}
    return {path: None if answer is None else node_of(path, answer) for path, answer in answers.items()}


def _answer(result: Any, end: float) -> Any:
    try:
        return result.get(timeout=max(0.01, end - time.monotonic()))
    except NoNodeError:
        return None


def node_of(path: str, answer: Any) -> Node:
    """Return the node of a kazoo response: its data and the server's metadata."""
    data, stat = answer
    return Node(path, data, stat.version, stat.mzxid, stat.ephemeralOwner)


@dataclass(frozen=True)
class PendingResponses:
    """Responses of single requests, awaited together within one limit; an error of a single node is a value."""

    answers: list[tuple[Any, ...]]

    def get(self, timeout: float) -> list[tuple[Any, ...]]:
        """Wait for all responses, at most *timeout* seconds together; return them in their groups."""
        end = time.monotonic() + timeout
        return [tuple(self._one(answer, end) for answer in group) for group in self.answers]

    @staticmethod
    def _one(answer: Any, end: float) -> Any:
        try:
            return answer.get(timeout=max(0.01, end - time.monotonic()))
        except (NoNodeError, NoAuthError, BadVersionError, InvalidACLError) as error:
            return error


MANY = 100  # number of reads from which a probe of the servers pays off
_AT_ONCE = 500  # reads or watches in one request: the server delays all other answers of the session
_ASK_AGAIN = 60.0  # seconds until servers that did not answer are tried again
_Item = TypeVar("_Item")
_ERROR = -1  # type of a result that is an error code


class MultiRead:
    """Request for many reads, with the methods that kazoo calls on requests.

    :param client: Client whose chroot the paths are in.
    :param reads: Pairs of a request of kazoo's, ``GetData`` or ``GetChildren``, and a path.
    """

    type = 22

    def __init__(self, client: KazooClient, reads: Sequence[tuple[Any, str]]) -> None:
        self._reads = [kind(_prefix_root(client.chroot, path), None) for kind, path in reads]

    def serialize(self) -> bytearray:
        """Return the request."""
        sent = bytearray()
        for read in self._reads:
            sent += MultiHeader(read.type, done=False, err=_ERROR).serialize()
            sent += read.serialize()
        sent += MultiHeader(_ERROR, done=True, err=_ERROR).serialize()
        return sent

    def deserialize(self, answer: bytes, offset: int) -> list[Any]:
        """Return for each read the result or error that kazoo returns for a single read."""
        found: list[Any] = []
        header, offset = MultiHeader.deserialize(answer, offset)
        while not header.done:
            if header.type == GetData.type:
                data, offset = read_buffer(answer, offset)
                found.append((data, ZnodeStat._make(stat_struct.unpack_from(answer, offset))))
                offset += stat_struct.size
            elif header.type == GetChildren.type:
                names, offset = _names(answer, offset)
                found.append(names)
            else:
                found.append(EXCEPTIONS[int_struct.unpack_from(answer, offset)[0]]())
                offset += int_struct.size
            header, offset = MultiHeader.deserialize(answer, offset)
        return found


class PendingMultiReads:
    """Reads that were sent, :data:`_AT_ONCE` in a request; like ``PendingReads`` without a watch."""

    def __init__(self, client: KazooClient, reads: Reads) -> None:
        self._reads = reads
        wanted = [*((GetData, path) for path in reads.nodes), *((GetChildren, path) for path in reads.lists)]
        self._sent = [send(client, MultiRead(client, part)) for part in slices(wanted)]

    def get(self, timeout: float) -> ReadResponse:
        """Wait for all answers, at most *timeout* seconds together."""
        end = time.monotonic() + timeout
        answers = [
            _or_none(answer) for sent in self._sent for answer in sent.get(timeout=max(0.01, end - time.monotonic()))
        ]
        nodes, lists = answers[: len(self._reads.nodes)], answers[len(self._reads.nodes) :]
        return ReadResponse(
            {
                path: None if answer is None else node_of(path, answer)
                for path, answer in zip(self._reads.nodes, nodes, strict=True)
            },
            {path: sorted(names or ()) for path, names in zip(self._reads.lists, lists, strict=True)},
        )


class KnownServers:
    """Cache of the ensembles that support ``multiRead``. Shared without a lock: a repeated probe is harmless."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}
        self._again: dict[str, float] = {}

    def know(self, hosts: str, ask: Callable[[], bool | None], *, reads: int) -> bool:
        """Return whether the servers support ``multiRead``.

        :param ask: Probes the servers; ``None`` without a response. The next probe follows after a minute: a server
            that accepts no further connection must not delay each read.
        :param reads: Number of reads to send; below :data:`MANY` the servers are not probed.
        """
        if reads >= MANY and hosts not in self._known and time.monotonic() >= self._again.get(hosts, 0.0):
            answer = ask()
            if answer is None:
                self._again[hosts] = time.monotonic() + _ASK_AGAIN
            else:
                self._known[hosts] = answer
        return self._known.get(hosts, False)


KNOWN = KnownServers()


def send(client: KazooClient, request: Any) -> Any:
    """Send a request, and return its pending answer."""
    pending = client.handler.async_result()
    client._call(request, pending)  # noqa: SLF001  # see above
    return pending


def slices(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield *items* in parts that fit a request."""
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def is_answered(client: KazooClient, timeout: float) -> bool | None:
    """Return whether the servers know the request, ``None`` without an answer; the session is lost if they do not."""
    try:
        send(client, MultiRead(client, [(GetData, "/")])).get(timeout=timeout)
    except UnimplementedError:
        return False
    except (KazooException, KazooTimeoutError):
        return None
    return True


def _names(answer: bytes, offset: int) -> tuple[list[str], int]:
    count = int_struct.unpack_from(answer, offset)[0]
    offset += int_struct.size
    names = []
    for _ in range(count):
        name, offset = read_buffer(answer, offset)
        names.append(name.decode())
    return names, offset


def _or_none(answer: Any) -> Any:
    if isinstance(answer, NoNodeError):
        return None
    if isinstance(answer, Exception):
        raise answer
    return answer


class PendingWatchedReads:
    """Reads that were sent and whose watches are set later; otherwise like ``PendingReads`` with a watch.

    :param client: A connected client, of servers that know ``multiRead``.
    :param reads: Paths to read.
    :param watch: Called for each node when it may have changed.
    """

    def __init__(self, client: KazooClient, reads: Reads, watch: PathWatch) -> None:
        self._client = client
        self._watch = watch
        self._before = send(client, _LastTransaction(client))
        self._reads = PendingMultiReads(client, reads)

    def get(self, timeout: float) -> ReadResponse:
        """Wait for all answers and watches, at most *timeout* seconds together."""
        end = time.monotonic() + timeout
        before = self._before.get(timeout=timeout)
        seen = self._reads.get(max(0.01, end - time.monotonic()))
        sent = [
            send(self._client, SetWatches(self._client, before, part, self._watch))
            for part in slices(list(seen.nodes.items()))
        ]
        for answer in sent:
            answer.get(timeout=max(0.01, end - time.monotonic()))
        return seen


class SetWatches:
    """Request that sets watches, with the methods that kazoo calls on requests.

    :param client: Client whose chroot the paths are in.
    :param since: Transaction id. A node that changed later fires its watch immediately.
    :param nodes: Read nodes, by path: a node that exists is watched for changes, another one for its creation.
    :param watch: Called with the path.
    """

    type = 101

    def __init__(
        self, client: KazooClient, since: int, nodes: Sequence[tuple[str, Node | None]], watch: PathWatch
    ) -> None:
        self._client = client
        self._since = since
        self._nodes = [
            (_prefix_root(client.chroot, path), NodeWatch(watch, path), node is not None) for path, node in nodes
        ]

    def serialize(self) -> bytearray:
        """Return the request, and register the watches with kazoo.

        kazoo calls this in the thread of the connection, just before it sends the request. Events may arrive before the
        response, and a connection lost in the meantime fires the registered watches.
        """
        for path, watch, _ in self._nodes:
            self._client._data_watchers[path].add(watch)  # noqa: SLF001  # see _kazoo_multi_read.py
        there = [path for path, _, exists in self._nodes if exists]
        absent = [path for path, _, exists in self._nodes if not exists]
        sent = bytearray(long_struct.pack(self._since))
        for paths in (there, absent, []):  # the last: watches of children
            sent += int_struct.pack(len(paths))
            for path in paths:
                sent += write_string(path)
        return sent

    def deserialize(self, answer: bytes, offset: int) -> bool:  # noqa: ARG002  # the signature that kazoo calls
        """Return true: the answer is empty."""
        return True


class _LastTransaction(MultiRead):
    """Request for the server's last applied transaction, which each answer's header contains and kazoo stores."""

    def __init__(self, client: KazooClient) -> None:
        super().__init__(client, [(GetData, "/")])
        self._client = client

    def deserialize(self, answer: bytes, offset: int) -> Any:  # noqa: ARG002  # the signature that kazoo calls
        """Return the transaction, which kazoo takes from the header in this thread before it calls this method."""
        return self._client.last_zxid
