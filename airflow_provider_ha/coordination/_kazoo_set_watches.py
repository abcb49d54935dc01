"""Many watched reads in few requests: one ``multiRead``, then one ``setWatches``, which kazoo does not know either.

``setWatches`` is what clients send after a reconnect: it names the last transaction that the client has seen, and the
server answers with an event for each node that has changed since, and watches the others. So a watch that is set after
the read misses nothing, if the transaction is one from before the read. An event for a change that the read has seen
is possible, and only costs another read.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # part of _kazoo.py
from kazoo.protocol.paths import _prefix_root  # noqa: TID253  # as above
from kazoo.protocol.serialization import (  # noqa: TID253  # as above
    GetData,
    int_struct,
    long_struct,
    write_string,
)

from airflow_provider_ha.coordination._kazoo_multi_read import MultiRead, PendingMultiReads, send, slices
from airflow_provider_ha.coordination._kazoo_reads import NodeWatch
from airflow_provider_ha.coordination.coordinator import PathWatch
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.reads import Reads, Seen


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

    def get(self, timeout: float) -> Seen:
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
    """One request, with the methods that kazoo calls on requests.

    :param client: Whose chroot the paths are in.
    :param since: A transaction id. A node that changed later fires its watch immediately.
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
        """Return that it is done: the answer is empty."""
        return True


class _LastTransaction(MultiRead):
    """Asks which transaction the server has applied at least: each answer's header has it, and kazoo keeps that."""

    def __init__(self, client: KazooClient) -> None:
        super().__init__(client, [(GetData, "/")])
        self._client = client

    def deserialize(self, answer: bytes, offset: int) -> Any:  # noqa: ARG002  # the signature that kazoo calls
        """Return the transaction: kazoo takes it from the header, in this thread, before it calls this."""
        return self._client.last_zxid
