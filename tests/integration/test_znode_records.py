"""Records, counters and readers' leases in ZooKeeper."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, ClassVar

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.reader_leases import active, hold
from airflow_provider_ha.coordination.znode_records import (
    MAX_NUMBER,
    counter_op,
    create_once,
    read_counter,
    read_record,
)
from airflow_provider_ha.errors import CoordinationError, NodeExistsError, RecordCorruptError, VersionConflictError
from airflow_provider_ha.records import Record
from airflow_provider_ha.testing.proxy import FaultProxy
from tests.support.clusters.coordination_helpers import HeldClock, session_through


class Note(Record):
    kind: ClassVar[str] = "note"

    writer: str


@pytest.fixture
def paths(cluster_paths: ClusterPaths, coordinator: KazooCoordinator) -> JobPaths:
    job = cluster_paths.job("flights")
    coordinator.ensure(*job.skeleton)
    return job


def test_a_record_comes_back_with_the_version_of_its_node(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    assert read_record(coordinator, paths.status, Note) is None

    create_once(coordinator, paths.status, Note(writer="a"))
    coordinator.commit(SetData(paths.status, Note(writer="b").to_bytes()))

    assert read_record(coordinator, paths.status, Note) == (Note(writer="b"), 1)


def test_a_bad_record_names_its_node(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    coordinator.commit(Create(paths.status, b"{}"))

    with pytest.raises(RecordCorruptError, match=f"znode {paths.status}"):
        read_record(coordinator, paths.status, Note)


def test_only_the_first_creator_is_told_so(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    first = create_once(coordinator, paths.recovery(1), Note(writer="a"))
    second = create_once(coordinator, paths.recovery(1), Note(writer="b"))

    assert (first, second) == (True, False)
    assert read_record(coordinator, paths.recovery(1), Note) == (Note(writer="a"), 0)


@pytest.mark.parametrize("moment", ["cut_before_transaction", "cut_after_transaction"])
def test_a_creator_whose_answer_was_lost_recognises_its_own_record(
    config: HaConfig, paths: JobPaths, moment: str
) -> None:
    """Fails without comparing the bytes: "exists" would be taken for another's (FLINK-24543)."""
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        getattr(proxy, moment)(containing=paths.recovery(1))

        assert create_once(session, paths.recovery(1), Note(writer="a"))

        assert proxy.hit.is_set()
        session.close()


def test_a_counter_is_raised_by_one_writer_at_a_time(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    counter = paths.checkpoint_id_counter
    assert read_counter(coordinator, counter) == 0
    coordinator.commit(counter_op(counter, None, 1))
    node = coordinator.get(counter)
    coordinator.commit(counter_op(counter, node, 2))

    with pytest.raises(VersionConflictError):
        coordinator.commit(counter_op(counter, node, 2))

    assert read_counter(coordinator, counter) == 2


def test_a_counter_never_goes_back(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    coordinator.commit(Create(paths.checkpoint_id_counter, b"7"))

    with pytest.raises(ValueError, match="is at 7"):
        counter_op(paths.checkpoint_id_counter, coordinator.get(paths.checkpoint_id_counter), 7)


def test_a_counter_that_is_no_number_is_not_guessed(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    coordinator.commit(Create(paths.checkpoint_id_counter, b"seven"))

    with pytest.raises(RecordCorruptError, match="b'seven'"):
        read_counter(coordinator, paths.checkpoint_id_counter)


def test_a_lease_protects_until_it_is_released(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    lease = hold(coordinator, paths, "checkpoint-1", holder="restore", seconds=60, clock=SystemClock())
    held = [item.holder for item in active(coordinator, paths, "checkpoint-1", SystemClock())]

    lease.release()
    lease.release()

    assert held == ["restore"]
    assert active(coordinator, paths, "checkpoint-1", SystemClock()) == []


def test_a_lease_that_is_renewed_between_listing_and_reading_still_counts(
    coordinator: KazooCoordinator, paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The listing holds the old lease, which is gone when it is read, and not yet the new one."""
    first = hold(coordinator, paths, "checkpoint-1", holder="restore", seconds=60, clock=SystemClock())
    children = coordinator.children

    def renewed_after_the_listing(path: str, **options: Any) -> list[str]:
        names = children(path, **options)
        monkeypatch.setattr(coordinator, "children", children)
        hold(coordinator, paths, "checkpoint-1", holder="restore", seconds=60, clock=SystemClock())
        first.release()
        return names

    monkeypatch.setattr(coordinator, "children", renewed_after_the_listing)

    assert [item.holder for item in active(coordinator, paths, "checkpoint-1", SystemClock())] == ["restore"]


def test_a_lease_outlives_its_session_and_ends_by_its_expiry(
    config: HaConfig, coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    reader, clock = KazooCoordinator.connect(config), HeldClock()
    hold(reader, paths, "checkpoint-1", holder="copy", seconds=60, clock=clock)
    reader.close()
    later = HeldClock()
    later.now = lambda: clock.now() + timedelta(seconds=61)  # type: ignore[method-assign]  # the clock of another day

    assert [item.holder for item in active(coordinator, paths, "checkpoint-1", clock)] == ["copy"]
    assert active(coordinator, paths, "checkpoint-1", later) == []


def test_a_counter_ends_with_64_bits(coordinator: KazooCoordinator, paths: JobPaths) -> None:
    """[I4] Fails without the bound: Spark's batch ids and the names of pointers have no room for more."""
    counter = paths.checkpoint_id_counter
    coordinator.commit(counter_op(counter, None, MAX_NUMBER))
    node = coordinator.get(counter)

    with pytest.raises(CoordinationError, match="ends at 9223372036854775807"):
        counter_op(counter, node, MAX_NUMBER + 1)

    coordinator.commit(SetData(counter, str(MAX_NUMBER + 1).encode()))
    with pytest.raises(RecordCorruptError):
        read_counter(coordinator, counter)


def test_a_counter_raised_by_many_at_once_gives_each_number_out_once(
    coordinator: KazooCoordinator, paths: JobPaths
) -> None:
    """[I1] Fails without the version in the operation."""
    counter = paths.checkpoint_id_counter
    given: list[int] = []

    def take() -> None:
        while len(given) < 20:
            node = coordinator.find(counter)
            number = read_counter(coordinator, counter) + 1
            try:
                coordinator.commit(counter_op(counter, node, number))
            except (NodeExistsError, VersionConflictError, ValueError):
                continue
            given.append(number)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(given) == list(range(1, len(given) + 1))
