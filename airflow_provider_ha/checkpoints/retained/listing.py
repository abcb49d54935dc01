"""Pointers as they were found: the readable ones newest first, and the others with their reason.

Invariant: a pointer that cannot be read is reported, never passed over in silence: it may be the newest (contract 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.records import Record


P = TypeVar("P", bound=Record)


@dataclass(frozen=True, slots=True)
class UnreadablePointer:
    """A pointer that is there and cannot be read.

    :param name: Name of its node: the checkpoint's digits, or the savepoint's id.
    :param reason: What is wrong with it.
    """

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Listing(Generic[P]):
    """All pointers below one node; iterating it yields those that could be read, newest first.

    :param pointers: What could be read, newest first.
    :param unreadable: What could not.
    """

    pointers: tuple[P, ...]
    unreadable: tuple[UnreadablePointer, ...]

    def __iter__(self) -> Iterator[P]:
        return iter(self.pointers)

    def __len__(self) -> int:
        return len(self.pointers)


def read_listing(
    coordinator: Coordinator, parent: str, record_type: type[P], *, newest: Callable[[P], Any]
) -> Listing[P]:
    """Read every pointer below *parent*.

    :param newest: Sort key: the greater, the newer.
    :raises CoordinationError: ZooKeeper could not be read: nothing is known about the pointers.
    """
    pointers, unreadable = [], []
    for name in coordinator.children(parent):
        node = coordinator.find(f"{parent}/{name}")
        if node is None:
            continue  # removed since the names were read
        try:
            pointers.append(record_type.from_bytes(node.data, source=f"znode {node.path}"))
        except RecordCorruptError as error:
            unreadable.append(UnreadablePointer(name, error.message))
    return Listing(tuple(sorted(pointers, key=newest, reverse=True)), tuple(unreadable))
