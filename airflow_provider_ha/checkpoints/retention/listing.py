"""Pointers as they were found: the readable ones newest first, and the others with their reason.

Invariant: a pointer that cannot be read is reported, never passed over in silence: it may be the newest (contract 6).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from airflow_provider_ha.pointers.scan import Unreadable
from airflow_provider_ha.pointers.store import PointerStore
from airflow_provider_ha.records import Record


P = TypeVar("P", bound=Record)

UnreadablePointer = Unreadable


@dataclass(frozen=True, slots=True)
class Listing(Generic[P]):
    """Pointers below a node; iterates over the readable ones, newest first.

    :param pointers: Readable pointers, newest first.
    :param unreadable: Unreadable pointers.
    """

    pointers: tuple[P, ...]
    unreadable: tuple[Unreadable, ...]

    def __iter__(self) -> Iterator[P]:
        return iter(self.pointers)

    def __len__(self) -> int:
        return len(self.pointers)


def read_listing(pointers: PointerStore[P], *, newest: Callable[[P], Any]) -> Listing[P]:
    """Read all pointers, consistent at one moment.

    :param newest: Sort key: the greater, the newer.
    :raises CoordinationError: ZooKeeper could not be read.
    """
    seen = pointers.scan()
    return Listing(tuple(sorted((item.record for item in seen.found), key=newest, reverse=True)), seen.unreadable)
