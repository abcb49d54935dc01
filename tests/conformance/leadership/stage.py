"""One cluster on the fake ensemble, in virtual time: real graphs, real directories, and an engine that starts nothing.

Each actor has its own session, as in a separate process. All clocks are the ensemble's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Create, Node, Op
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths, Lock
from airflow_provider_ha.fleet.reconciler import Reconciler, ReconcileTimings
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import Generation, JobState, LeaderInfo, RunResult
from airflow_provider_ha.timings import Timings
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import admit_attempt
from tests.support.fake import FakeCoordinator, FakeEnsemble


JOB = "flights"
TIMINGS = Timings(session_timeout=10.0, heartbeat_interval=0.5, heartbeat_timeout=0.5, connect_timeout=0.5, margin=0.25)
AT_ONCE = ReconcileTimings(debounce=0.0, start_timeout=600.0, poll=0.05)


class Stage:
    """The ensemble, one cluster on it, and who acts there."""

    def __init__(self, folder: Path) -> None:
        self.ensemble = FakeEnsemble(tick=0.5)
        self.config = HaConfig.build(
            zookeeper="fake:1", storage_root=f"file://{folder}/storage", cluster_id="conformance", timings=TIMINGS
        )
        self.coordinator = self.session("test")
        self.cluster = Cluster(self.config, self.coordinator, folder, clock=self.ensemble.clock)
        self.paths: JobPaths = self.cluster.paths(JOB)
        self.coordinator.ensure(self.cluster.client.paths.quarantine)

    def session(self, name: str) -> FakeCoordinator:
        return self.ensemble.connect(self.config, name=name)

    def job(self, session: Any = None, job_id: str = JOB) -> JobContext:
        """Return a job as the owner of a session sees it."""
        return self.cluster.open(session or self.coordinator, clock=self.ensemble.clock).context(job_id)

    # Locks.

    def acquire(self, session: Any, lock: Lock | None = None, **options: Any) -> Leadership:
        """Take a lock, the job's by default; tried once."""
        settings: dict[str, Any] = {
            "timings": TIMINGS,
            "clock": self.ensemble.clock,
            "describe": lambda epoch: f"epoch {epoch}".encode(),
            "timeout": 0,
        }
        return acquire(session, lock or self.paths, **(settings | options))

    def drive(self, session: Any, job_id: str = JOB, *, attempt: int = 1) -> Leadership:
        """Lead a job as the driver of a submission of run 1: admitted by the same rule."""
        job = self.job(session, job_id)

        def describe(epoch: int) -> bytes:
            now = self.ensemble.clock.now()
            return LeaderInfo(epoch=epoch, run=1, attempt=attempt, host="host", pid=1, since=now).to_bytes()

        def admit() -> None:
            admit_attempt(job, 1, attempt)

        return self.acquire(session, job.paths, describe=describe, admit=admit)

    def lead_cluster(self, session: Any) -> Reconciler:
        """Lead the cluster, and attend to its jobs."""
        leadership = self.acquire(session, self.cluster.client.paths.lock)
        client = self.cluster.open(session, clock=self.ensemble.clock)
        return Reconciler(client, leadership, by="test", patience=AT_ONCE)

    # Jobs in a condition.

    def lost(self, job_id: str = JOB) -> None:
        """Make a job whose driver has led and is gone."""
        self.cluster.submitted(job_id)
        session = self.session(f"lost driver of {job_id}")
        self.drive(session, job_id)
        session.close()

    def result(self, leadership: Leadership, state: Any = JobState.FINISHED) -> RunResult:
        return RunResult(state=state, epoch=leadership.epoch, at=self.ensemble.clock.now())

    def finish(self, leadership: Leadership, job_id: str = JOB, *, keep_pointer: bool = False) -> None:
        """End run 1 as its driver does: result and removal of the graph pointer in one fenced transaction."""
        job = self.job(job_id=job_id)
        removal = None if keep_pointer else job.graphs.remove_op(1)
        leadership.commit(job.runs.result_op(1, self.result(leadership)), *([removal] if removal else []))

    def dirty(self, job_id: str = JOB, *, keep_pointer: bool = False) -> None:
        """Make a job with a DIRTY result, as a driver leaves it that dies before its clean-up."""
        self.cluster.submitted(job_id)
        session = self.session(f"ended driver of {job_id}")
        self.finish(self.drive(session, job_id), job_id, keep_pointer=keep_pointer)
        session.close()

    def directories(self, *names: str, current: str, job_id: str = JOB) -> Path:
        """Make working directories of a job; returns their parent. *current* is the one that a restore reads."""
        job = self.job(job_id=job_id)
        generation = Generation(run=1, epoch=9, directory=f"{job.keys.base}/live/{current}")
        self.coordinator.commit(Create(job.paths.generation, generation.to_bytes()))
        live = self.config.work_path / job.keys.base / "live"
        for name in (*names, current):
            (live / name).mkdir(parents=True)
        return live

    # What is there.

    def node(self, path: str) -> Node | None:
        return self.ensemble.tree.get(path)

    def cleanup(self, job_id: str = JOB) -> str | None:
        """Return what the result of run 1 says of its clean-up."""
        found = self.job(job_id=job_id).runs.result(1)
        return None if found is None else found.cleanup

    def writers(self, path: str) -> list[str]:
        """Return who changed a node, in order."""
        return [done.client for done in self.ensemble.history if any(self._changes(op, path) for op in done.ops)]

    def below(self, path: str) -> list[str]:
        """Return every node below *path*."""
        names = self.ensemble.tree.children(path) or []
        return [found for name in names for found in (f"{path}/{name}", *self.below(f"{path}/{name}"))]

    @staticmethod
    def _changes(op: Op, path: str) -> bool:
        return op.path == path and type(op).__name__ != "Check"


class Interrupted:
    """A session in which something happens right before the first transaction that fits."""

    def __init__(self, inner: Any, before: Callable[[Op], bool], event: Callable[[], object]) -> None:
        self._inner = inner
        self._before = before
        self._event: Callable[[], object] | None = event

    def commit(self, *ops: Op, timeout: float | None = None) -> list[int]:
        if self._event is not None and any(map(self._before, ops)):
            event, self._event = self._event, None
            event()
        return self._inner.commit(*ops, timeout=timeout)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
