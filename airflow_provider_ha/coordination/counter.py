"""Numbers that are never given out twice, kept in a node that is only ever raised.

The leader raises a counter in the same transaction that uses the number, so neither can happen without the other. The
node outlives leaders, runs and clean-ups. Nothing is remembered between calls, so a counter is as good after a
reconnect as before it (FLINK-14091).
"""

from __future__ import annotations

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SetData
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.errors import CoordinationError, RecordCorruptError


MAX_NUMBER = 2**63 - 1  # 64 bits, as Spark's batch ids have; 19 digits, as the names of pointers have


def read_counter(coordinator: Coordinator, path: str) -> int:
    """Return the highest number given out so far; 0 when none was.

    :raises RecordCorruptError: The node does not hold a number.
    """
    return counter_value(coordinator.find(path))  # guard: counter-that-is-away-begins-again


def counter_value(node: Node | None) -> int:
    """Return the number that a counter's node holds; 0 for a node that does not exist or is empty.

    :raises RecordCorruptError: It does not hold a number: guessing one would give numbers out twice.
    """
    if node is None or not node.data:
        return 0
    if not node.data.isdigit() or (value := int(node.data)) > MAX_NUMBER:
        raise RecordCorruptError(f"znode {node.path} holds {node.data[:40]!r} where a number is expected")
    return value


def counter_op(path: str, node: Node | None, value: int) -> Create | SetData:
    """Return the operation that raises a counter to *value*; it fails when another process raised it first.

    :param path: The counter's node.
    :param node: The node as it was read; ``None`` when it does not exist.
    :param value: The new number.
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
