"""What can be said of a transaction before it is sent."""

from __future__ import annotations

from airflow_provider_ha.coordination.coordinator import Check, Create, Delete, Op
from airflow_provider_ha.errors import CoordinationError
from tests.support.fake.tree import parent_of


_MAX_BYTES = 1_000_000  # as in coordination/_kazoo_transaction.py; the contract tests hold both to it


def written_by(ops: tuple[Op, ...]) -> tuple[str, ...]:
    """Return the nodes that a transaction would change, and the parents of those that come or go."""
    written = []
    for op in ops:
        if not isinstance(op, Check):
            written.append(op.path)
        if isinstance(op, (Create, Delete)):
            written.append(parent_of(op.path))
    return tuple(written)


def refuse_too_much(ops: tuple[Op, ...]) -> None:
    """Refuse what ZooKeeper would close the connection for.

    :raises CoordinationError: Too much data for one transaction.
    """
    size = sum(len(op.path) + len(getattr(op, "data", b"")) for op in ops)
    if size > _MAX_BYTES:
        raise CoordinationError(
            f"a write of {size} bytes to {ops[0].path} is more than ZooKeeper takes ({_MAX_BYTES} bytes)",
            next_step="Keep the data in storage and only a pointer to it in ZooKeeper",
        )
