"""Reads that are all sent before the first response arrives. A session's requests are answered in their order."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # part of _kazoo.py
from kazoo.exceptions import NoNodeError  # noqa: TID253  # as above

from airflow_provider_ha.coordination.coordinator import PathWatch
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.reads import Reads, Seen


@dataclass(frozen=True)
class NodeWatch:
    """Callback with the path; equal for equal paths, so kazoo keeps one watch per path however often it is set."""

    callback: PathWatch
    path: str

    def __call__(self, event: Any) -> None:  # noqa: ARG002  # an event is only a reason to read again
        self.callback(self.path)


class PendingReads:
    """Reads that were sent. If one fails, all fail: they are consistent only within one connection.

    :param client: A connected client.
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

    def get(self, timeout: float) -> Seen:
        """Wait for all answers, at most *timeout* seconds together."""
        end = time.monotonic() + timeout
        nodes = _nodes(self._nodes, end)
        if self._watch is not None:
            missing = [path for path, node in nodes.items() if node is None]
            sent = [(path, self._client.exists_async(path, watch=self._watch_of(path))) for path in missing]
            nodes |= self._that_are_there([*self._absent, *sent], end)
        lists = {path: sorted(_answer(result, end) or ()) for path, result in self._lists}
        return Seen({path: nodes.get(path) for path in self._order}, lists)

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
