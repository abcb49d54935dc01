"""Removing a part of the tree in ZooKeeper as its leader."""

from __future__ import annotations

from collections.abc import Iterator

from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import NodeMissingError, VersionConflictError


_BATCH = 50  # nodes per transaction: a lease is seconds, and ZooKeeper's packets are small
_ATTEMPTS = 3


def remove_nodes(coordinator: Coordinator, leadership: Leadership, base: str, *, spared: tuple[str, ...]) -> None:
    """Remove everything below *base* in fenced transactions, children first.

    :raises VersionConflictError, NodeMissingError: Another process still writes there.
    """
    for attempt in range(_ATTEMPTS):
        try:
            nodes = list(_below(coordinator, base, spared))
            for start in range(0, len(nodes), _BATCH):
                leadership.prove()
                leadership.commit(*(Delete(path) for path in nodes[start : start + _BATCH]))
        except (VersionConflictError, NodeMissingError):  # noqa: PERF203  # a retry is a try in a loop
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return


def _below(coordinator: Coordinator, base: str, spared: tuple[str, ...]) -> Iterator[str]:
    for name in coordinator.children(base):
        path = f"{base}/{name}"
        if path not in spared:
            yield from _below(coordinator, path, spared)
            yield path
