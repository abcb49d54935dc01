"""Many reads in one request of ZooKeeper: ``multiRead``, supported by servers since 3.6 but not by kazoo.

A request costs kazoo some 0.1 ms of Python, a read within a ``multiRead`` a small fraction
(``benchmarks/recovery.py``). The server reads in the order of the request and returns a separate result for each read:
a failed read does not affect the others.

A server before 3.6 ends a session that sends an unknown request. So ``_kazoo.py`` probes the servers in a separate
session, once per process with many reads: a driver must not lose its leadership by a read.

The private parts of kazoo used here (``KazooClient._call``, ``kazoo.protocol``) are tested by their behaviour in
``tests/contract/test_coordinator.py``; the dependency is pinned below 2.12 for the same reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from kazoo.client import KazooClient  # noqa: TID253  # part of _kazoo.py
from kazoo.exceptions import (  # noqa: TID253  # as above
    EXCEPTIONS,
    KazooException,
    NoNodeError,
    UnimplementedError,
)
from kazoo.handlers.threading import KazooTimeoutError  # noqa: TID253  # as above
from kazoo.protocol.paths import _prefix_root  # noqa: TID253  # as above
from kazoo.protocol.serialization import (  # noqa: TID253  # as above
    GetChildren,
    GetData,
    MultiHeader,
    int_struct,
    read_buffer,
    stat_struct,
)
from kazoo.protocol.states import ZnodeStat  # noqa: TID253  # as above

from airflow_provider_ha.coordination._kazoo_reads import node_of
from airflow_provider_ha.coordination.reads import Reads, Seen


MANY = 100  # reads that are worth the question to the servers
_AT_ONCE = 500  # reads or watches in one request: the server delays all other answers of the session
_ASK_AGAIN = 60.0  # seconds until servers that did not answer are tried again
_Item = TypeVar("_Item")
_ERROR = -1  # type of an answer that is the code of an error


class MultiRead:
    """One request, with the methods that kazoo calls of a request.

    :param client: Whose chroot the paths are in.
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
        """Return for each read what kazoo returns for it alone, or its error."""
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

    def get(self, timeout: float) -> Seen:
        """Wait for all answers, at most *timeout* seconds together."""
        end = time.monotonic() + timeout
        answers = [
            _or_none(answer) for sent in self._sent for answer in sent.get(timeout=max(0.01, end - time.monotonic()))
        ]
        nodes, lists = answers[: len(self._reads.nodes)], answers[len(self._reads.nodes) :]
        return Seen(
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
    """Send one request, and return its pending answer."""
    pending = client.handler.async_result()
    client._call(request, pending)  # noqa: SLF001  # see above
    return pending


def slices(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Yield *items* in parts, each as much as one request takes."""
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
