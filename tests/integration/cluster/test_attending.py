"""What the leader of a cluster does about each job: it recovers those that must be recovered and none other."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.store.removal import DeletionList
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, Delete, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.errors import (
    JobStateError,
)
from airflow_provider_ha.fleet import observations
from airflow_provider_ha.fleet import reconciler as attend
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome, Reconciler, ReconcileResult, ReconcileTimings
from airflow_provider_ha.jobs.drivers.driver_home import NO_ATTEMPT
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import Generation, JobState, StandbyCount, Status
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.storage import keys
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.coordination_helpers import HeldClock, ignore
from tests.support.clusters.jobs_helpers import BLOB, list_quarantined


class Timed:
    """One who attends to jobs, on a clock that a test moves by hand; the lease has the real one."""

    def __init__(self, cluster: Cluster, session: KazooCoordinator, patience: ReconcileTimings) -> None:
        self.clock = HeldClock()
        self.client = cluster.open(session, clock=self.clock)
        self.leadership = acquire(
            session,
            self.client.paths.lock,
            timings=cluster.config.timings,
            clock=SystemClock(),
            describe=lambda epoch: f"epoch {epoch}".encode(),
            timeout=5,
        )
        self.leadership.start_heartbeats(ignore)
        session.ensure(self.client.paths.quarantine)
        self.attendant = Reconciler(self.client, self.leadership, by="test", patience=patience)

    def attend(self, job_id: str) -> str:
        return self.attendant.attend(job_id).outcome.value


@pytest.fixture
def timed(cluster: Cluster, rival: KazooCoordinator) -> Iterator[Timed]:
    made = Timed(cluster, rival, ReconcileTimings(debounce=2.0, launch_timeout=20.0, start_timeout=100.0))
    yield made
    made.leadership.release()


def outcomes(attended: list[ReconcileResult]) -> dict[str, ReconcileOutcome]:
    return {each.job_id: each.outcome for each in attended}


def test_every_job_that_must_be_recovered_is_and_none_other(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    cluster.exited("exited")
    cluster.lost("lost")
    cluster.led("running", coordinator)
    cluster.ended("finished")
    coordinator.ensure(*cluster.paths("never-run").skeleton)
    before = cluster.engine.launches()

    report = outcomes(leader.settle(5))

    assert sorted(cluster.engine.launches()[len(before) :]) == [("exited", 2), ("lost", 2)]
    assert report == {
        "exited": ReconcileOutcome.RECOVERED,
        "lost": ReconcileOutcome.RECOVERED,
        "running": ReconcileOutcome.LEFT_ALONE,
        "finished": ReconcileOutcome.CLEANED_UP,
        "never-run": ReconcileOutcome.LEFT_ALONE,
    }
    assert cluster.context("lost").snapshot().recovery is not None, "the lost epoch is claimed"


def test_each_outcome_is_reported_when_it_is_known(cluster: Cluster, leader: ClusterLeader) -> None:
    cluster.lost("lost")
    reported: list[ReconcileResult] = []

    settled = leader.settle(5, reported.append)

    assert outcomes(reported) == outcomes(settled) == {"lost": ReconcileOutcome.RECOVERED}


def test_a_job_that_is_gone_since_the_list_is_left_alone(leader: ClusterLeader) -> None:
    attended = leader.attend("gone")

    assert (attended.outcome, attended.detail) == (ReconcileOutcome.LEFT_ALONE, "gone")


def test_of_two_quarantines_of_a_job_the_first_one_is_kept(cluster: Cluster, leader: ClusterLeader) -> None:
    """A leader that looked before it lost the cluster, and the one after it."""
    job, reconciler = cluster.submitted("flights"), leader._attendant
    assert reconciler is not None
    path = cluster.client.paths.quarantined("flights")

    first = reconciler._quarantine(job, "its graph is damaged")
    kept = cluster.coordinator.get(path)
    second = reconciler._quarantine(job, "another reason")

    assert first.outcome is second.outcome is ReconcileOutcome.QUARANTINED
    assert cluster.coordinator.get(path) == kept


def test_a_loss_that_was_recovered_already_is_not_recovered_again(cluster: Cluster, leader: ClusterLeader) -> None:
    cluster.lost("flights")
    cluster.client.job("flights").recover(by="an Airflow task", wait=False)

    attended = leader.attend("flights")

    assert attended.outcome is not ReconcileOutcome.RECOVERED
    assert cluster.attempts("flights") == [1, 2]


def test_a_submission_that_nobody_launched_is_launched(cluster: Cluster, timed: Timed) -> None:
    """Its submitter died between the node and the engine: neither lost nor led, and no process would come for it."""
    job = cluster.submitted("flights")
    cluster.coordinator.commit(Delete(job.paths.submission_started(1, 1)))
    cluster.engine.record.unlink()

    early = timed.attend("flights")
    timed.clock.time += 20
    timed.attend("flights")

    assert early == "pending"
    assert cluster.engine.launches() == [("flights", 2)]


def test_a_driver_that_never_leads_is_replaced_once_it_is_overdue(cluster: Cluster, timed: Timed) -> None:
    """Its host died before it led: no exit is ever written, no epoch is ever lost."""
    cluster.submitted("flights")

    seen = []
    for _ in range(3):
        seen.append(timed.attend("flights"))
        timed.clock.time += 50

    assert seen == ["pending", "pending", "recovered"]
    assert cluster.attempts("flights") == [1, 2]


def test_a_driver_that_runs_is_not_replaced_before_it_leads(cluster: Cluster, timed: Timed) -> None:
    """It may download packages, or share its host with many."""
    cluster.submitted("flights")
    cluster.engine.says_running = True

    for _ in range(12):
        timed.attend("flights")
        timed.clock.time += 50

    assert cluster.attempts("flights") == [1]


def test_the_job_says_how_long_a_submission_may_take_until_it_leads(cluster: Cluster, rival: KazooCoordinator) -> None:
    timed = Timed(cluster, rival, ReconcileTimings(debounce=2.0))
    cluster.submitted("flights", start_timeout=300.0)

    seen = []
    for _ in range(3):
        seen.append(timed.attend("flights"))
        timed.clock.time += 149

    assert seen == ["pending", "pending", "pending"]
    timed.clock.time += 10
    assert timed.attend("flights") == "recovered"
    timed.leadership.release()


def test_the_delay_of_the_restart_strategy_counts_from_the_first_look(cluster: Cluster, timed: Timed) -> None:
    cluster.lost("eager", restart_delay=0.0)
    cluster.lost("patient", restart_delay=30.0)

    seen = []
    for _ in range(4):
        seen.append((timed.attend("eager"), timed.attend("patient")))
        timed.clock.time += 10

    assert [eager for eager, _ in seen][:2] == ["pending", "recovered"]
    assert [patient for _, patient in seen] == ["pending", "pending", "pending", "recovered"]


def test_a_loss_whose_driver_is_proven_dead_is_recovered_at_once(cluster: Cluster, timed: Timed) -> None:
    cluster.lost("vanished")
    cluster.exited("dead")

    assert (timed.attend("dead"), timed.attend("vanished")) == ("recovered", "pending")


def test_a_proof_that_comes_during_the_debounce_ends_it(cluster: Cluster, timed: Timed) -> None:
    """A supervisor ends the session of its dead driver first, and writes the proof a moment later."""
    cluster.lost("flights")
    early = timed.attendant.attend("flights")
    cluster.exit("flights")

    assert early.outcome is ReconcileOutcome.PENDING
    assert early.again is not None
    assert early.again <= 0.1, "the proof is looked for soon"
    assert timed.attend("flights") == "recovered"


def test_a_job_that_dies_again_and_again_waits_although_its_death_is_proven(cluster: Cluster, timed: Timed) -> None:
    cluster.exited("flights", restart_delay=30.0)
    first = timed.attend("flights")
    cluster.exit("flights", at=timed.clock.now())

    seen = [timed.attend("flights")]
    timed.clock.time += 31
    seen.append(timed.attend("flights"))

    assert (first, seen) == ("recovered", ["pending", "recovered"])


def test_a_new_leader_of_the_cluster_does_not_restart_the_wait(cluster: Cluster, timed: Timed) -> None:
    """Several Airflow tasks, one after the other, are one wait: what is waited for goes from one to the next."""
    cluster.lost("flights", restart_delay=30.0)
    timed.attend("flights")
    timed.clock.time += 20
    waiting = timed.attendant.waiting

    successor = Reconciler(
        timed.client, timed.leadership, by="test", patience=ReconcileTimings(debounce=2.0), waiting=waiting
    )
    timed.clock.time += 9
    early = successor.attend("flights").outcome
    timed.clock.time += 1

    assert waiting["flights"].left == 10.0
    assert (early, successor.attend("flights").outcome) == (ReconcileOutcome.PENDING, ReconcileOutcome.RECOVERED)


def test_a_loss_that_a_follower_recovers_meanwhile_is_left_to_it(cluster: Cluster, timed: Timed) -> None:
    """Fails without the debounce, and when the next loss inherits the time that the last one has lasted."""
    cluster.lost("flights")
    first = timed.attend("flights")
    cluster.client.job("flights").recover(by="an Airflow task", wait=False)
    cluster.lost("flights")
    timed.clock.time += 2

    second = timed.attend("flights")

    assert (first, second) == ("pending", "pending")
    assert cluster.attempts("flights") == [1, 2]


def test_a_run_that_has_used_up_its_attempts_is_given_up(cluster: Cluster, leader: ClusterLeader) -> None:
    cluster.exited("flights", restart_attempts=0)

    attended = leader.attend("flights")

    assert attended.outcome is ReconcileOutcome.GIVEN_UP
    assert cluster.context("flights").snapshot().state is JobState.FAILED
    assert cluster.attempts("flights") == [1]


def test_a_run_that_waits_for_a_decision_is_reported_and_left_as_it_is(cluster: Cluster, leader: ClusterLeader) -> None:
    cluster.submitted("flights", restart_attempts=0)
    cluster.exit("flights", decision="Decide what it goes on from.")

    attended = leader.attend("flights")

    assert (attended.outcome, attended.detail) == (ReconcileOutcome.DECISION_NEEDED, "Decide what it goes on from")
    assert cluster.attempts("flights") == [1]


def _pointer_is_garbage(cluster: Cluster) -> None:
    cluster.coordinator.commit(SetData(cluster.paths("broken").job_graph, b"garbage"))


def _graph_is_gone(cluster: Cluster) -> None:
    view = cluster.context("broken").runs.latest()
    assert view is not None
    cluster.client.store.delete(keys.blob(view.run.graph.sha256))


def _graph_is_corrupt(cluster: Cluster) -> None:
    view = cluster.context("broken").runs.latest()
    assert view is not None
    cluster.client.store.write(keys.blob(view.run.graph.sha256), b"garbage")


def _application_is_gone(cluster: Cluster) -> None:
    job = cluster.context("broken")
    view = job.runs.latest()
    assert view is not None
    cluster.client.store.delete(keys.blob(job.graph(view.run.graph).application.blob.sha256))


def _pointer_is_of_an_older_run(cluster: Cluster) -> None:
    job = cluster.context("broken")
    pointer = job.graphs.pointer()
    assert pointer is not None
    older = pointer.model_copy(update={"run": 0})
    cluster.coordinator.commit(SetData(job.paths.job_graph, older.to_bytes()))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_pointer_is_garbage, "persisted_job_graph does not hold"),
        (_graph_is_gone, "blobs/sha256"),
        (_graph_is_corrupt, "is damaged"),
        (_application_is_gone, "'app.py' of its graph is not in storage"),
        (_pointer_is_of_an_older_run, "graph pointer is of run 0"),
    ],
)
def test_a_broken_job_goes_into_quarantine_and_does_not_stop_the_others(
    cluster: Cluster, leader: ClusterLeader, damage: Callable[[Cluster], None], reason: str
) -> None:
    cluster.lost("broken")
    cluster.lost("sound")
    damage(cluster)

    report = outcomes(leader.settle(5))
    again = leader.attend("broken")

    assert report == {"broken": ReconcileOutcome.QUARANTINED, "sound": ReconcileOutcome.RECOVERED}
    assert reason in list_quarantined(cluster.coordinator, cluster.client.paths)["broken"]
    assert again.outcome is ReconcileOutcome.IN_QUARANTINE
    assert "in quarantine" in again.detail
    assert cluster.attempts("broken") == [1]


def test_a_job_that_is_released_from_quarantine_is_recovered(cluster: Cluster, leader: ClusterLeader) -> None:
    view = cluster.lost("broken").runs.latest()
    assert view is not None
    key = keys.blob(view.run.graph.sha256)
    graph = cluster.client.store.read(key)
    cluster.client.store.delete(key)
    leader.settle(5)

    cluster.client.store.write(key, graph)
    held = leader.attend("broken").outcome
    reason = observations.release_quarantine(cluster.coordinator, cluster.client.paths, "broken")
    released = leader.attend("broken").outcome

    assert (held, released) == (ReconcileOutcome.IN_QUARANTINE, ReconcileOutcome.RECOVERED)
    assert "blobs/sha256" in reason
    with pytest.raises(JobStateError, match="not in quarantine"):
        observations.release_quarantine(cluster.coordinator, cluster.client.paths, "broken")


def test_a_job_that_runs_is_not_put_into_quarantine(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    cluster.led("broken", coordinator)
    _pointer_is_garbage(cluster)

    assert leader.attend("broken").outcome is ReconcileOutcome.LEFT_ALONE


def test_storage_that_cannot_be_read_says_nothing_about_a_job(cluster: Cluster, leader: ClusterLeader) -> None:
    cluster.lost("flights")
    root = Path(cluster.client.store.uri.removeprefix("file://"))
    away = root.with_name("away")
    root.rename(away)
    root.write_text("no directory")  # every read fails, and none of them says "not there"

    attended = leader.attend("flights")

    root.unlink()
    away.rename(root)
    assert attended.outcome is ReconcileOutcome.NOT_KNOWN
    assert list_quarantined(cluster.coordinator, cluster.client.paths) == {}
    assert leader.attend("flights").outcome is ReconcileOutcome.RECOVERED


@pytest.mark.flink(
    "SessionDispatcherLeaderProcessTest#testRecoveryWithExecutionPlanAndMatchingDirtyJobResult",
    entry=18,
    mutant="dirty-with-pointer",
)
@pytest.mark.flink("SessionDispatcherLeaderProcessTest#testRecoveryWithoutExecutionPlanButDirtyJobResult", entry=20)
@pytest.mark.parametrize("keep_pointer", [False, True], ids=["without pointer", "with a pointer that was left"])
def test_a_dirty_result_is_cleaned_up_and_never_run(
    cluster: Cluster, leader: ClusterLeader, keep_pointer: bool
) -> None:
    """SessionDispatcherLeaderProcessTest#testRecoveryWithExecutionPlanAndMatchingDirtyJobResult (FLINK-10011)."""
    job = cluster.ended("flights", keep_pointer=keep_pointer)
    before = cluster.engine.launches()

    first, second = leader.attend("flights").outcome, leader.attend("flights").outcome

    result = job.runs.result(1)
    assert (first, second) == (ReconcileOutcome.CLEANED_UP, ReconcileOutcome.LEFT_ALONE)
    assert result is not None
    assert (result.state, result.cleanup) == (JobState.FINISHED, "CLEAN")
    assert job.graphs.pointer() is None
    assert cluster.engine.launches() == before


def test_a_clean_up_leaves_the_pointer_of_a_run_that_was_made_since_it_looked(
    cluster: Cluster, leader: ClusterLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = cluster.ended("flights", keep_pointer=True)
    real, newer = JobGraphStore.remove_op, GraphPointer(graph=BLOB, run=2)

    def overtaken(graphs: JobGraphStore, run: int, **options: bool) -> Delete | None:
        removal = real(graphs, run, **options)
        cluster.coordinator.commit(SetData(job.paths.job_graph, newer.to_bytes()))
        return removal

    monkeypatch.setattr(JobGraphStore, "remove_op", overtaken)

    assert leader.attend("flights").outcome is ReconcileOutcome.NOT_KNOWN
    assert job.graphs.pointer() == newer


def test_clean_up_works_off_what_a_dead_driver_still_had_to_delete(cluster: Cluster, leader: ClusterLeader) -> None:
    """DispatcherCleanupITCase#testCleanupAfterLeadershipChange: the new leader finishes what the old one had begun."""
    job = cluster.ended("flights")
    key = job.keys.payload(1, 1)
    cluster.client.store.write(key, b"of a checkpoint whose pointer is gone")
    to_delete = DeletionList(cluster.coordinator, job.paths, clock=SystemClock())
    entry = to_delete.entry("checkpoint-1", objects=[key])
    cluster.coordinator.commit(entry)

    assert leader.attend("flights").outcome is ReconcileOutcome.CLEANED_UP

    assert cluster.client.store.info(key) is None
    assert cluster.coordinator.find(entry.path) is None


def test_a_disk_that_fails_one_job_does_not_keep_the_leader_from_the_others(
    cluster: Cluster, leader: ClusterLeader, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.ended("flights")
    cluster.ended("trains")

    def fails_for_flights(job: JobContext) -> tuple[int, ...]:
        if job.job_id == "flights":
            raise OSError(errno.EIO, "the disk does not answer")
        return clean_up(job)

    monkeypatch.setattr(attend, "clean_up", fails_for_flights)

    outcomes = {attended.job_id: attended.outcome for attended in leader.settle(0)}

    assert outcomes == {"flights": ReconcileOutcome.NOT_KNOWN, "trains": ReconcileOutcome.CLEANED_UP}


def test_a_driver_that_is_still_there_cleans_up_by_itself(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    cluster.ended("flights")
    cluster.led("flights", coordinator)

    assert leader.attend("flights").outcome is ReconcileOutcome.LEFT_ALONE


def test_what_an_ended_run_has_left_is_removed_but_what_a_restore_reads_stays(
    cluster: Cluster, leader: ClusterLeader
) -> None:
    job = cluster.ended("flights")
    live = job.config.work_path / "jobs" / "flights" / "live"
    generation = Generation(run=1, epoch=3, directory="jobs/flights/live/e3-current")
    cluster.coordinator.commit(Create(job.paths.generation, generation.to_bytes()))
    for name in ("e1-old.dead", "e2-old", "e3-current", "e4-later", ".e2-half.0f.removed", "notes"):
        (live / name).mkdir(parents=True)

    assert leader.attend("flights").outcome is ReconcileOutcome.CLEANED_UP

    assert sorted(path.name for path in live.iterdir()) == ["e3-current", "e4-later", "notes"]


def count_standbys(cluster: Cluster, count: StandbyCount) -> None:
    """Let the leader of the job tell how many standby drivers it has."""
    status = Status(state=JobState.RUNNING, run=1, epoch=1, standbys=count, at=SystemClock().now())
    cluster.coordinator.commit(Create(cluster.paths("flights").status, status.to_bytes()))


def test_a_led_job_gets_the_standby_driver_that_it_lacks(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    """Its supervisors are gone: those that live start another one themselves."""
    cluster.led("flights", coordinator, standby_drivers=1)
    count_standbys(cluster, StandbyCount(requested=1, missing_since=SystemClock().now()))
    before = len(cluster.engine.launches())

    attended = leader.attend("flights")

    assert attended.outcome is ReconcileOutcome.REPLENISHED
    assert attended.detail == "it has 0 of 1 standby drivers"
    assert cluster.engine.launches()[before:] == [("flights", NO_ATTEMPT)]


def test_a_standby_driver_that_is_not_ready_yet_gets_no_second_one(
    cluster: Cluster, coordinator: KazooCoordinator, leader: ClusterLeader
) -> None:
    cluster.led("flights", coordinator, standby_drivers=1)
    count_standbys(cluster, StandbyCount(requested=1, missing_since=SystemClock().now()))
    starting = Standby(standby_id="s", level=StandbyLevel.CONNECTED, since=SystemClock().now(), host="h", pid=1)
    assert StandbyStore(coordinator, cluster.paths("flights"), 1).join(starting, 1)
    before = cluster.engine.launches()

    attended = leader.attend("flights")

    assert attended.outcome is ReconcileOutcome.LEFT_ALONE
    assert cluster.engine.launches() == before


def test_a_standby_driver_that_is_missing_for_a_moment_is_left_to_its_supervisor(
    cluster: Cluster, coordinator: KazooCoordinator, timed: Timed
) -> None:
    cluster.led("flights", coordinator, standby_drivers=1)
    count_standbys(cluster, StandbyCount(requested=1, missing_since=SystemClock().now()))
    before = cluster.engine.launches()

    assert timed.attend("flights") == "pending"
    timed.clock.time += 59
    assert timed.attend("flights") == "pending"
    assert cluster.engine.launches() == before

    timed.clock.time += 2
    assert timed.attend("flights") == "replenished"
