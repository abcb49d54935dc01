"""ZooKeeper loses its data, and the cluster's tree is made again from storage alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.store.payload_history import PayloadHistory
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, SessionState, SetData
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import FencedError, JobStateError, StorageUnavailableError
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.rebuild import rebuild as rebuild_module
from airflow_provider_ha.jobs.rebuild.rebuild import RebuildPlan, RebuildResult, plan_rebuild, rebuild
from airflow_provider_ha.jobs.recovery import transactions
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from airflow_provider_ha.storage.open_storage import open_store
from tests.conftest import FAST
from tests.support.clusters.rebuild_helpers import Driver, drive, job, submit


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    """A separate ZooKeeper, whose data can be lost."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper", tick_ms=200) as running:
        yield running


@pytest.fixture
def own(server: EmbeddedZooKeeper, tmp_path: Path) -> HaConfig:
    """The cluster on that ZooKeeper."""
    return HaConfig.build(zookeeper=server.hosts, storage_root=f"file://{tmp_path}/storage", timings=FAST)


def lose_everything(server: EmbeddedZooKeeper) -> None:
    """Kill ZooKeeper, remove its data, and start an empty one in its place."""
    server.kill()
    shutil.rmtree(server.data_dir)
    server.start()


def wipe(config: HaConfig, coordinator: Coordinator) -> None:
    """Remove every node of the cluster: what an empty ensemble looks like, without the seconds that one takes."""
    tree = read_tree(coordinator, ClusterPaths(config.root, config.cluster_id).base)
    for node in reversed(list(walk(tree)) if tree else []):
        coordinator.commit(Delete(node.path))


def plan(config: HaConfig, coordinator: Coordinator) -> RebuildPlan:
    return plan_rebuild(config, open_store(config), coordinator)


def rebuilt(config: HaConfig, coordinator: Coordinator, *, missing_only: bool = False) -> tuple[RebuildResult, ...]:
    return rebuild(config, coordinator, plan(config, coordinator), missing_only=missing_only)


# What is not made again: who led, how it stood, what was asked and by whom, and why processes ended.
NOT_REBUILT = {"leader", "heartbeat", "status", "exit"}


def content(config: HaConfig, coordinator: Coordinator) -> dict[str, bytes]:
    """Return path -> bytes of what a rebuild promises to restore."""
    base = ClusterPaths(config.root, config.cluster_id).base
    tree = read_tree(coordinator, base)
    found = {node.path: coordinator.get(node.path).data for node in walk(tree)} if tree else {}
    return {path: data for path, data in found.items() if path.rpartition("/")[2] not in NOT_REBUILT | {"epoch"}}


def finished_job(config: HaConfig, coordinator: Coordinator, directory: Path) -> None:
    """A job that was run twice: the first run failed, the second finished."""
    context = job(config, coordinator, "finished")
    first = drive(context, submit(context, directory, "first"))
    first.checkpoint(1)
    first.end(JobState.FAILED)
    second = drive(context, submit(context, directory, "second"))
    second.checkpoint(2)
    second.savepoint("before-upgrade")
    second.end(JobState.FINISHED)


def running_job(config: HaConfig, coordinator: Coordinator, directory: Path) -> Driver:
    """A job whose driver is at work."""
    context = job(config, coordinator, "running")
    driver = drive(context, submit(context, directory))
    for batch in range(3):
        driver.checkpoint(batch)
    return driver


def canceled_job(config: HaConfig, coordinator: Coordinator, directory: Path) -> None:
    """A job that was cancelled before a driver came up."""
    context = job(config, coordinator, "canceled")
    submit(context, directory)
    transactions.conclude(context, JobState.CANCELED, reason="not wanted", by="test")


def waiting_job(config: HaConfig, coordinator: Coordinator, directory: Path) -> None:
    """A job whose driver never came up."""
    submit(job(config, coordinator, "waiting"), directory)


def test_the_tree_of_every_job_comes_back(own: HaConfig, server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    before = KazooCoordinator.connect(own)
    finished_job(own, before, tmp_path)
    driver = running_job(own, before, tmp_path)
    canceled_job(own, before, tmp_path)
    waiting_job(own, before, tmp_path)
    expected, epoch = content(own, before), driver.leadership.epoch

    lose_everything(server)
    after = KazooCoordinator.connect(own)
    applied = rebuilt(own, after)

    assert {done.job_id for done in applied if not done.refused} == {"finished", "running", "canceled", "waiting"}
    assert content(own, after) == expected
    states = {name: job(own, after, name).snapshot().state for name in ("finished", "running", "canceled", "waiting")}
    assert states == {
        "finished": JobState.FINISHED,
        "running": JobState.LOST,
        "canceled": JobState.CANCELED,
        "waiting": JobState.LOST,
    }
    assert job(own, after, "running").snapshot().epoch > epoch
    with pytest.raises(JobStateError, match="never run again"):
        recover(job(own, after, "finished"), by="test")
    assert recover(job(own, after, "running"), by="test").attempt == 2
    # Its client has seen a later transaction than the new ensemble ever made: no member accepts it again (docs).
    assert before.state is not SessionState.CONNECTED
    for session in (before, after):
        session.close()


def test_a_leader_of_before_is_fenced(own: HaConfig, server: EmbeddedZooKeeper, tmp_path: Path) -> None:
    """Its own session is gone for good; what it had queued could be sent again under a new one."""
    before = KazooCoordinator.connect(own)
    stale = running_job(own, before, tmp_path)
    lose_everything(server)
    after = KazooCoordinator.connect(own)
    rebuilt(own, after)
    fresh = drive(job(own, after, "running"), 1)
    assert after.session is not None
    replayed = Leadership(
        after,
        stale.context.paths,
        epoch=stale.leadership.epoch,
        session_id=after.session.session_id,
        information=b"",
        granted_at=SystemClock().lease_time(),
        timings=own.timings,
        clock=SystemClock(),
    )

    with pytest.raises(FencedError):
        replayed.commit(SetData(stale.context.paths.generation, b"mine"))

    assert fresh.leadership.epoch > stale.leadership.epoch
    for session in (before, after):
        session.close()


def test_an_epoch_that_left_no_trace_does_not_come_again(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """Fails with a margin of one: leaders that die before they write anything are invisible in storage."""
    context = job(config, coordinator, "running")
    run = submit(context, tmp_path)
    drive(context, run).leadership.release()
    for _ in range(3):
        last = transactions.take_lock(context, run)
        last.release()

    wipe(config, coordinator)
    rebuilt(config, coordinator)

    assert drive(job(config, coordinator, "running"), run).leadership.epoch > last.epoch


def test_the_counter_goes_on_above_every_number_that_was_given_out(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    driver = running_job(config, coordinator, tmp_path)
    driver.checkpoints.retain(driver.leadership, 1)

    wipe(config, coordinator)
    rebuilt(config, coordinator)

    again = drive(job(config, coordinator, "running"), 1)
    assert [pointer.number for pointer in again.checkpoints.list()] == [3]
    assert coordinator.get(again.context.paths.checkpoint_id_counter).data == b"3"
    assert again.checkpoint(9) == 4


def test_a_payload_without_its_pin_is_no_checkpoint_any_more(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """It stays for exact replay; a restore from it would find no files."""
    driver = running_job(config, coordinator, tmp_path)
    shutil.rmtree(config.work_path / driver.context.keys.pin(2, driver.leadership.epoch))

    (found,) = plan(config, coordinator).jobs

    assert found.checkpoints == (1, 3)
    assert found.counter == 3
    driver.leadership.release()


def test_runs_epochs_and_numbers_that_only_an_archive_tells_of_are_not_given_out_again(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    driver = running_job(config, coordinator, tmp_path)
    history = PayloadHistory(driver.context.store, driver.context.keys)
    old = [driver.payload(number, number, None).model_copy(update={"run": 7, "epoch": 90}) for number in (50, 51)]
    history.archive(old)

    (found,) = plan(config, coordinator).jobs

    assert (found.highest_epoch, found.counter, found.checkpoints) == (90, 51, (1, 2, 3))
    assert found.states[7] is JobState.FAILED
    driver.leadership.release()


def test_a_dry_run_changes_nothing_and_names_every_node(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    running_job(config, coordinator, tmp_path)
    wipe(config, coordinator)

    planned = plan(config, coordinator)

    base = ClusterPaths(config.root, config.cluster_id).base
    assert coordinator.children(base) == []
    (applied,) = rebuild(config, coordinator, planned)
    assert set(applied.created) == set(planned.missing["running"])


def test_a_cluster_that_is_not_empty_is_refused(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> None:
    waiting_job(config, coordinator, tmp_path)

    with pytest.raises(JobStateError, match="not empty") as caught:
        rebuilt(config, coordinator)

    assert "--missing" in caught.value.next_step


def test_only_missing_nodes_are_created_and_none_is_overwritten(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    finished_job(config, coordinator, tmp_path)
    context = job(config, coordinator, "finished")
    changed = RunResult(state=JobState.FINISHED, cleanup="CLEAN", epoch=2, at=context.clock.now()).to_bytes()
    coordinator.commit(SetData(context.paths.run_result(2), changed), Delete(context.paths.checkpoint(2)))
    epoch = coordinator.get(context.paths.epoch)

    (applied,) = rebuilt(config, coordinator, missing_only=True)

    assert applied.created == (context.paths.checkpoint(2),)
    assert applied.kept == (context.paths.run_result(2),)
    assert coordinator.get(context.paths.run_result(2)).data == changed
    assert coordinator.get(context.paths.epoch) == epoch
    assert coordinator.find(context.paths.job_graph) is None


def test_a_job_that_somebody_leads_is_left_alone_and_the_others_are_made(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    driver = running_job(config, coordinator, tmp_path)
    coordinator.commit(Delete(driver.context.paths.checkpoint(1)))
    canceled_job(config, coordinator, tmp_path)
    coordinator.commit(Delete(job(config, coordinator, "canceled").paths.run_result(1)))

    canceled, running = rebuilt(config, coordinator, missing_only=True)

    assert "has a leader" in running.refused
    assert not running.created
    assert canceled.created == (job(config, coordinator, "canceled").paths.run_result(1),)
    driver.leadership.release()


def test_a_rebuild_that_was_cut_off_is_finished_by_the_next(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    running_job(config, coordinator, tmp_path)
    expected = content(config, coordinator)
    wipe(config, coordinator)
    rebuilt(config, coordinator)
    paths = job(config, coordinator, "running").paths
    epoch = coordinator.get(paths.epoch).version
    coordinator.commit(Delete(paths.job_graph), Delete(paths.generation))  # as if it had ended before these

    rebuilt(config, coordinator, missing_only=True)

    assert content(config, coordinator) == expected
    assert job(config, coordinator, "running").snapshot().state is JobState.LOST
    assert coordinator.get(paths.epoch).version == epoch + 1


def test_a_result_that_zookeeper_never_took_ends_nothing(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """Its leader noted it and died, and a later one went on with the run."""
    driver = running_job(config, coordinator, tmp_path)
    noted = RunResult(state=JobState.FINISHED, epoch=driver.leadership.epoch, at=driver.context.clock.now())
    driver.context.journal.result(1, noted)
    driver.leadership.release()
    drive(driver.context, 1)

    wipe(config, coordinator)
    rebuilt(config, coordinator)

    assert job(config, coordinator, "running").snapshot().state is JobState.LOST


def test_a_payload_whose_pointer_was_never_written_gives_way_to_that_of_a_later_epoch(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    driver = running_job(config, coordinator, tmp_path)
    zombies = driver.payload(4, 70, driver.context.keys.pin(4, driver.leadership.epoch))
    driver.context.store.create(driver.context.keys.payload(4, driver.leadership.epoch), zombies.to_bytes())
    (config.work_path / str(zombies.pin)).mkdir(parents=True)
    driver.leadership.release()
    later = drive(driver.context, 1)
    later.checkpoint(5)
    expected = content(config, coordinator)

    wipe(config, coordinator)
    rebuilt(config, coordinator)

    assert content(config, coordinator) == expected


def test_a_run_that_only_its_checkpoints_know_of_is_not_resurrected(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """Its records are older than the journal: whether it had ended cannot be known."""
    driver = running_job(config, coordinator, tmp_path)
    shutil.rmtree(config.work_path / driver.context.keys.journals)
    wipe(config, coordinator)

    rebuilt(config, coordinator)

    snapshot = job(config, coordinator, "running").snapshot()
    assert snapshot.state is JobState.FAILED
    assert snapshot.graph is None
    assert snapshot.checkpoint_numbers == (1, 2, 3)


def test_damaged_records_are_named_and_hide_no_other(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    finished_job(config, coordinator, tmp_path)
    keys = job(config, coordinator, "finished").keys
    (config.work_path / keys.payload(1, 1)).write_bytes(b"{}")
    (config.work_path / keys.savepoint("before-upgrade") / "manifest.json").unlink()
    (config.work_path / keys.journal("result", "1-e1")).write_bytes(b"torn")

    (found,) = plan(config, coordinator).jobs

    assert found.checkpoints == (2,)
    assert found.savepoints == ()
    assert found.states == {1: JobState.FAILED, 2: JobState.FINISHED}
    assert found.highest_epoch == 2
    assert len(found.problems) == 3


def test_a_storage_that_is_not_mounted_is_not_an_empty_cluster(config: HaConfig, coordinator: Coordinator) -> None:
    with pytest.raises(StorageUnavailableError, match="not there"):
        plan(config, coordinator)


def begun_anew(config: HaConfig, coordinator: Coordinator, context: JobContext, tmp_path: Path) -> int:
    """Submit a job into the empty tree, while storage has none of its files."""
    aside = config.work_path.with_name("aside")
    config.work_path.rename(aside)
    run = submit(context, tmp_path, "begun-anew")
    shutil.copytree(config.work_path, aside, dirs_exist_ok=True)
    shutil.rmtree(config.work_path)
    aside.rename(config.work_path)
    return run


def test_a_rebuild_keeps_the_run_of_before_although_another_has_its_number(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """Its numbers began again: neither its request nor an epoch whose names lie in storage may come of that."""
    context = job(config, coordinator, "running")
    run = submit(context, tmp_path)
    for _ in range(3):
        last = drive(context, run)
        last.leadership.release()
    wipe(config, coordinator)
    begun_anew(config, coordinator, context, tmp_path)
    transactions.take_lock(context, run).release()
    assert coordinator.get(context.paths.epoch).version == 1

    planned = plan(config, coordinator)
    rebuild(config, coordinator, planned, missing_only=True)

    snapshot = context.snapshot()
    assert "created a second time, by request 'begun-anew'" in planned.jobs[0].problems[0]
    assert snapshot.state is JobState.LOST
    assert snapshot.run is not None
    assert snapshot.run.run.request_id == "dag.task.run"
    assert snapshot.generation is not None
    assert snapshot.generation.directory == last.key
    assert drive(context, run).leadership.epoch > last.leadership.epoch


def test_a_rebuild_keeps_a_lost_run_whose_intruder_has_worked_and_ended(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path
) -> None:
    """The intruder leads the same epoch, and has a result under it."""
    context = job(config, coordinator, "running")
    first = drive(context, submit(context, tmp_path))
    first.leadership.release()
    wipe(config, coordinator)
    run = begun_anew(config, coordinator, context, tmp_path)
    intruder = drive(context, run, "1" * 12)
    intruder.writer.end(JobState.CANCELED, reason="canceled")
    intruder.leadership.release()
    clean_up(context)

    rebuilt(config, coordinator, missing_only=True)

    snapshot = context.snapshot()
    assert (snapshot.state, snapshot.generation and snapshot.generation.directory) == (JobState.LOST, first.key)
    assert context.area.contains(first.key), "the clean-up of the intruder has left it"
    assert snapshot.run is not None
    assert snapshot.run.run.request_id == "dag.task.run"


def test_a_driver_that_comes_up_meanwhile_wins(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fails when a transaction does not check the epoch."""
    driver = running_job(config, coordinator, tmp_path)
    driver.leadership.release()
    paths = driver.context.paths
    coordinator.commit(Delete(paths.checkpoint(1)))
    planned = plan(config, coordinator)
    looked = rebuild_module.compare

    def look_and_be_too_late(*arguments: Any) -> Any:
        found = looked(*arguments)
        drive(driver.context, 1)
        return found

    monkeypatch.setattr(rebuild_module, "compare", look_and_be_too_late)
    (applied,) = rebuild(config, coordinator, planned, missing_only=True)

    assert "was changed" in applied.refused
    assert coordinator.find(paths.checkpoint(1)) is None
