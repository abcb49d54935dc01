"""Scan of all pointers below one node, consistent at one moment, and the outcome of a transaction that raised.

Invariants: the names were the same before and after the pointers were read, so that a pointer that moved in between is
not missed (a torn scan could miss both the old and the new latest checkpoint). Unreadable pointers are part of the
result, never left out: one may be the newest (contract 6; Flink skips it and restores an older state, H11).

Invariant: only a certain rejection is a reason to discard something. "Exists" and "changed" may be the trace of an
earlier attempt of this process, so they are read back and compared by bytes; FLINK-24543 deleted a good checkpoint
because it was not (Flink's ``ZooKeeperStateHandleStore``, contracts H7 and H8).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator, Node, Reads
from airflow_provider_ha.coordination.node_names import ours
from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    HaError,
    LeadershipError,
    NodeExistsError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
    RecordCorruptError,
    VersionConflictError,
)
from airflow_provider_ha.records import Record


P = TypeVar("P", bound=Record)

_ATTEMPTS = 50  # each is a round trip; a job makes a few pointers per second at most
# Nodes requested before the first answer: with 2 KB each, a megabyte is under way.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class ScannedPointer(Generic[P]):
    """A pointer as it was read.

    :param version: Version of its node: guards a replacement.
    """

    name: str
    record: P
    version: int


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A pointer, payload or record that cannot be read, or is missing.

    :param name: Name of its node (the digits of a checkpoint, the id of a savepoint), or its key in storage.
    :param reason: Why it cannot be read.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class PointerScan(Generic[P]):
    """Pointers below one node, ordered by name."""

    found: tuple[ScannedPointer[P], ...]
    unreadable: tuple[UnreadableRecord, ...]


def scan(
    coordinator: Coordinator, parent: str, record_type: type[P], *, is_ours: Callable[[str], bool] | None = None
) -> PointerScan[P]:
    """Read every pointer below *parent*.

    :param is_ours: Whether a child is a pointer, by its name; others are skipped and logged.
    :raises CoordinationError: ZooKeeper could not be read, or the pointers kept changing.
    """
    nodes = stable_children(coordinator, parent)
    names = [node.path.rpartition("/")[2] for node in nodes]
    own = set(names if is_ours is None else ours(names, is_ours, parent=parent))
    found, unreadable = [], []
    for node in nodes:
        name = node.path.rpartition("/")[2]
        if name not in own:
            continue
        try:
            found.append(decode(node, record_type))
        except RecordCorruptError as error:
            unreadable.append(UnreadableRecord(name, error.message))  # guard: scan-skips-what-it-cannot-read
    return PointerScan(tuple(found), tuple(unreadable))


def stable_children(coordinator: Coordinator, parent: str) -> list[Node]:
    """Return the children of a node, consistent at one moment.

    :raises CoordinationError: They changed during each of many reads.
    """
    names = coordinator.children(parent)
    for _ in range(_ATTEMPTS):
        nodes, now = _look(coordinator, parent, names)
        present = [node for node in nodes if node is not None]
        if now == names and len(present) == len(nodes):  # guard: scan-looks-once
            return present
        names = now
    raise CoordinationError(f"the children of {parent} changed during each of {_ATTEMPTS} reads", next_step="Try again")


def _look(coordinator: Coordinator, parent: str, names: list[str]) -> tuple[list[Node | None], list[str]]:
    """Return the nodes, and the names of the children after the last node was read."""
    paths = [f"{parent}/{name}" for name in names]
    seen: dict[str, Node | None] = {}
    while len(paths) > _AT_ONCE:
        window, paths = tuple(paths[:_AT_ONCE]), paths[_AT_ONCE:]
        seen.update(coordinator.read(Reads(nodes=window)).nodes)
    last = coordinator.read(Reads(nodes=tuple(paths), lists=(parent,)))
    seen.update(last.nodes)
    return [seen[f"{parent}/{name}"] for name in names], last.lists[parent]


def decode(node: Node, record_type: type[P]) -> ScannedPointer[P]:
    """Return the pointer that a node holds.

    :raises RecordCorruptError: It holds something else; names the node.
    """
    record = record_type.from_bytes(node.data, source=f"znode {node.path}")
    return ScannedPointer(node.path.rpartition("/")[2], record, node.version)


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
