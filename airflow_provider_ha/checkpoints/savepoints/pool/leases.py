"""The leases of users and sweeps of a pool, in the store itself, so that no ZooKeeper is needed.

Each process writes its own lease first and then looks for those of the other kind. The store shows a write in every
later listing, so of two processes that start together at least one sees the other, and gives way.

Invariant: nothing is removed while a process uses the pool, and nothing by a sweep whose lease may be over.

Whether a lease counts is decided by the store's clock alone: when it was written, and when ours was.
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
# A request that was sent while the lease counted ends before it is over: no call takes longer (storage/limits.py).
_MARGIN = 150.0


class PoolLease(Record):
    """A process is at work. The lease counts from when the store wrote it: no two hosts compare their clocks.

    :param seconds: How long it counts.
    :param purpose: ``"use"`` of members that may have no manifest yet, or ``"sweep"``.
    :param holder: Name of the process, for the operator.
    """

    kind: ClassVar[str] = "pool-lease"

    purpose: str
    holder: str
    seconds: float


class PoolLock:
    """A lease of this process; renewed by a caller that calls :meth:`check` often enough.

    :param key: Of its object.
    :param now: The store's clock when it was written.
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
        """Assert that the lease counts for as long as one more request can take; renew it when half of it is over.

        :raises StorageUnavailableError: It may be over.
        """
        begun = self._clock.lease_time()
        if begun - self._written > self._lease.seconds - _MARGIN:
            raise StorageUnavailableError(
                f"the lease {self._key} ran out: this process was paused for too long", next_step="Try again"
            )
        if begun - self._written > self._lease.seconds / 2:
            self._store.write(self._key, self._lease.to_bytes())
            self._written = begun


@contextmanager
def lease(
    store: ObjectStore, folder: str, purpose: str, *, holder: str, clock: Clock | None = None
) -> Iterator[tuple[PoolLock, list[str]]]:
    """Hold a lease while the block runs; yield it, and the holders that it has to give way to.

    :param folder: Prefix of the leases of this pool.
    :param purpose: :data:`USE` or :data:`SWEEP`; many may use, and a sweep gives way to another one as well.
    :raises RecordCorruptError: A lease cannot be read: it is unknown whether it counts.
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

    :raises StorageUnavailableError: A sweep is at work.
    """
    with lease(store, folder, USE, holder=holder, clock=clock) as (held, sweeping):
        if sweeping:
            raise StorageUnavailableError(
                f"the pool is being swept by {', '.join(sweeping)}",
                next_step="Try again in a minute; the lease of a sweep that was killed counts for a quarter of an hour",
            )
        yield held


def over(store: ObjectStore, folder: str, now: datetime) -> list[str]:
    """Return the keys of the leases that no longer count."""
    return [key for key, _, ends in _leases(store, folder) if ends <= now]


def _others(store: ObjectStore, folder: str, own: str, now: datetime) -> list[PoolLease]:
    return [found for key, found, ends in _leases(store, folder) if key != own and ends > now]


def _leases(store: ObjectStore, folder: str) -> Iterator[tuple[str, PoolLease, datetime]]:
    for item in store.list(folder):
        try:
            found = PoolLease.from_bytes(store.read(item.key), source=f"{store.uri}/{item.key}")
        except ObjectMissingError:
            continue  # its holder is done
        yield item.key, found, item.modified + timedelta(seconds=found.seconds)


def _written_at(store: ObjectStore, key: str) -> datetime:
    info = store.info(key)
    if info is None:
        raise StorageUnavailableError(
            f"the lease {key} is gone as soon as it was written", next_step="Find out what removes objects there"
        )
    return info.modified
