"""Removal of unused members of a pool, and the leases that keep users and sweeps apart.

Invariant: a member is removed only when every manifest was read and none names it, it is older than the grace period,
no process uses the pool, and our lease is valid. An unreadable manifest or lease ends the sweep before the first
removal.

Each process writes its own lease first and then reads those of the other kind. The store shows a write in every later
listing, so of two processes that start together at least one sees the other and gives way.

Invariant: a sweep removes nothing while a process uses the pool, or after its own lease may have expired.

Only the store's clock decides whether a lease counts: its write time against that of the own lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from airflow_provider_ha.checkpoints.store.savepoints.pool import Pool
from airflow_provider_ha.clock import Clock, SystemClock, new_id
from airflow_provider_ha.errors import CheckpointMissingError, ObjectMissingError, StorageError, StorageUnavailableError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.object_store import ObjectStore


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


GRACE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Result of a sweep.

    :param removed: Files that are gone.
    :param size: Size in bytes.
    :param kept: Files that a savepoint names.
    :param young: Files that no savepoint names, and that are younger than the grace.
    :param in_use_by: Holders that use or sweep the pool. While there are any, the sweep neither removes nor counts
        objects.
    """

    removed: int = 0
    size: int = 0
    kept: int = 0
    young: int = 0
    in_use_by: tuple[str, ...] = ()


def sweep(pool: Pool, *, holder: str, grace: timedelta = GRACE, clock: Clock | None = None) -> SweepResult:
    """Remove every pool member that no manifest names.

    :param grace: Minimum age of a removed member, by the store's clock.
    :raises CheckpointCorruptError: A manifest is damaged; nothing was removed.
    :raises RecordCorruptError: A lease is damaged; nothing was removed.
    :raises StorageUnavailableError: A read or a removal failed.
    """
    with lease(pool.store, pool.leases, SWEEP, holder=holder, clock=clock) as (held, busy):
        if busy:
            return SweepResult(in_use_by=tuple(busy))
        # The pool before the manifests: a member named in between is then seen as named.
        members = list(pool.store.list(pool.members))
        named = set(_named(pool))  # guard: sweep-takes-what-a-manifest-names
        needless = [item for item in members if item.key.removeprefix(pool.members) not in named]
        old = [item for item in needless if item.modified <= held.now - grace]
        for item in old:
            held.check()
            pool.store.delete(item.key)
        for key in over(pool.store, pool.leases, held.now):
            pool.store.delete(key)
    return SweepResult(
        removed=len(old),
        size=sum(item.size for item in old),
        kept=len(members) - len(needless),
        young=len(needless) - len(old),
    )


def _named(pool: Pool) -> Iterator[str]:
    for name in pool.names():
        # guard: sweep-passes-over-what-it-cannot-read
        with suppress(CheckpointMissingError):  # disposed of since the listing: it names no member now
            yield from (file.member for file in pool.read(name).files.values())


def dispose(pool: Pool, name: str, *, holder: str, grace: timedelta = GRACE, clock: Clock | None = None) -> SweepResult:
    """Remove a savepoint permanently, then the members that no other savepoint names.

    :raises CheckpointMissingError: The savepoint does not exist.
    """
    key = pool.manifest_key(name)
    if pool.store.info(key) is None:
        raise CheckpointMissingError(
            f"savepoint {pool.uri(name)} does not exist", next_step="A savepoint that never completed has no manifest"
        )
    pool.store.delete(key)
    return sweep(pool, holder=holder, grace=grace, clock=clock)
