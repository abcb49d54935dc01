"""Outcome of a transaction that raised: certainly not applied, certainly applied, or unknown.

Invariant: only a certain rejection is a reason to discard something. "Exists" and "changed" may be the trace of an
earlier attempt of this process, so they are read back and compared by bytes; FLINK-24543 deleted a good checkpoint
because it was not (Flink's ``ZooKeeperStateHandleStore``, contracts H7 and H8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum

from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    HaError,
    LeadershipError,
    NodeExistsError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)


log = logging.getLogger(__name__)

Commit = Callable[..., list[int]]
"""``leadership.commit``, or ``coordinator.commit`` where there can be no leader."""

_REJECTED = (NodeExistsError, NodeMissingError, VersionConflictError)
# Nothing was sent, or ZooKeeper said no to the whole transaction.
_CERTAIN = (*_REJECTED, LeadershipError, NotConnectedError, ConfigurationError)


class TransactionOutcome(Enum):
    """Outcome of a transaction."""

    APPLIED = "applied"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


def outcome_of(error: HaError, path: str, applied: Callable[[], bool]) -> TransactionOutcome:
    """Classify a transaction that raised.

    :param error: The raised error.
    :param path: The node of the transaction.
    :param applied: Reads the node back and reports whether it is byte for byte as written.
    """
    ours = isinstance(error, _REJECTED) and error.path in ("", path)
    if isinstance(error, _CERTAIN) and not ours:
        return TransactionOutcome.REJECTED
    try:
        if applied():  # guard: read-back
            return TransactionOutcome.APPLIED
    except CoordinationError as failure:
        log.warning("znode %s could not be read back: %s", path, failure)
        return TransactionOutcome.UNKNOWN
    # Without an answer, "not there" is no proof: keep everything, and let the caller try the same again.
    return TransactionOutcome.REJECTED if ours else TransactionOutcome.UNKNOWN  # guard: exists-is-success


def unknown(error: HaError, path: str) -> HaError:
    """Return the error for an outcome that stays unknown."""
    if isinstance(error, OutcomeUnknownError) or not isinstance(error, _REJECTED):
        return error
    return OutcomeUnknownError(
        f"{path} may or may not have been written: {error.message}", next_step="Try the same write again"
    )
