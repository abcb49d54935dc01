"""Records, counters and epochs in znodes: a record is created exactly once, a counter or an epoch only raised.

The leader raises a counter in the same transaction that uses the number, so neither can happen without the other. The
node outlives leaders, runs and clean-ups. Values are never cached between calls, so a counter is correct after a
reconnect too (FLINK-14091).

Invariant: an epoch only grows. It is the version of a node and grows in steps of 1, which are sent together, so other
processes never see an intermediate epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Node, Op, SetData
from airflow_provider_ha.coordination.paths import Lock
from airflow_provider_ha.errors import CoordinationError, NodeExistsError, OutcomeUnknownError, RecordCorruptError
from airflow_provider_ha.records import Record


MAX_NUMBER = 2**63 - 1  # 64 bits, as Spark's batch ids have; 19 digits, as the names of pointers have


def read_counter(coordinator: Coordinator, path: str) -> int:
    """Return the highest number assigned so far; 0 before the first.

    :raises RecordCorruptError: The node does not hold a number.
    """
    return counter_value(coordinator.find(path))  # guard: counter-that-is-away-begins-again


def counter_value(node: Node | None) -> int:
    """Return the number in a counter's node; 0 for a node that does not exist or is empty.

    :raises RecordCorruptError: The node holds no number; a guess could assign a number twice.
    """
    if node is None or not node.data:
        return 0
    if not node.data.isdigit() or (value := int(node.data)) > MAX_NUMBER:
        raise RecordCorruptError(f"znode {node.path} holds {node.data[:40]!r} where a number is expected")
    return value


def counter_op(path: str, node: Node | None, value: int) -> Create | SetData:
    """Return the operation that raises a counter to *value*; it fails if another process raised the counter first.

    :param path: Node of the counter.
    :param node: Node as it was read; ``None`` if it does not exist.
    :param value: New number.
    :raises ValueError: *value* is not above the current number.
    :raises CoordinationError: *value* needs more than 64 bits.
    """
    if value <= counter_value(node):  # guard: counter-can-be-lowered
        raise ValueError(f"counter {path} is at {counter_value(node)} and cannot be set to {value}")
    if value > MAX_NUMBER:
        raise CoordinationError(f"counter {path} cannot be raised to {value}: it ends at {MAX_NUMBER}")
    data = str(value).encode()
    # guard: counter-is-raised-unconditionally
    return Create(path, data) if node is None else SetData(path, data, node.version)


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


R = TypeVar("R", bound=Record)

_ATTEMPTS = 3


def read_record(
    coordinator: Coordinator, path: str, record_type: type[R], *, watch: Callable[[], None] | None = None
) -> tuple[R, int] | None:
    """Read a record.

    :param coordinator: Session.
    :param path: Path of the node.
    :param record_type: Expected type.
    :param watch: Called once when the node may have changed or been created.
    :returns: The record and the version of its node; ``None`` if the node does not exist.
    :raises RecordCorruptError: The node holds other data; the message names the node.
    """
    node = coordinator.find(path, watch=watch)
    if node is None:
        return None
    return record_type.from_bytes(node.data, source=f"znode {path}"), node.version


def create_once(coordinator: Coordinator, path: str, record: Record) -> bool:
    """Create a record under a name that only one process can take.

    When the answer is lost, the node is read back and compared by its bytes: a retried create that finds "exists" does
    not show whose record it is (FLINK-24543 took its own committed entry for a foreign one and deleted its data). So a
    record should hold a value that only its writer has, an id or a time.

    :returns: True if this call created the record, False if it existed.
    :raises NodeMissingError: The parent does not exist.
    :raises OutcomeUnknownError: Still no answer after some attempts.
    """
    data = record.to_bytes()
    unsure: OutcomeUnknownError | None = None
    for _ in range(_ATTEMPTS):
        try:
            coordinator.commit(Create(path, data))
        except NodeExistsError:  # noqa: PERF203  # a retry is a try in a loop
            return unsure is not None and _holds(coordinator, path, data)
        except OutcomeUnknownError as error:
            unsure = error
        else:
            return True
    raise unsure or OutcomeUnknownError(f"znode {path} could not be created")


def _holds(coordinator: Coordinator, path: str, data: bytes) -> bool:
    node = coordinator.find(path)
    return node is not None and node.data == data
