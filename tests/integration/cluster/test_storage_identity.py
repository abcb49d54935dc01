"""A root that is not mounted, another root, and files of jobs that ZooKeeper does not know. No engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError, JobStateError, StorageUnavailableError
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.cluster_roots import read_roots
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.recovery.lost_runs import recover
from airflow_provider_ha.jobs.submit.requests import FRESH, LostRunPolicy
from airflow_provider_ha.jobs.verification.job_verification import proof_place
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.roots import MARKER
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import list_quarantined
from tests.support.specs import changed


@contextmanager
def unmounted(root: Path) -> Iterator[None]:
    """Take away what is mounted at *root*; its mount point, an empty directory of the host, stays."""
    away = root.with_name("away")
    root.rename(away)
    root.mkdir()
    try:
        yield
    finally:
        shutil.rmtree(root)
        away.rename(root)


def wipe(config: HaConfig, coordinator: Coordinator) -> None:
    """Take away all that ZooKeeper knows of the cluster, but the lock of its leader."""
    base = f"/{config.root}/{config.cluster_id}"
    coordinator.commit(SetData(base, b""))
    for name in coordinator.children(base):
        if name != "resource_manager_lock":
            _delete(coordinator, f"{base}/{name}")


def _delete(coordinator: Coordinator, path: str) -> None:
    for name in coordinator.children(path):
        _delete(coordinator, f"{path}/{name}")
    coordinator.commit(Delete(path))


@pytest.fixture
def storage(config: HaConfig) -> Path:
    return config.work_path.parent


def worked(cluster: Cluster, job_id: str) -> None:
    """Make a lost job that has a working directory."""
    job = cluster.lost(job_id)
    generation = Generation(run=1, epoch=1, directory=job.keys.working_directory(1, "a"))
    job.area.create(generation.directory)
    job.journal.generation(generation)
    cluster.coordinator.ensure(job.paths.generation)


def test_a_root_that_lost_its_mount_is_not_made_again(
    cluster: Cluster, leader: ClusterLeader, storage: Path, config: HaConfig
) -> None:
    cluster.lost("flights")

    with unmounted(storage):
        with pytest.raises(StorageUnavailableError, match="not mounted"):
            cluster.submitted("other")
        attended = leader.attend("flights")
        made = list(storage.iterdir())

    assert made == []
    assert attended.outcome is ReconcileOutcome.NOT_KNOWN
    assert list_quarantined(cluster.coordinator, cluster.client.paths) == {}
    assert cluster.client.list_jobs() == ["flights"], "nothing of the refused job is left"
    assert leader.attend("flights").outcome is ReconcileOutcome.RECOVERED
    assert cluster.submitted("other").runs.numbers() == [1]


@pytest.mark.parametrize(
    "write",
    [
        lambda client: put_blob(client.store, b"x"),
        lambda client: client.store.write("jobs/flights/progress/p-e1.json", b"{}"),
        lambda client: client.store.write("jobs/flights/drills/d.json", b"{}"),
        lambda client: client.context("flights").journal.generation(Generation(run=1, epoch=9, directory="x")),
        lambda client: client.store.check_writable(),
        lambda client: client.area.create("jobs/flights/live/e9-x"),
        lambda client: client.area.capabilities(),
        lambda client: client.area.remove("jobs/flights/live/e1-a"),
        lambda client: client.check(),
    ],
    ids=["blob", "progress", "drill", "journal", "probe", "directory", "links", "removal", "test of the connection"],
)
def test_no_writer_makes_a_root_that_zookeeper_knows(
    cluster: Cluster, storage: Path, write: Callable[[HaClient], object]
) -> None:
    """Of a process that has written before, and of one that has not."""
    cluster.lost("flights")
    fresh = HaClient(cluster.config, cluster.coordinator)

    with unmounted(storage):
        for client in (cluster.client, fresh):
            with pytest.raises(StorageUnavailableError):
                write(client)
        assert list(storage.iterdir()) == []


@pytest.mark.parametrize(
    "read",
    [
        lambda client: client.store.read("jobs/flights/verification.json"),
        lambda client: client.store.info("jobs/flights/verification.json"),
        lambda client: list(client.store.list("jobs/")),
        lambda client: client.area.contains("jobs/flights/live/e1-a"),
        lambda client: client.area.list("jobs/"),
        lambda client: client.area.read("jobs/flights/live/e1-a", "x"),
        lambda client: client.area.fence("jobs/flights/live/e1-a"),
        lambda client: client.area.require(),
    ],
)
def test_nothing_is_missing_while_the_root_has_no_marker(
    cluster: Cluster, storage: Path, config: HaConfig, read: Callable[[HaClient], object]
) -> None:
    """The root itself may be there: a mount point, or what an earlier write has left on the host's disk."""
    cluster.lost("flights")

    with unmounted(storage):
        (storage / config.cluster_id).mkdir()
        with pytest.raises(StorageUnavailableError, match="not mounted"):
            read(cluster.client)


def test_two_roots_under_one_cluster_id_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lost("flights")
    other = cluster.config.model_copy(update={"storage_root": f"file://{tmp_path}/other"})
    client = HaClient(other, cluster.coordinator)

    for act in (client.check, lambda: client.store.write("a", b""), client.area.require):
        with pytest.raises(ConfigurationError) as caught:
            act()
        assert cluster.config.storage_root in caught.value.message
        assert f"file://{tmp_path}/other" in caught.value.message
    assert not (tmp_path / "other").exists()


def test_two_work_roots_under_one_cluster_id_are_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lost("flights")
    other = cluster.config.model_copy(update={"work_root": f"file://{tmp_path}/work"})

    with pytest.raises(ConfigurationError, match=r"work root .*storage.* names .*/work"):
        HaClient(other, cluster.coordinator).store.write("a", b"")


def test_one_storage_may_be_mounted_in_two_places(cluster: Cluster, storage: Path, tmp_path: Path) -> None:
    cluster.lost("flights")
    (tmp_path / "elsewhere").symlink_to(storage)
    other = cluster.config.model_copy(update={"storage_root": f"file://{tmp_path}/elsewhere"})

    HaClient(other, cluster.coordinator).store.write("a", b"")

    assert cluster.client.store.read("a") == b""


def test_a_test_of_a_connection_makes_no_cluster(cluster: Cluster, config: HaConfig) -> None:
    """A root with a spelling mistake would stay with the cluster."""
    cluster.client.check()

    assert not (config.work_path / MARKER).exists()
    assert not cluster.client.roots.known()


@pytest.mark.parametrize("away", ["storage", "work"])
def test_a_storage_that_lost_one_root_only_is_not_taken_for_a_new_cluster(
    cluster: Cluster, tmp_path: Path, away: str
) -> None:
    """ZooKeeper has lost its data, and one root is not mounted on this host: the marker of the other one says so."""
    both = cluster.config.model_copy(update={"work_root": f"file://{tmp_path}/work"})
    (tmp_path / "two").mkdir()
    two = Cluster(both, cluster.coordinator, tmp_path / "two")
    two.lost("flights")
    wipe(both, cluster.coordinator)

    with unmounted(tmp_path / away):
        with pytest.raises(StorageUnavailableError, match=f"{away} root .* is not mounted on this host"):
            two.open(cluster.coordinator).store.write("a", b"")
        assert list((tmp_path / away).iterdir()) == []


def test_an_empty_zookeeper_and_a_root_that_is_not_mounted_make_a_new_cluster(
    cluster: Cluster, config: HaConfig, storage: Path
) -> None:
    """The limit of what the markers can show: nothing else knows that there was a cluster."""
    cluster.lost("flights")
    wipe(config, cluster.coordinator)

    with unmounted(storage):
        cluster.open(cluster.coordinator).store.write("a", b"")
        made = read_roots(cluster.coordinator, ClusterPaths(config.root, config.cluster_id))

    assert made is not None
    assert made.uuid.encode() not in (config.work_path / MARKER).read_bytes()
    with pytest.raises(ConfigurationError, match="which was mounted at"):  # at once, when it is there again
        cluster.open(cluster.coordinator).store.write("a", b"")


def test_neither_a_launch_nor_a_drill_makes_the_work_root(cluster: Cluster, tmp_path: Path) -> None:
    """The home of a driver, and the copies of a drill, lie below it where no home root is named."""
    both = cluster.config.model_copy(update={"work_root": f"file://{tmp_path}/work"})
    (tmp_path / "two").mkdir()
    two = Cluster(both, cluster.coordinator, tmp_path / "two")
    job = two.exited("flights")
    before = two.engine.launches()

    with unmounted(tmp_path / "work"):
        with pytest.raises(StorageUnavailableError, match="not mounted"):
            recover(job, by="test")
        with pytest.raises(StorageUnavailableError, match="not mounted"), proof_place(job):
            pass
        assert list((tmp_path / "work").iterdir()) == []

    assert two.engine.launches() == before


def test_an_empty_zookeeper_takes_up_the_identity_of_the_roots(cluster: Cluster, config: HaConfig) -> None:
    cluster.lost("flights")
    before = (config.work_path / MARKER).read_bytes()
    wipe(config, cluster.coordinator)

    fresh = cluster.open(cluster.coordinator)
    fresh.store.write("a", b"")

    assert (config.work_path / MARKER).read_bytes() == before
    assert fresh.roots.known()


def test_a_quarantine_ends_with_the_outage_that_caused_it(
    cluster: Cluster, leader: ClusterLeader, config: HaConfig
) -> None:
    """The blobs are on another file system, mounted below the root, which has its marker."""
    cluster.lost("flights")
    with unmounted(config.work_path / "blobs"):
        first, second = leader.attend("flights"), leader.attend("flights")

    assert (first.outcome, second.outcome) == (ReconcileOutcome.QUARANTINED, ReconcileOutcome.IN_QUARANTINE)
    assert leader.attend("flights").outcome is ReconcileOutcome.RECOVERED
    assert list_quarantined(cluster.coordinator, cluster.client.paths) == {}


def files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.parametrize("left", ["journal", "live"])
def test_a_job_that_only_storage_knows_is_not_begun_from_nothing(
    cluster: Cluster, leader: ClusterLeader, config: HaConfig, left: str
) -> None:
    """By a submission, a recovery, and a submission through the leader of the cluster."""
    worked(cluster, "flights")
    wipe(config, cluster.coordinator)
    shutil.rmtree(config.work_path / "jobs/flights" / ("live" if left == "journal" else "journal"))
    before, job = files(config.work_path), cluster.context("flights")
    request = cluster.request("flights")

    acts: tuple[Callable[[], object], ...] = (
        lambda: cluster.client.job("flights").submit(request),
        lambda: leader.submit(request),
        lambda: recover(job, by="test"),
    )
    for act in acts:
        with pytest.raises(JobStateError, match="ZooKeeper knows no job 'flights'") as caught:
            act()
        assert "spark-ha cluster rebuild" in str(caught.value)
        assert not caught.value.retryable, "a task does not try again"
    attended = leader.settle(5)

    assert [(each.job_id, each.outcome) for each in attended] == [("flights", ReconcileOutcome.DECISION_NEEDED)]
    assert "spark-ha cluster rebuild" in attended[0].detail
    assert files(config.work_path) == before
    assert cluster.client.list_jobs() == []


CONSENT: dict[str, Any] = {
    "start_from": FRESH,
    "if_lost": LostRunPolicy.RESTART,
    "accept_verdicts": frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
}


@pytest.mark.parametrize("lacking", CONSENT)
def test_half_a_consent_to_a_fresh_start_changes_nothing(cluster: Cluster, config: HaConfig, lacking: str) -> None:
    worked(cluster, "flights")
    wipe(config, cluster.coordinator)
    before, words = files(config.work_path), {word: said for word, said in CONSENT.items() if word != lacking}

    with pytest.raises(JobStateError, match="accept_verdicts=LOSS_POSSIBLE"):
        cluster.client.job("flights").submit(changed(cluster.request("flights"), **words))

    assert cluster.client.list_jobs() == []
    assert files(config.work_path) == before


def test_a_fresh_start_that_is_refused_makes_no_lost_run_of_the_first_life(cluster: Cluster, config: HaConfig) -> None:
    """The next submission, without consent, would follow that run."""
    worked(cluster, "flights")
    wipe(config, cluster.coordinator)
    request = changed(cluster.request("flights"), request_id="anew", **CONSENT)

    with pytest.raises(ConfigurationError, match="local"):
        cluster.client.job("flights").submit(changed(request, master="local[two]"))

    assert cluster.client.list_jobs() == []
    assert cluster.client.job("flights").submit(request).run == 2


def test_a_fresh_start_with_consent_follows_the_runs_that_only_storage_knew(cluster: Cluster, config: HaConfig) -> None:
    worked(cluster, "flights")
    wipe(config, cluster.coordinator)
    kept = files(config.work_path / "jobs/flights/journal")
    request = changed(cluster.request("flights"), request_id="anew", **CONSENT)

    run = cluster.client.job("flights").submit(request)

    job = cluster.context("flights")
    assert run.run == 2
    assert [each.request_id for each in job.runs.runs([1, 2]).values()] == ["request", "anew"]
    assert job.runs.get(2).run.start.asked
    assert job.snapshot().epoch > 1000, "no epoch comes again"
    after = files(config.work_path / "jobs/flights/journal")
    assert kept.items() <= after.items()
    assert (config.work_path / job.keys.working_directory(1, "a")).is_dir()
