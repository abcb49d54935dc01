"""Makes this process the leader of the run that it was submitted for, or finds that it may not lead.

Only the newest submission of a run without a result may lead, and only while the job's graph pointer belongs to that
run: this prevents a finished run, or a driver that was given up, from coming back. And a submission leads only once: a
process relaunched for it by a cluster manager would lead without having been claimed as a recovery.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import JobStateError, NotConnectedError
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, class_archive, write_private, write_session
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.job_graph import GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import LeaderInfo, Run
from airflow_provider_ha.jobs.runs.run_store import RunStore, RunView
from airflow_provider_ha.jobs.runs.submissions import SubmissionLed
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import open_store
from airflow_provider_ha.storage.outage import outages


CONNECT_SECONDS = 60.0
PROCESS = new_id()  # of this process: process ids come again


@dataclass(frozen=True, slots=True)
class DriverSession:
    """The resources of a leading driver.

    :param alive_at: Last heartbeat of the previous leader; ``None`` if there was no leader, or it cannot be read.
    """

    coordinator: Coordinator
    store: ObjectStore
    paths: JobPaths
    graphs: JobGraphStore
    leadership: Leadership
    run: Run
    graph: JobGraph
    alive_at: datetime | None = None


def lead(spec: DriverSpec, clock: Clock) -> DriverSession:
    """Connect, take the job's lock, and read the graph to run. Waits for as long as another leader holds the lock.

    :raises JobStateError: This submission may not lead, or not any longer.
    :raises NotConnectedError: ZooKeeper did not answer.
    :raises StorageUnavailableError: Storage or the submission's own directory did not answer.
    """
    coordinator = KazooCoordinator.connect(spec.config, timeout=CONNECT_SECONDS)
    session = coordinator.session
    if session is None:
        raise NotConnectedError("ZooKeeper answered, but there is no session")
    with outages("written", spec.home.directory):
        write_session(spec.home.session, session)
        write_private(spec.home.driver_pid, str(os.getpid()).encode())
    store = open_store(spec.config, RootsOfCluster(spec.config, coordinator))
    paths = ClusterPaths(spec.config.root, spec.config.cluster_id).job(spec.job_id)
    runs, graphs = RunStore(coordinator, paths), JobGraphStore(coordinator, store, paths)
    led = paths.submission_led(spec.run, spec.attempt)

    alive_at: datetime | None = None

    def admit() -> None:
        nonlocal alive_at
        alive_at = last_heartbeat(coordinator, paths)  # before the first heartbeat of this leader
        check_admission(runs.get(spec.run), graphs.pointer(), spec.attempt, spec.submission_id)
        check_first_lead(read_record(coordinator, led, SubmissionLed))  # guard: submission-leads-twice

    def also(epoch: int) -> tuple[Op, ...]:
        return (Create(led, led_record(epoch, clock).to_bytes()),)

    leadership = acquire(
        coordinator,
        paths,
        timings=spec.config.timings,
        clock=clock,
        describe=lambda epoch: leader_info(spec, epoch, clock).to_bytes(),
        timeout=None,
        admit=admit,
        also=also,
    )
    if coordinator.session not in (None, session):
        # The first session ended during the wait for the lock; the supervisor has to close the session that leads.
        write_session(spec.home.session, coordinator.session)
    run = runs.get(spec.run).run
    return DriverSession(coordinator, store, paths, graphs, leadership, run, graphs.read_graph(run.graph), alive_at)


def last_heartbeat(coordinator: Coordinator, paths: JobPaths) -> datetime | None:
    """Return the time of the last leader's last heartbeat; ``None`` if there was no leader, or it cannot be read."""
    node = coordinator.find(paths.heartbeat)
    try:
        return None if node is None or not node.data else datetime.fromisoformat(node.data.decode())
    except ValueError:
        return None


def check_admission(view: RunView, pointer: GraphPointer | None, attempt: int, submission_id: str) -> None:
    """Refuse a submission that may not lead. Pure.

    Its number alone is not enough: after a rebuild of the tree, that number may belong to another submission than that
    of the driver started into the empty tree.

    :raises JobStateError: The run has a result, a newer submission exists, the number is another submission's, or the
        job's graph is another run's.
    """
    number = view.run.number
    if view.result is not None:  # guard: admission-result
        raise JobStateError(f"run {number} is {view.result.state.value}: it is never run again")
    newest = view.newest
    if newest is None or newest.submission.attempt != attempt:
        found = newest.submission.attempt if newest else None
        raise JobStateError(f"submission {attempt} of run {number} is not the newest one ({found})")
    if newest.submission.submission_id != submission_id:  # guard: intruders-lead-a-rebuilt-run
        raise JobStateError(f"submission {attempt} of run {number} is another submission than that of this driver")
    if pointer is None or pointer.run != number:
        raise JobStateError(f"the job's graph pointer is {pointer and pointer.run}, not that of run {number}")


def check_first_lead(found: tuple[SubmissionLed, int] | None) -> None:
    """Refuse a submission that has led before. Pure.

    This also applies to this very process: its session ended between the grant and the answer to it.

    :param found: The evidence, and its version.
    :raises JobStateError: It has.
    """
    if found is not None:
        led = found[0]
        raise JobStateError(
            f"this submission has led epoch {led.epoch} already, as pid {led.pid} on {led.host}",
            next_step="Let the job be recovered as a new attempt: only a recovery may start a driver again",
        )


def led_record(epoch: int, clock: Clock) -> SubmissionLed:
    """Return the record that this process writes with the grant of the leadership."""
    return SubmissionLed(
        process=PROCESS,
        epoch=epoch,
        host=socket.gethostname(),
        pid=os.getpid(),
        at=clock.now(),
        class_archive=class_archive(),
    )


def leader_info(spec: DriverSpec, epoch: int, clock: Clock, *, standby: bool = False) -> LeaderInfo:
    """Return the record of this process as the leader of a submission's job."""
    return LeaderInfo(
        epoch=epoch,
        run=spec.run,
        attempt=spec.attempt,
        host=socket.gethostname(),
        pid=os.getpid(),
        since=clock.now(),
        standby=standby,
    )
