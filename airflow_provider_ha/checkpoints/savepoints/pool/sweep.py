"""Removing what no savepoint names: a savepoint by its manifest, then the members of the pool that none needs.

Invariant: a member is removed only when every manifest was read and none names it, it is older than the grace, no
process uses the pool, and our lease counts. A manifest or a lease that cannot be read ends the sweep before anything is
gone.
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
    """The result of a sweep.

    :param removed: Members that are gone.
    :param size: Size in bytes.
    :param kept: Members that a savepoint names.
    :param young: Members that no savepoint names, and that are younger than the grace.
    :param in_use_by: Holders that use or sweep the pool. While there are any, the sweep neither removes nor counts
        objects.
    """

    removed: int = 0
    size: int = 0
    kept: int = 0
    young: int = 0
    in_use_by: tuple[str, ...] = ()


def sweep(pool: Pool, *, holder: str, grace: timedelta = GRACE, clock: Clock | None = None) -> SweepResult:
    """Remove every member of the pool that no manifest names.

    :param grace: How old a member must be, by the store's clock.
    :raises CheckpointCorruptError: A manifest is not what was written; nothing was removed.
    :raises RecordCorruptError: A lease is not; nothing was removed.
    :raises StorageUnavailableError: Something could not be read, or removed.
    """
    with lease(pool.store, pool.leases, SWEEP, holder=holder, clock=clock) as (held, busy):
        if busy:
            return SweepResult(in_use_by=tuple(busy))
        # The pool before the manifests: what is named in between is seen to be named.
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
        with suppress(CheckpointMissingError):  # disposed of since it was listed: it names nothing any more
            yield from (file.member for file in pool.read(name).files.values())


def dispose(pool: Pool, name: str, *, holder: str, grace: timedelta = GRACE, clock: Clock | None = None) -> SweepResult:
    """Remove a savepoint for good, and then what no other one names; others are never harmed.

    :raises CheckpointMissingError: There is no such savepoint.
    """
    key = pool.manifest_key(name)
    if pool.store.info(key) is None:
        raise CheckpointMissingError(
            f"there is no savepoint {pool.uri(name)}", next_step="One that was never completed has no manifest"
        )
    pool.store.delete(key)
    return sweep(pool, holder=holder, grace=grace, clock=clock)
