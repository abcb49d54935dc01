"""Reads that are all sent before the first answer comes. Requests of one session are answered in their order."""

from __future__ import annotations

import time
from typing import Any

from kazoo.client import KazooClient  # noqa: TID253  # part of _kazoo.py
from kazoo.exceptions import NoNodeError  # noqa: TID253  # as above

from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.reads import Reads, Seen


class PendingReads:
    """Reads that were sent. With one that fails all have failed: they hold together only within one connection.

    :param client: A connected client.
    :param reads: What to read.
    """

    def __init__(self, client: KazooClient, reads: Reads) -> None:
        self._nodes = [(path, client.get_async(path)) for path in reads.nodes]
        self._lists = [(path, client.get_children_async(path)) for path in reads.lists]

    def get(self, timeout: float) -> Seen:
        """Wait for all answers, at most *timeout* seconds together."""
        end = time.monotonic() + timeout
        answers = {path: _answer(result, end) for path, result in self._nodes}
        nodes = {path: None if answer is None else node_of(path, answer) for path, answer in answers.items()}
        lists = {path: sorted(_answer(result, end) or ()) for path, result in self._lists}
        return Seen(nodes, lists)


def _answer(result: Any, end: float) -> Any:
    try:
        return result.get(timeout=max(0.01, end - time.monotonic()))
    except NoNodeError:
        return None


def node_of(path: str, answer: Any) -> Node:
    """Return the node that kazoo answered with: its data, and what the server says of it."""
    data, stat = answer
    return Node(path, data, stat.version, stat.mzxid, stat.ephemeralOwner)
