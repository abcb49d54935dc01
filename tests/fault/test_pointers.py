"""Checkpoints that are added and removed while the connection breaks at the worst moment, on a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, SetData
from airflow_provider_ha.coordination.znode_records import counter_op, read_counter
from airflow_provider_ha.errors import LeadershipError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.storage.local_store import LocalStore
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.coordination_helpers import ignore, job_paths, lead, session_through
from tests.support.clusters.pointer_helpers import Pointers


@pytest.fixture
def proxy(config: HaConfig) -> Iterator[FaultProxy]:
    with FaultProxy(config.zookeeper) as proxy:
        yield proxy


@pytest.fixture
def fragile(config: HaConfig, proxy: FaultProxy) -> Iterator[KazooCoordinator]:
    session = session_through(config, proxy.hosts)
    yield session
    session.close()


@pytest.fixture
def pointers(config: HaConfig, fragile: KazooCoordinator, tmp_path: Path) -> Iterator[Pointers]:
    """A job that is led through the proxy."""
    paths = job_paths(config)
    fragile.ensure(*paths.skeleton)
    with lead(config, fragile) as leadership:
        leadership.start_heartbeats(ignore)
        yield Pointers(fragile, leadership, LocalStore(tmp_path / "objects"), paths, tmp_path / "work")


@pytest.fixture
def job(config: HaConfig, fragile: KazooCoordinator) -> Iterator[Job]:
    """A job with checkpoints that is led through the proxy."""
    with led_job(config, fragile) as led:
        yield led


def test_an_answer_that_is_lost_after_the_write_costs_nothing(pointers: Pointers, proxy: FaultProxy) -> None:
    """[FLINK-22494] The transaction was applied. Fails when a lost answer discards the payload."""
    proxy.cut_after_transaction(containing=f"{pointers.paths.checkpoints}/1")

    pointers.add("1", b"state")

    assert proxy.hit.is_set()
    assert pointers.store().payload(pointers.found("1").record) == b"state"


def test_a_cut_before_the_write_is_tried_again_with_the_same_payload(pointers: Pointers, proxy: FaultProxy) -> None:
    """The outcome was unknown, so nothing was discarded; the same call then finishes."""
    proxy.cut_before_transaction(containing=f"{pointers.paths.checkpoints}/1")

    with pytest.raises(OutcomeUnknownError):
        pointers.add("1", b"state")
    kept = pointers.payloads()
    pointers.add("1", b"state")

    assert proxy.hit.is_set()
    assert kept == ["1.json"]
    assert pointers.store().payload(pointers.found("1").record) == b"state"


@pytest.mark.parametrize("moment", ["cut_before_transaction", "cut_after_transaction"])
def test_a_mark_is_applied_as_a_whole_or_not_at_all(pointers: Pointers, proxy: FaultProxy, moment: str) -> None:
    """Fails when the pointer and the entry are not one transaction."""
    pointers.add("1")
    pointers.pin()
    getattr(proxy, moment)(containing=f"{pointers.paths.checkpoints}/1")

    if moment == "cut_before_transaction":
        with pytest.raises(OutcomeUnknownError):
            pointers.mark("1")
        assert (pointers.names(), pointers.entries()) == (["1"], [])
        pointers.mark("1")
    else:
        pointers.mark("1")

    assert proxy.hit.is_set()
    assert (pointers.names(), len(pointers.entries())) == ([], 1)


def test_a_replacement_that_lost_its_answer_keeps_the_new_payload(pointers: Pointers, proxy: FaultProxy) -> None:
    pointers.add("1", b"old")
    proxy.cut_after_transaction(containing=f"{pointers.paths.checkpoints}/1")

    pointers.store().replace(pointers.leadership.commit, pointers.found("1"), pointers.note(b"new", "b"), b"new")

    assert proxy.hit.is_set()
    assert pointers.store().payload(pointers.found("1").record) == b"new"
    assert pointers.payloads() == ["1.json", "b.json"]


def test_a_checkpoint_is_added_again_although_its_counter_was_raised_already(job: Job, proxy: FaultProxy) -> None:
    """The first call was applied, and it could not even read that back. Fails when the counter is looked at first."""
    made = job.checkpoint(1, 7)
    proxy.cut_after_transaction(containing=job.paths.checkpoint(1))
    pointer = job.checkpoints.add(job.leadership, made)

    assert job.checkpoints.add(job.leadership, made) == pointer
    assert (read_counter(job.coordinator, job.paths.checkpoint_id_counter), proxy.hit.is_set()) == (1, True)


def test_a_counter_is_usable_again_after_a_reconnect(fragile: KazooCoordinator, config: HaConfig) -> None:
    """[I2, FLINK-14091] Flink's counter stayed suspended, and no checkpoint was taken any more."""
    paths = job_paths(config)
    fragile.ensure(paths.base)
    fragile.commit(counter_op(paths.checkpoint_id_counter, None, 1))
    fragile.drop_connection()
    wait_until(lambda: fragile.state.value == "connected", timeout=5, what="the reconnect")

    fragile.commit(counter_op(paths.checkpoint_id_counter, fragile.find(paths.checkpoint_id_counter), 2))

    assert read_counter(fragile, paths.checkpoint_id_counter) == 2


def test_a_counter_that_cannot_be_read_is_no_counter_that_begins_again(
    fragile: KazooCoordinator, config: HaConfig, proxy: FaultProxy
) -> None:
    paths = job_paths(config)
    fragile.ensure(paths.base)
    fragile.commit(counter_op(paths.checkpoint_id_counter, None, 7))
    proxy.cut()

    with pytest.raises(NotConnectedError):
        read_counter(fragile, paths.checkpoint_id_counter)

    proxy.heal()
    wait_until(lambda: fragile.state.value == "connected", timeout=10, what="the reconnect")
    assert read_counter(fragile, paths.checkpoint_id_counter) == 7


def test_numbers_never_repeat_over_leaders_and_clean_ups(config: HaConfig, coordinator: Coordinator) -> None:
    """[I1, I3] Two leaders, each of which removes everything at the end of its run."""
    given: list[int] = []
    for _ in range(2):
        with led_job(config, coordinator) as job:
            for _ in range(3):
                number = job.checkpoints.next_number()
                job.add(number, number)
                given.append(number)
            job.checkpoints.shutdown(job.leadership, terminal=True, retained=False)
            assert job.coordinator.children(job.paths.checkpoints) == []

    assert given == [1, 2, 3, 4, 5, 6]


def test_a_deposed_leader_with_an_old_number_hears_of_it(config: HaConfig, coordinator: Coordinator) -> None:
    """The new leader has gone on counting. Fails when only the number is complained about."""
    with led_job(config, coordinator) as job:
        job.add(1, 1)
        epoch = job.coordinator.get(job.paths.epoch)
        job.coordinator.commit(
            SetData(job.paths.epoch, b"another leader", epoch.version), SetData(job.paths.checkpoint_id_counter, b"5")
        )

        with pytest.raises(LeadershipError):
            job.checkpoints.add(job.leadership, job.checkpoint(2, 9))

        assert [payload.number for payload in job.checkpoints.payloads()] == [1]


def test_a_session_that_ended_blocks_no_removal(
    pointers: Pointers, proxy: FaultProxy, coordinator: Coordinator, config: HaConfig
) -> None:
    """[FLINK-10011, FLINK-10329] The leader is cut off with its session alive; the next one removes what it marked."""
    pointers.add("1")
    pin = pointers.pin()
    entry = pointers.mark("1")
    proxy.black_hole()

    with lead(config, coordinator, timeout=20.0) as successor:
        remover = pointers.remover(coordinator)
        assert remover.work_off(successor.commit, job_id=pointers.paths.job_id).done == (entry,)

    assert not pin.exists()
    proxy.heal()
