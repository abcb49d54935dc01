"""Checks that a store works, before anything relies on it.

What matters most is the conditional create: two epochs, two submissions, two recoveries depend on it. A server
that ignores the condition is found by two creations in a row. One that looks first and writes then passes that, and
lets both win on the day of the failover; only creations at the same moment find it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from threading import Barrier
from typing import Protocol

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import ObjectExistsError, StorageError, StorageUnavailableError
from airflow_provider_ha.storage.store import ObjectStore


RACERS = 8
ROUNDS = 4

_NEXT_STEP = "Use a store that honours If-None-Match atomically, or a file:// root"


class Creates(Protocol):
    """What of a store is probed."""

    @property
    def uri(self) -> str:
        """URI of the root."""

    def create(self, key: str, data: bytes) -> None:
        """Write an object that must not exist yet."""

    def read(self, key: str) -> bytes:
        """Return the bytes of an object."""

    def delete(self, key: str) -> None:
        """Remove an object."""


def probe(store: ObjectStore) -> None:
    """Create, find again, copy and remove objects; see that of several creations exactly one wins, also at one moment.

    :raises StorageUnavailableError: With the reason and what to do.
    """
    key = f"probe/{new_id()}"
    data = key.encode()
    with _removed(store, key, f"{key}-copy"):
        store.create(key, data)
        if store.read(key) != data:
            raise StorageUnavailableError(
                f"storage {store.uri} does not return what was just written",
                next_step="Use a store that is consistent after a write; caches in between must be off",
            )
        _check_refusals(store, key)
    probe_races(store, key)


def probe_races(store: Creates, key: str) -> None:
    """See that of several creations of one key at one moment exactly one wins.

    :raises StorageUnavailableError: With the reason and what to do.
    """
    for number in range(ROUNDS):
        _check_race(store, f"{key}-race-{number}")


def _check_refusals(store: ObjectStore, key: str) -> None:
    copy = f"{key}-copy"
    store.copy(key, copy)
    for write in (lambda: store.create(key, b"second"), lambda: store.copy(key, copy, if_absent=True)):
        try:
            write()
        except ObjectExistsError:
            continue
        raise StorageUnavailableError(f"storage {store.uri} ignores conditional writes", next_step=_NEXT_STEP)


def _check_race(store: Creates, key: str) -> None:
    start = Barrier(RACERS)

    def create(racer: int) -> bool:
        start.wait()
        try:
            store.create(key, _mark(racer))
        except ObjectExistsError:
            return False
        return True

    with _removed(store, key):
        with ThreadPoolExecutor(RACERS) as pool:
            won = list(pool.map(create, range(RACERS)))
        winners = [racer for racer, is_winner in enumerate(won) if is_winner]
        if len(winners) != 1 or store.read(key) != _mark(winners[0]):
            raise StorageUnavailableError(
                f"storage {store.uri} does not write conditionally in one step:"
                f" {len(winners)} of {RACERS} simultaneous creations of one object succeeded",
                next_step=_NEXT_STEP,
            )


def _mark(racer: int) -> bytes:
    return f"racer {racer}".encode()


@contextmanager
def _removed(store: Creates, *keys: str) -> Iterator[None]:
    """Remove objects at the end, also after a failure; a removal that fails as well does not hide the reason."""
    try:
        yield
    except BaseException:
        for key in keys:
            with suppress(StorageError):
                store.delete(key)
        raise
    for key in keys:
        store.delete(key)
