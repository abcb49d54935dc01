"""Which jobs a new leader of the cluster has to recover, which it has to clean up after, and which it leaves alone.

``look`` reads one job, ``judge`` decides. The order of the reads is the contract: results first, then graphs
(R3). A run with a result is never run again, even if a graph pointer still names it (FLINK-10011); it is cleaned up.
A job without a pointer is not recovered: the pointer exists if and only if a new leader has to.

What is broken is kept apart from what is unknown. Broken (a record that is not what was written, a graph
or a file of it that is gone from a root that is there) is a reason for quarantine. An unavailable storage or ZooKeeper,
or a root that is not mounted, is an error of ``look`` and says nothing about the job. A quarantine from a time when the
files of all jobs were missing ends when they are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.model import GraphPointer, JobGraph, JobState
from airflow_provider_ha.jobs.observe import assemble, first_reads, in_one_session
from airflow_provider_ha.jobs.quarantine import may_end, reason_of
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.store import ObjectStore


class Action(str, Enum):
    """What a leader of the cluster does about a job."""

    LEAVE = "leave"
    RECOVER = "recover"
    WAIT = "wait"
    CLEAN_UP = "clean up"
    QUARANTINE = "quarantine"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision and why.

    ``WAIT`` is for a run whose newest submission is on its way and has not led yet: it is recovered when it takes too
    long, which one read cannot show.
    """

    action: Action
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobObservation:
    """One job as it was seen.

    :param led: Whether a leader node exists.
    :param snapshot: The job; ``None`` when it is in quarantine, or broken.
    :param dirty: Runs that are over and whose clean-up has not ended.
    :param graph: The graph of the newest run; read only when it may have to be run.
    :param quarantined: Why it is in quarantine.
    :param broken: What is broken.
    :param outage: Whether the files of every job are missing.
    :param over: Node of its quarantine, when that was because of an outage that is over.
    """

    job_id: str
    led: bool = False
    snapshot: JobStatus | None = None
    dirty: tuple[int, ...] = ()
    graph: JobGraph | None = None
    quarantined: str | None = None
    broken: str | None = None
    outage: bool = False
    over: Node | None = None


def look(coordinator: Coordinator, store: ObjectStore, cluster: ClusterPaths, job_id: str) -> JobObservation:
    """Read what :func:`judge` needs to know about a job.

    :raises UnknownJobError: There is no such job.
    :raises NotConnectedError, StorageUnavailableError: It could not be found out: says nothing about the job.
    """
    paths = cluster.job(job_id)
    return in_one_session(coordinator, paths.label, lambda: _look(coordinator, store, cluster, paths))


def _look(coordinator: Coordinator, store: ObjectStore, cluster: ClusterPaths, paths: JobPaths) -> JobObservation:
    job_id, quarantine = paths.job_id, cluster.quarantined(paths.job_id)
    first = coordinator.read(Reads((quarantine,)) + first_reads(paths))
    led = first.nodes[paths.leader] is not None
    node = first.nodes[quarantine]
    held = None if node is None else JobObservation(job_id=job_id, led=led, quarantined=reason_of(node))
    if held is not None and node is not None and not may_end(node):
        return held
    try:
        snapshot = assemble(coordinator, paths, first)
        over = snapshot.run is not None and snapshot.run.result is not None
        dirty = _dirty(RunStore(coordinator, paths)) if over else ()
        graph = _graph(JobGraphStore(coordinator, store, paths), store, snapshot) if _idle(snapshot) else None
    except (RecordCorruptError, ObjectMissingError) as error:
        outage = isinstance(error, ObjectMissingError) and next(iter(store.list(keys.BLOBS)), None) is None
        found = coordinator.find(paths.leader) is not None
        return held or JobObservation(job_id=job_id, led=found, broken=error.message, outage=outage)
    if held is not None:
        return replace(held, over=node)
    return JobObservation(job_id=job_id, led=led, snapshot=snapshot, dirty=dirty, graph=graph)


def judge(sight: JobObservation) -> Judgement:  # noqa: PLR0911  # one return per case reads best
    """Decide about a job. Pure."""
    if sight.over is not None:
        return Judgement(Action.RELEASE, f"what was missing is there again ({sight.quarantined})")
    if sight.quarantined is not None:
        return Judgement(Action.LEAVE, f"in quarantine: {sight.quarantined}")
    if sight.broken is not None:
        return Judgement(Action.LEAVE if sight.led else Action.QUARANTINE, sight.broken)
    snapshot = sight.snapshot
    if snapshot is None or snapshot.run is None:
        stray = snapshot is not None and snapshot.graph is not None
        return Judgement(*((Action.QUARANTINE, "it has a graph, but no run") if stray else (Action.LEAVE, "no run")))
    if snapshot.run.result is not None:  # guard: result-is-final
        return _judge_ended(sight, snapshot, snapshot.run.result.state)
    if snapshot.leader is not None and snapshot.state is not JobState.LOST:
        return Judgement(Action.LEAVE, f"led by epoch {snapshot.leader.epoch}")
    if snapshot.graph is None:
        return Judgement(Action.LEAVE, f"run {snapshot.run.run.number} has no graph pointer: it needs no recovery")
    return _judge_live(snapshot, snapshot.graph, snapshot.run.run.number)


def _judge_ended(sight: JobObservation, snapshot: JobStatus, state: JobState) -> Judgement:
    if sight.led:
        return Judgement(Action.LEAVE, f"{state.value}, and its leader is still there")
    if snapshot.graph is not None:  # guard: stray-pointer-goes
        # guard: dirty-with-pointer
        return Judgement(Action.CLEAN_UP, f"{state.value}, but it still has a graph pointer: it is never run again")
    if sight.dirty:  # guard: clean-up-without-pointer
        return Judgement(Action.CLEAN_UP, f"{state.value}, and not cleaned up yet")
    return Judgement(Action.LEAVE, state.value)


def _judge_live(snapshot: JobStatus, pointer: GraphPointer, run: int) -> Judgement:
    if pointer.run != run:  # guard: pointer-of-this-run
        return Judgement(Action.QUARANTINE, f"its graph pointer is of run {pointer.run}, its newest run is {run}")
    if snapshot.state is JobState.LOST:
        return Judgement(Action.RECOVER, f"run {run} has lost its driver, epoch {snapshot.epoch}")
    return Judgement(Action.WAIT, f"run {run} is {snapshot.state.value} and has no leader yet")


def _dirty(runs: RunStore) -> tuple[int, ...]:
    # guard: results-dirty-listing
    return tuple(number for number, result in runs.results().items() if result.cleanup == "DIRTY")


def _idle(snapshot: JobStatus) -> bool:
    """Whether a leader of the cluster may have to run the job: only then its graph is worth reading."""
    run = snapshot.run
    lost = snapshot.leader is None or snapshot.state is JobState.LOST
    return run is not None and run.result is None and snapshot.graph is not None and lost


def _graph(graphs: JobGraphStore, store: ObjectStore, snapshot: JobStatus) -> JobGraph:
    """Read the graph of the newest run, and see whether its files are there.

    :raises ObjectMissingError, RecordCorruptError: It cannot be run from what is there.
    """
    assert snapshot.run is not None, "an idle job has a run"  # noqa: S101  # checked by the caller
    graph = graphs.read_graph(snapshot.run.run.graph)
    for artifact in graph.artifacts:
        found = store.info(keys.blob(artifact.blob.sha256))
        if found is None or found.size != artifact.blob.size:
            raise ObjectMissingError(f"file {artifact.name!r} of its graph is not in storage, or is truncated")
    return graph
