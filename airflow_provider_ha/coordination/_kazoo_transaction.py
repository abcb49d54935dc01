"""Conversion of operations to a kazoo transaction, and of its results and errors back.

kazoo returns the errors of a transaction as values and does not raise them: every result is inspected by its type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kazoo import exceptions as kazoo_errors  # noqa: TID253  # part of the facade _kazoo.py
from kazoo.client import KazooClient, TransactionRequest  # noqa: TID253  # part of the facade _kazoo.py
from typing_extensions import assert_never

from airflow_provider_ha.coordination.coordinator import Check, Create, Delete, Op, SetData
from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    HaError,
    NodeExistsError,
    NodeMissingError,
    VersionConflictError,
)


_REJECTIONS: dict[type[Exception], tuple[type[CoordinationError], str]] = {
    kazoo_errors.NoNodeError: (NodeMissingError, "or its parent does not exist"),
    kazoo_errors.NodeExistsError: (NodeExistsError, "exists"),
    kazoo_errors.BadVersionError: (VersionConflictError, "changed since it was read"),
    kazoo_errors.NotEmptyError: (VersionConflictError, "has children"),
}
# ZooKeeper closes the connection on a request above 1 MB (jute.maxbuffer), which looks like a lost connection.
_MAX_BYTES = 1_000_000


def build_transaction(client: KazooClient, ops: Sequence[Op]) -> TransactionRequest:
    """Return a kazoo transaction of *ops*.

    :raises CoordinationError: The data exceeds the limit of a transaction.
    """
    size = sum(len(op.path) + len(getattr(op, "data", b"")) for op in ops)
    if size > _MAX_BYTES:
        raise CoordinationError(
            f"a write of {size} bytes to {ops[0].path} is more than ZooKeeper takes ({_MAX_BYTES} bytes)",
            next_step="Keep the data in storage and only a pointer to it in ZooKeeper",
        )
    transaction = client.transaction()
    for op in ops:
        match op:
            case Check():
                transaction.check(op.path, op.version)
            case Create():
                transaction.create(op.path, op.data, ephemeral=op.ephemeral)
            case SetData():
                transaction.set_data(op.path, op.data, op.version)
            case Delete():
                transaction.delete(op.path, op.version)
            case _:
                assert_never(op)
    return transaction


def versions_of(results: Sequence[Any], ops: Sequence[Op], hosts: str) -> list[int]:
    """Return the new versions, or raise the error of the operation for which all were rejected."""
    for result, op in zip(results, ops, strict=True):
        if isinstance(result, Exception) and not isinstance(
            result, (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
        ):
            raise translate(result, op.path, hosts)
    if any(isinstance(result, Exception) for result in results):
        raise CoordinationError(f"ZooKeeper ({hosts}) rejected a write of {ops[0].path} without a reason")
    return [_version(result, op) for result, op in zip(results, ops, strict=True)]


def translate(error: Exception, path: str, hosts: str) -> HaError:
    """Return this package's error for an error of kazoo."""
    for kind, (ours, what) in _REJECTIONS.items():
        if isinstance(error, kind):
            return _about(path, ours(f"znode {path} {what}"))
    match error:
        case kazoo_errors.NoAuthError():
            return ConfigurationError(
                f"ZooKeeper ({hosts}) refuses access to {path} with these credentials",
                next_step="Give the digest_auth or sasl_auth (user:password) with which the nodes were created",
            )
        case kazoo_errors.AuthFailedError():
            return refused(hosts)
        case _:
            return _about(path, CoordinationError(f"ZooKeeper ({hosts}) failed at {path}: {error!r}"))


def refused(hosts: str) -> ConfigurationError:
    """Return the error for credentials that the servers do not know; kazoo never tries again with them."""
    return ConfigurationError(
        f"ZooKeeper ({hosts}) refuses these credentials",
        next_step="Check user and password, and that the servers know the user",
    )


def _version(result: Any, op: Op) -> int:
    match op:
        case SetData():
            return int(result.version)
        case Create():
            return 0
        case _:
            return -1


def _about(path: str, error: CoordinationError) -> CoordinationError:
    error.path = path
    return error
