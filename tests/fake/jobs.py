"""A job on the fake ensemble: real submit, jobs and coordination code; only the engine records instead of starting."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.host.engines.engine import Observation, RunningSubmission
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, Run, RunResult, StartPoint
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, Submission
from airflow_provider_ha.timings import Timings
from tests.engine_helpers import NothingToSee, handle, started
from tests.fake.memory_store import MemoryStore
from tests.support.clusters.jobs_helpers import admit_attempt
from tests.support.fake import FakeCoordinator, FakeEnsemble
from tests.support.fake.tree import Tree


TIMINGS = Timings(session_timeout=4.0, heartbeat_interval=0.5, heartbeat_timeout=0.5, connect_timeout=0.5, margin=0.25)
CONFIG = HaConfig.build(zookeeper="fake:1", storage_root="file:///nowhere", cluster_id="fake", timings=TIMINGS)
PATHS: JobPaths = ClusterPaths(CONFIG.root, CONFIG.cluster_id).job("flights")
_STARTED = started()


class RecordingEngine(NothingToSee):
    """Takes every submission, and remembers it."""

    name = "local"
    facts = replace(NothingToSee.facts, launch_seconds=30.0)

    def __init__(self) -> None:
        self.launched: list[tuple[int, int]] = []
        self._found: set[str] = set()

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        self.launched.append((ticket.run, ticket.attempt))
        self._found.add(ticket.submission_id)
        return handle()

    def seen(self, submission_id: str, known: DriverHandle | None) -> Observation:
        if known is None and submission_id in self._found:
            return RunningSubmission(handle())
        return super().seen(submission_id, known)


@dataclass
class World:
    """One job, and the processes around it.

    :ivar leaderships: Every leadership that was granted, with the run it was for.
    """

    ensemble: FakeEnsemble
    store: MemoryStore
    engine: RecordingEngine = field(default_factory=RecordingEngine)
    leaderships: list[Leadership] = field(default_factory=list)

    def session(self, name: str) -> FakeCoordinator:
        return self.ensemble.connect(CONFIG, name=name)

    def job(self, coordinator: Coordinator) -> JobContext:
        return JobContext(
            job_id="flights",
            config=CONFIG,
            coordinator=coordinator,
            store=self.store,
            engines=Engines.only(self.engine),
            clock=self.ensemble.clock,
            sleep=self.ensemble.sleep,
        )

    def lead(self, job: JobContext, *, run: int, attempt: int) -> Leadership:
        """Become the leader as a driver does: admitted by the same rule, tried once."""

        def describe(epoch: int) -> bytes:
            now = self.ensemble.clock.now()
            return LeaderInfo(epoch=epoch, run=run, attempt=attempt, host="host", pid=1, since=now).to_bytes()

        leadership = acquire(
            job.coordinator,
            job.paths,
            timings=TIMINGS,
            clock=self.ensemble.clock,
            describe=describe,
            timeout=0,
            admit=lambda: admit_attempt(job, run, attempt),
        )
        self.leaderships.append(leadership)
        return leadership

    def finish(self, job: JobContext, leadership: Leadership, *, run: int) -> None:
        """End the run as its driver does: result and removal of the graph pointer in one fenced transaction."""
        result = RunResult(state=JobState.FINISHED, epoch=leadership.epoch, at=self.ensemble.clock.now())
        removal = job.graphs.remove_op(run)
        leadership.commit(job.runs.result_op(run, result), *([removal] if removal else []))


@dataclass(frozen=True)
class Prepared:
    """What every schedule of a test begins with: made once, copied for each."""

    tree: Tree
    zxid: int
    objects: dict[str, tuple[bytes, object]]
    graph: Blob

    def world(self, *, seed: int = 0) -> World:
        ensemble = FakeEnsemble(seed=seed, members=1)
        ensemble.tree, ensemble.zxid = self.tree.copy(), self.zxid
        store = MemoryStore(ensemble.clock)
        store.objects = dict(self.objects)  # type: ignore[arg-type]  # the same values
        return World(ensemble, store)


def prepare(*, led: bool, submissions: int = 1, **options: Any) -> Prepared:
    """Make a live run whose submissions have started; *led*: epoch 1 was granted to the first, and was lost.

    :param options: Of the job; without a delay of a restart by default.
    """
    ensemble = FakeEnsemble(members=1)
    world = World(ensemble, MemoryStore(ensemble.clock))
    session = world.session("maker")
    job = world.job(session)
    blob = Blob(sha256="0" * 64, size=1)
    graph = job.graphs.write_graph(
        JobGraph(
            job_id="flights",
            name="flights",
            application=Artifact(name="app.py", blob=blob),
            options=HaOptions(**{"restart_delay": 0, **options}),
        )
    )
    now = ensemble.clock.now()
    create_job(session, job.paths)
    run = Run(number=1, graph=graph, start=StartPoint(), request_id="request-1", created_at=now)
    pointer = job.graphs.pointer_op(GraphPointer(graph=graph, run=1))
    session.commit(job.runs.create_op(run), Create(PATHS.submissions(1)), pointer)
    session.ensure(PATHS.epoch, PATHS.heartbeat)
    for attempt in range(1, submissions + 1):
        submission = Submission(
            attempt=attempt, submission_id=f"s-{attempt}", requested_by="test", engine="local", created_at=now
        )
        session.commit(Create(PATHS.submission(1, attempt), submission.to_bytes()))
        session.commit(Create(PATHS.submission_started(1, attempt), _STARTED.to_bytes()))
        if attempt == 1 and led:
            lost = world.session("lost")
            world.lead(world.job(lost), run=1, attempt=1)
            lost.close()
    session.close()
    return Prepared(ensemble.tree, ensemble.zxid, dict(world.store.objects), graph)
