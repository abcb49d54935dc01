"""Where many jobs stand, at five reads each and two round trips for all: which of them are worth a look.

A look (:mod:`~airflow_provider_ha.jobs.recoverable`) reads a job as a whole, and its graph. Most jobs of a cluster are
led and need none. The order of the reads is that of a snapshot (:mod:`~airflow_provider_ha.jobs.status`): the epoch
before the leader, the leader before the exit, the exit before the result.

Invariant: a job that is called led or idle needs nothing. Of every other one a look decides: here nothing is acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from airflow_provider_ha.coordination.coordinator import Coordinator, PathWatch
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.leader_node import readable_leader
from airflow_provider_ha.jobs.model import GraphPointer, LeaderInfo
from airflow_provider_ha.jobs.status import in_one_session


_AT_ONCE = 500  # jobs in one round trip: their answers fit the time of a heartbeat


class Standing(Enum):
    """Where a job stands."""

    LED = "led"
    IDLE = "idle"  # it has no graph pointer: no new leader has to recover it
    LOST = "lost"
    STARTING = "starting"
    ENDED = "ended"  # and still has its pointer
    QUARANTINED = "in quarantine"
    UNCLEAR = "unclear"  # another release wrote its pointer, it was never submitted, or a record cannot be read

    @property
    def needs_a_look(self) -> bool:
        """Whether something may have to be done about it."""
        return self not in (Standing.LED, Standing.IDLE)


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One job as it was seen.

    :param epoch: Epoch of its leader; 0 without one.
    :param leader: Its leader, when it is led.
    :param pointer: Its graph pointer, when it has one that can be read: names the newest run and attempt.
    :param last_epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param mark: Changes with each change of what was read.
    :param over: Whether a job in quarantine has nothing to recover.
    """

    job_id: str
    standing: Standing
    epoch: int = 0
    leader: LeaderInfo | None = field(default=None, compare=False)
    pointer: GraphPointer | None = field(default=None, compare=False)
    last_epoch: int = field(default=0, compare=False)
    mark: tuple[int | None, ...] = field(default=(), compare=False)
    over: bool = field(default=False, compare=False)


def survey(
    coordinator: Coordinator, cluster: ClusterPaths, job_ids: Iterable[str], *, watch: PathWatch | None = None
) -> Iterator[Surveyed]:
    """Yield where each job stands.

    :param watch: Called with the path of a node that was read, when it may have changed.
    :raises NotConnectedError: It could not be found out: says nothing about any job.
    """
    kept_apart = set(coordinator.children(cluster.quarantine))
    jobs = [cluster.job(job_id) for job_id in job_ids]
    for start in range(0, len(jobs), _AT_ONCE):
        some = jobs[start : start + _AT_ONCE]
        for seen in in_one_session(coordinator, f"{len(some)} jobs", partial(_survey, coordinator, some, watch)):
            yield _apart(seen) if seen.job_id in kept_apart else seen


def _apart(seen: Surveyed) -> Surveyed:
    over = seen.standing in (Standing.IDLE, Standing.ENDED)
    return replace(seen, standing=Standing.QUARANTINED, epoch=0, over=over)


def _survey(coordinator: Coordinator, jobs: list[JobPaths], watch: PathWatch | None) -> list[Surveyed]:
    first = coordinator.read(
        Reads(tuple(path for job in jobs for path in (job.epoch, job.leader, job.job_graph))), watch=watch
    ).nodes
    pointers = {job.job_id: _pointer(first[job.job_graph]) for job in jobs}
    ends = {
        job.job_id: (job.submission_exit(pointer.run, pointer.attempt), job.run_result(pointer.run))
        for job in jobs
        if (pointer := pointers[job.job_id]) is not None and pointer.attempt > 0
    }
    second = coordinator.read(Reads(tuple(path for pair in ends.values() for path in pair)), watch=watch).nodes
    return [_surveyed(job, first, pointers[job.job_id], ends.get(job.job_id, ()), second) for job in jobs]


def _surveyed(
    job: JobPaths,
    first: Mapping[str, Node | None],
    pointer: GraphPointer | None,
    ends: tuple[str, ...],
    second: Mapping[str, Node | None],
) -> Surveyed:
    read = [first[job.epoch], first[job.leader], first[job.job_graph], *(second[path] for path in ends)]
    leader, epoch = readable_leader(first[job.leader]), first[job.epoch]
    standing = _standing(job, first, leader, pointer, [second[path] for path in ends])
    led = leader if standing is Standing.LED else None
    return Surveyed(
        job.job_id,
        standing,
        led.epoch if led is not None else 0,
        leader=led,
        pointer=pointer,
        last_epoch=epoch.version if epoch is not None else 0,
        mark=tuple(None if node is None else node.modified_zxid for node in read),
    )


def _standing(
    job: JobPaths,
    first: Mapping[str, Node | None],
    leader: LeaderInfo | None,
    pointer: GraphPointer | None,
    ends: Sequence[Node | None],
) -> Standing:
    node, epoch = first[job.job_graph], first[job.epoch]
    if node is None:
        return Standing.IDLE
    if pointer is None or not ends:
        return Standing.UNCLEAR
    left, result = ends
    if result is not None:
        return Standing.ENDED
    if left is not None:
        return Standing.LOST
    if first[job.leader] is not None:
        is_its = leader is not None and (leader.run, leader.attempt) == (pointer.run, pointer.attempt)
        return Standing.LED if is_its else Standing.UNCLEAR  # its node outlives it, or it only cleans up
    has_led = epoch is not None and epoch.version > 0 and epoch.modified_zxid > node.modified_zxid
    return Standing.LOST if has_led else Standing.STARTING


def _pointer(node: Node | None) -> GraphPointer | None:
    if node is None:
        return None
    try:
        return GraphPointer.from_bytes(node.data, source=node.path)
    except RecordCorruptError:
        return None
