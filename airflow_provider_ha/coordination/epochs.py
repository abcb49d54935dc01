"""Raising an epoch without leading: for a job whose earlier epochs ZooKeeper never had or has lost.

Invariant: an epoch only grows. It is the version of a node, so it grows in steps of one, which are sent together:
other processes never see an intermediate epoch.
"""

from __future__ import annotations

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.paths import Lock


_OPS_PER_TRANSACTION = 4000  # far below the limit of a transaction, 1 MB


def raise_epoch(
    coordinator: Coordinator, lock: Lock, *, lowest: int, to: int, by: bytes
) -> tuple[int, tuple[str, ...]]:
    """Ensure that epochs up to *lowest* are never granted again; return the lock's epoch and the created nodes.

    :param lowest: Highest epoch ever granted, as far as the caller knows.
    :param to: New epoch when the current one is below *lowest*.
    :param by: Content in place of an acquisition's attempt id: it does not belong to a process.
    :raises VersionConflictError: Another process has raised it at the same time.
    """
    node = coordinator.find(lock.epoch)
    if node is not None and node.version >= lowest:
        return node.version, ()
    made: tuple[str, ...] = ()
    making: list[Op] = []
    if node is None:
        parent = lock.epoch.rpartition("/")[0]
        coordinator.ensure(parent)
        making = [Create(path) for path in (lock.heartbeat,) if coordinator.find(path) is None]
        making.append(Create(lock.epoch, by))
        made = (parent, *(op.path for op in making))
    version = 0 if node is None else node.version
    steps = [SetData(lock.epoch, by, step) for step in range(version, to)]
    # In one transaction with its creation as far as that can hold them.
    for start in range(0, len(steps), _OPS_PER_TRANSACTION):
        coordinator.commit(*making, *steps[start : start + _OPS_PER_TRANSACTION])
        making = []
    return to, made
