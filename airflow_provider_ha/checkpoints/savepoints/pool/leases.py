"""Leases of users and sweeps of a pool, kept in the store itself, so that no ZooKeeper is needed.

Each process writes its own lease first and then reads those of the other kind. The store shows a write in every later
listing, so of two processes that start together at least one sees the other and gives way.

Invariant: a sweep removes nothing while a process uses the pool, or after its own lease may have expired.

Only the store's clock decides whether a lease counts: its write time against that of the own lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.errors import ObjectMissingError, StorageError, StorageUnavailableError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.store import ObjectStore


USE, SWEEP = "use", "sweep"
SECONDS = {USE: 3600.0, SWEEP: 900.0}
# A request sent under a valid lease ends before the lease expires: no call takes longer (storage/limits.py).
_MARGIN = 150.0


class PoolLease(Record):
    """Lease of a working process, counted from the store's write time: no two hosts compare their clocks.

    :param seconds: Duration.
    :param purpose: ``"use"`` of members that may have no manifest yet, or ``"sweep"``.
    :param holder: Name of the process, for the operator.
    """

    kind: ClassVar[str] = "pool-lease"

    purpose: str
    holder: str
    seconds: float


class PoolLock:
    """A lease of this process, renewed as long as its owner calls :meth:`check` often enough.

    :param key: Key of its object.
    :param now: The store's clock when the lease was written.
    """

    def __init__(self, store: ObjectStore, key: str, lease: PoolLease, clock: Clock) -> None:
        self._store = store
        self._key = key
        self._lease = lease
        self._clock = clock
        self._written = clock.lease_time()
        store.create(key, lease.to_bytes())
        self.now = _written_at(store, key)

    def check(self) -> None:
        """Assert that the lease outlasts one more request; renew it after half of its duration.

        :raises StorageUnavailableError: It may have expired.
        """
        begun = self._clock.lease_time()
        if begun - self._written > self._lease.seconds - _MARGIN:
            raise StorageUnavailableError(
                f"lease {self._key} expired: this process was paused for too long", next_step="Try again"
            )
        if begun - self._written > self._lease.seconds / 2:
            self._store.write(self._key, self._lease.to_bytes())
            self._written = begun


@contextmanager
def lease(
    store: ObjectStore, folder: str, purpose: str, *, holder: str, clock: Clock | None = None
) -> Iterator[tuple[PoolLock, list[str]]]:
    """Hold a lease while the block runs; yield it and the holders that take precedence.

    :param folder: Prefix of the leases of this pool.
    :param purpose: :data:`USE` or :data:`SWEEP`; users share the pool, and a sweep also gives way to another sweep.
    :raises RecordCorruptError: A lease cannot be read, so its validity is unknown.
    :raises StorageUnavailableError: The store did not answer.
    """
    key = f"{folder}{purpose}-{new_id()}.json"
    record = PoolLease(purpose=purpose, holder=holder, seconds=SECONDS[purpose])
    try:
        held = PoolLock(store, key, record, clock or SystemClock())
        others = _others(store, folder, key, held.now)
        yield held, [other.holder for other in others if SWEEP in (purpose, other.purpose)]
    finally:
        with suppress(StorageError):
            store.delete(key)


@contextmanager
def using(store: ObjectStore, folder: str, *, holder: str, clock: Clock | None = None) -> Iterator[PoolLock]:
    """Hold a lease to use the pool while the block runs; raises as :func:`lease` does.

    :raises StorageUnavailableError: A sweep is running.
    """
    with lease(store, folder, USE, holder=holder, clock=clock) as (held, sweeping):
        if sweeping:
            raise StorageUnavailableError(
                f"{', '.join(sweeping)} is sweeping the pool",
                next_step="Try again in a minute; the lease of a killed sweep expires after 15 minutes",
            )
        yield held


def over(store: ObjectStore, folder: str, now: datetime) -> list[str]:
    """Return the keys of the expired leases."""
    return [key for key, _, ends in _leases(store, folder) if ends <= now]


def _others(store: ObjectStore, folder: str, own: str, now: datetime) -> list[PoolLease]:
    return [found for key, found, ends in _leases(store, folder) if key != own and ends > now]


def _leases(store: ObjectStore, folder: str) -> Iterator[tuple[str, PoolLease, datetime]]:
    for item in store.list(folder):
        try:
            found = PoolLease.from_bytes(store.read(item.key), source=f"{store.uri}/{item.key}")
        except ObjectMissingError:
            continue  # its holder has finished
        yield item.key, found, item.modified + timedelta(seconds=found.seconds)


def _written_at(store: ObjectStore, key: str) -> datetime:
    info = store.info(key)
    if info is None:
        raise StorageUnavailableError(
            f"lease {key} disappeared right after it was written",
            next_step="Find the process or lifecycle rule that removes objects there",
        )
    return info.modified
