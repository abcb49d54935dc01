"""Losses on a cluster, each with its proof: an executor, the driver, the active master, a host with its disk.

Each hits a job that has a batch in flight, and is over with the next commit. Who proved the death is taken from what
was written: the master's log, the exit record of the submission, or that there is none.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

from airflow_provider_ha.checkpoints.spark.checkpoint_layout import Progress
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster, TestHost
from tests.system.harness.cluster_servers import HOSTS, ClusterServers
from tests.system.harness.faults import (
    BATCH_SECONDS,
    DEATH_SECONDS,
    RECOVERY_SECONDS,
    Kill,
    await_commit,
    await_new_batch,
    await_recovery,
)
from tests.system.harness.losses import Loss
from tests.system.harness.observer import JobObserver, exists, progress


_REMOVED = "Removing executor"  # what a master says of one of which a worker saw the exit


@dataclass(frozen=True, slots=True)
class Driven:
    """A job that a driver on a host of the cluster runs."""

    job: JobObserver
    cluster: StandaloneCluster
    epoch: int
    host: TestHost
    submission_id: str

    @classmethod
    def of(cls, job: JobObserver, cluster: StandaloneCluster) -> Driven:
        """Look at a job once it has a leader and an executor."""
        epoch = wait_until(job.leader_epoch, timeout=RECOVERY_SECONDS, what="a leader")
        await_executors(cluster, 1)
        submission_id = _newest(job).submission.submission_id
        return cls(job, cluster, epoch, cluster.host_of(submission_id), submission_id)

    def await_batch(self) -> None:
        """Return when a query has just planned a batch."""
        await_new_batch(self.job.directory())

    def jvm(self) -> psutil.Process:
        """Return the JVM in which Spark runs."""
        children = self.host.supervisor_of(self.submission_id).children()
        return next(each for each in children if each.name() == "java")

    def submission(self) -> SubmissionView:
        """Return what is known of the submission."""
        view = self.job.snapshot().run
        assert view is not None
        return next(each for each in view.submissions if each.submission.submission_id == self.submission_id)


def lose_executor(job: JobObserver, servers: ClusterServers) -> Loss:
    """Kill an executor, if possible on a host that does not run the driver; another one replaces it."""
    driven, cluster = Driven.of(job, servers.cluster), servers.cluster
    await_executors(cluster, HOSTS)
    found = [(host is driven.host, host.name, each) for host in cluster.hosts for each in host.executors()]
    _, host, executor = min(found, key=lambda one: one[:2])
    known = set(_removals(cluster))
    driven.await_batch()
    before, at = progress(job.directory()), time.time()
    executor.kill()
    _, batch_seconds = await_commit(job.directory(), before), time.time() - at
    proof = wait_until(
        lambda: [line for line in _removals(cluster) if line not in known], timeout=DEATH_SECONDS, what="its removal"
    )
    wait_until(lambda: not exists(executor.pid), timeout=DEATH_SECONDS, what="its end")
    await_executors(cluster, HOSTS)
    return Loss(
        victim=f"an executor, on {host}",
        is_of_driver=False,
        in_flight=_in_flight(before),
        gone=(executor.pid,),
        left=_left([executor]),
        proof=f"its worker, by the master: {proof[0]}",
        epochs=(driven.epoch, job.leader_epoch()),
        hosts=(driven.host.name, _leader_host(job)),
        seconds=batch_seconds,
    )


def lose_driver(job: JobObserver, servers: ClusterServers) -> Loss:
    """Kill the JVM of the driver; its supervisor starts it again on the same host."""
    driven = Driven.of(job, servers.cluster)
    jvm = driven.jvm()
    victims = [jvm, *jvm.children(recursive=True)]

    def written() -> str:
        found = driven.submission().exit
        return f"its supervisor: {found.reason}" if found is not None else ""

    return _driver_lost(driven, f"the driver's JVM, on {driven.host.name}", victims, jvm.kill, written)


def lose_host(job: JobObserver, servers: ClusterServers) -> Loss:
    """Lose the host that runs the driver, with all its processes and its disk; then start it with an empty one."""
    driven = Driven.of(job, servers.cluster)
    host = driven.host

    def written() -> str:
        if driven.submission().exit is not None or host.disk.exists():
            return ""
        return "nothing: its session ended in ZooKeeper"

    victim = f"{host.name} with its disk, worker, driver and executor"
    loss = _driver_lost(driven, victim, host.processes(), host.lose, written)
    servers.start_again(host)
    return loss


def lose_master(job: JobObserver, servers: ClusterServers) -> Loss:
    """Kill the master that leads; the other one takes over, and the driver goes on."""
    driven, cluster = Driven.of(job, servers.cluster), servers.cluster
    master = cluster.await_workers()
    process = psutil.Process(master.pid)
    driven.await_batch()
    before, at = progress(job.directory()), time.time()
    master.kill()
    await_commit(job.directory(), before)
    seconds = time.time() - at
    other = cluster.await_workers()
    took_over = time.time() - at
    master.start()
    return Loss(
        victim="the active master",
        is_of_driver=False,
        in_flight=_in_flight(before),
        gone=(process.pid,),
        left=_left([process]),
        proof=f"ZooKeeper: the master on port {other.port} led both workers after {took_over:.1f} s",
        epochs=(driven.epoch, job.leader_epoch()),
        hosts=(driven.host.name, _leader_host(job)),
        seconds=seconds,
    )


def await_executors(cluster: StandaloneCluster, count: int) -> None:
    """Wait until the job has so many executors, each a process of a host."""
    wait_until(
        lambda: sum(len(host.executors()) for host in cluster.hosts) >= count,
        timeout=RECOVERY_SECONDS,
        what=f"{count} executors",
    )


def _driver_lost(
    driven: Driven, victim: str, victims: list[psutil.Process], lose: Callable[[], None], proof: Callable[[], str]
) -> Loss:
    job = driven.job
    directory = job.directory()
    driven.await_batch()
    at = time.time()
    lose()
    kill = Kill(
        victim="host",
        epoch=driven.epoch,
        at=at,
        progress=progress(directory),
        pids={str(number): each.pid for number, each in enumerate(victims)},
        gone=(),
    )
    wait_until(lambda: not _left(victims), timeout=DEATH_SECONDS, what="the end of all processes")
    recovery = await_recovery(job, kill)
    found = wait_until(proof, timeout=BATCH_SECONDS, what="the record of the end")
    return Loss(
        victim=victim,
        is_of_driver=True,
        in_flight=tuple(kill.in_flight),
        gone=tuple(each.pid for each in victims),
        left=_left(victims),
        proof=f"{found} ({recovery.leader_seconds:.1f} s to the next leader)",
        epochs=(kill.epoch, recovery.epoch),
        hosts=(driven.host.name, _leader_host(job)),
        seconds=recovery.seconds,
        rows_replayed=recovery.rows_replayed,
    )


def _in_flight(found: dict[str, Progress]) -> tuple[str, ...]:
    return tuple(query for query, now in found.items() if now.in_flight)


def _left(victims: list[psutil.Process]) -> tuple[int, ...]:
    return tuple(each.pid for each in victims if each.is_running() and exists(each.pid))


def _leader_host(job: JobObserver) -> str:
    leader = job.snapshot().leader
    return leader.host if leader else ""


def _newest(job: JobObserver) -> SubmissionView:
    view = job.snapshot().run
    assert view is not None
    assert view.newest is not None
    return view.newest


def _removals(cluster: StandaloneCluster) -> list[str]:
    lines = (line for master in cluster.masters for line in master.log.read_text(errors="replace").splitlines())
    return [line[line.index(_REMOVED) :] for line in lines if _REMOVED in line]
