"""Removal of a savepoint's manifest and of pool members that no savepoint uses.

Invariant: a member is removed only when every manifest was read and none names it, it is older than the grace period,
no process uses the pool, and our lease is valid. An unreadable manifest or lease ends the sweep before the first
removal.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_ha.checkpoints.savepoints.pool.leases import SWEEP, lease, over
from airflow_provider_ha.checkpoints.savepoints.pool.pool import Pool
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.errors import CheckpointMissingError


GRACE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class SweepResult:
    """Result of a sweep.

    :param removed: Number of removed members.
    :param size: Their size in bytes.
    :param kept: Members that a savepoint names.
    :param young: Unnamed members younger than the grace period.
    :param in_use_by: Holders that use or sweep the pool. If there are any, the sweep neither removes nor counts
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
