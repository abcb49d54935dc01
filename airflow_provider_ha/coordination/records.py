"""Records in ZooKeeper: read them with their version, create them exactly once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.errors import NodeExistsError, OutcomeUnknownError
from airflow_provider_ha.records import Record


R = TypeVar("R", bound=Record)

_ATTEMPTS = 3


def read_record(
    coordinator: Coordinator, path: str, record_type: type[R], *, watch: Callable[[], None] | None = None
) -> tuple[R, int] | None:
    """Read a record.

    :param coordinator: The session.
    :param path: Its node.
    :param record_type: Expected type.
    :param watch: Called once when the node may have changed or been created.
    :returns: The record and the version of its node; ``None`` when the node does not exist.
    :raises RecordCorruptError: The node holds other data; the message names the node.
    """
    node = coordinator.find(path, watch=watch)
    if node is None:
        return None
    return record_type.from_bytes(node.data, source=f"znode {path}"), node.version


def create_once(coordinator: Coordinator, path: str, record: Record) -> bool:
    """Create a record under a name that only one process can take.

    When the answer is lost, the node is read back and compared by its bytes: a retried create that finds "exists" says
    nothing about whose it is (FLINK-24543 took its own committed entry for a foreign one and deleted its data). So a
    record should hold something that only its writer has, an id or a time.

    :returns: True when this very call created it, False when it existed.
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
