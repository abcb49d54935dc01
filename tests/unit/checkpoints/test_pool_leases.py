"""Leases of a pool by the store's clock: what a process that stands still, or was killed, may and may not do."""

from __future__ import annotations

import pytest

from airflow_provider_ha.checkpoints.store.savepoints.pool_sweep import SECONDS, SWEEP, USE, PoolLease, lease
from airflow_provider_ha.errors import StorageUnavailableError
from tests.fake.memory_store import MemoryStore
from tests.support.clusters.pointer_helpers import Wall


LEASES = "savepoints/_leases/"


@pytest.fixture
def wall() -> Wall:
    """The clock of the store and of every process."""
    return Wall()


@pytest.fixture
def store(wall: Wall) -> MemoryStore:
    return MemoryStore(wall)


def sweepers_see(store: MemoryStore, wall: Wall) -> list[str]:
    """Return whom a sweep would give way to now."""
    with lease(store, LEASES, SWEEP, holder="a sweeper", clock=wall) as (_, busy):
        return busy


def test_who_stood_still_until_its_lease_was_over_stops(store: MemoryStore, wall: Wall) -> None:
    with lease(store, LEASES, SWEEP, holder="me", clock=wall) as (held, _):
        held.check()
        wall.pass_by(SECONDS[SWEEP] - 60)  # one more request could still be under way when it is over

        with pytest.raises(StorageUnavailableError, match="expired"):
            held.check()


def test_who_goes_on_renews_its_lease_before_it_is_over(store: MemoryStore, wall: Wall) -> None:
    with lease(store, LEASES, USE, holder="me", clock=wall) as (held, _):
        for _ in range(3):
            wall.pass_by(SECONDS[USE] * 0.6)
            held.check()

        assert sweepers_see(store, wall) == ["me"]


def test_what_a_killed_process_held_counts_until_it_is_over(store: MemoryStore, wall: Wall) -> None:
    left = PoolLease(purpose=USE, holder="a process that was killed", seconds=SECONDS[USE])
    store.create(f"{LEASES}use-left.json", left.to_bytes())

    assert sweepers_see(store, wall) == ["a process that was killed"]
    wall.pass_by(SECONDS[USE])
    assert sweepers_see(store, wall) == []
