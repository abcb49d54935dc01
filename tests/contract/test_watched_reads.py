"""Watches that are set after the read: nothing that happens in between is missed. With a real ZooKeeper only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_ha.coordination import _kazoo_reads
from airflow_provider_ha.coordination._kazoo_reads import MANY, PendingMultiReads
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Reads, SetData
from tests.contract.clusters import Cluster


@pytest.fixture
def after_the_read(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something done between the answer of the reads and the request that sets the watches."""

    def arrange(happens: Callable[[], object]) -> None:
        class Interrupted(PendingMultiReads):
            def get(self, timeout: float) -> Any:
                seen = super().get(timeout)
                happens()
                return seen

        monkeypatch.setattr(_kazoo_reads, "PendingMultiReads", Interrupted)

    return arrange


def test_what_happens_between_read_and_watch_fires_the_watch(
    cluster: Cluster, coordinator: Coordinator, base: str, after_the_read: Callable[[Callable[[], object]], None]
) -> None:
    changed, deleted, again, new, quiet = (f"{base}/{name}" for name in ("changed", "deleted", "again", "new", "quiet"))
    coordinator.commit(Create(changed, b"1"), Create(deleted), Create(again), Create(quiet))
    other = cluster.connect()
    after_the_read(
        lambda: (
            other.commit(SetData(changed, b"2"), Delete(deleted), Delete(again), Create(new)),
            other.commit(Create(again)),
        )
    )
    moved: list[str] = []

    seen = coordinator.read(
        Reads((changed, deleted, again, new, quiet, *(f"{base}/{number}" for number in range(MANY)))),
        watch=moved.append,
    )

    cluster.eventually(lambda: sorted(moved) == sorted([changed, deleted, again, new]), "all four, once")
    assert seen.there(changed).data == b"1"
    assert seen.nodes[new] is None


def test_a_connection_that_is_lost_between_read_and_watch_leaves_none_unwatched(
    cluster: Cluster, base: str, after_the_read: Callable[[Callable[[], object]], None]
) -> None:
    cuts = iter([cluster.cut_for_a_moment])
    after_the_read(lambda: next(cuts, lambda: None)())
    moved: list[str] = []

    cluster.fragile.read(Reads((base, *(f"{base}/{number}" for number in range(MANY)))), watch=moved.append)
    moved.clear()
    cluster.connect().commit(SetData(base, b"1"))

    cluster.eventually(lambda: base in moved, "the change")
