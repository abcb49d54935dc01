"""A cluster as a person finds it at night: jobs in every state, with a past. Every record is written as it would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow_provider_ha.checkpoints.model import (
    CheckpointKind,
    CheckpointPointer,
    QuerySink,
    SavepointPointer,
    SinkKind,
)
from airflow_provider_ha.checkpoints.plan_model import (
    Candidate,
    PlanFinding,
    QueryPlan,
    RestorePlan,
    SourceInput,
    Verdict,
)
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, GraphPointer, JobGraph
from airflow_provider_ha.jobs.model import (
    JobState,
    LeaderInfo,
    QueryStatus,
    Recovery,
    Run,
    RunResult,
    StartKind,
    StartPoint,
    Status,
)
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.progress_history import ProgressHistory, ProgressPoint
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import (
    DriverHandle,
    Failure,
    FailureKind,
    Submission,
    SubmissionExit,
    SubmissionLed,
    SubmissionStarted,
)
from airflow_provider_ha.jobs.verification.verification_records import (
    Drill,
    DrilledQuery,
    DrillStore,
    DrillVerdict,
    FindingRecord,
    LastVerification,
    write_last_verification,
)
from airflow_provider_ha.storage.blobs import put_blob
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore


HOSTILE = "<script>document.title='taken over'</script>"
HOURS = timedelta(hours=1)


def now() -> datetime:
    """Return the present, to the second."""
    return datetime.now(timezone.utc).replace(microsecond=0)


@dataclass
class ShownJob:
    """Writes one job. Each method is one thing that happened to it.

    :param odd: Name of a query; hostile, but for pictures.
    """

    coordinator: Coordinator
    store: ObjectStore
    cluster: ClusterPaths
    job_id: str
    epoch: int = 0
    run: int = 0
    attempt: int = 0
    checkpoint: int = 0
    odd: str = HOSTILE
    graph: Blob = field(default_factory=lambda: Blob(sha256="0" * 64, size=1))
    options: HaOptions = field(default_factory=HaOptions)

    @property
    def paths(self) -> JobPaths:
        """Where it lies."""
        return self.cluster.job(self.job_id)

    def submit(self, at: datetime, start: StartPoint | None = None) -> ShownJob:
        """Make a run with its first submission."""
        create_job(self.coordinator, self.paths)
        application = Artifact(name="app.py", blob=_blob(self.store, b"print('the application')"))
        graph = JobGraph(job_id=self.job_id, name="job", application=application, options=self.options)
        self.graph = _blob(self.store, graph.to_bytes())
        self.run, self.attempt = self.run + 1, 0
        run = Run(
            number=self.run,
            graph=self.graph,
            start=start or StartPoint(),
            request_id=f"orders.submit.{self.run}",
            created_at=at,
            owner="orders",
        )
        self.coordinator.commit(
            Create(self.paths.run(self.run), run.to_bytes()), Create(self.paths.submissions(self.run))
        )
        return self.submit_again(at)

    def submit_again(self, at: datetime, *, standby: bool = False) -> ShownJob:
        """Make the next submission of the run, and with it the pointer of the graph.

        :param standby: Whether a standby driver becomes it.
        """
        self.attempt += 1
        submission = Submission(
            attempt=self.attempt,
            submission_id=f"s-{self.run}-{self.attempt}",
            requested_by="task orders.submit (worker-1, pid 410)",
            engine="local",
            lost_epoch=self.epoch if self.attempt > 1 else None,
            standby=standby,
            created_at=at,
        )
        pointer = GraphPointer(graph=self.graph, run=self.run, attempt=self.attempt).to_bytes()
        there = self.coordinator.find(self.paths.job_graph)
        node = Create(self.paths.job_graph, pointer) if there is None else SetData(self.paths.job_graph, pointer)
        self.coordinator.commit(Create(self.paths.submission(self.run, self.attempt), submission.to_bytes()), node)
        return self

    def stand_by(self, standby_id: str, at: datetime, note: str = "") -> ShownJob:
        """Have a standby driver join the run: one without a note is ready."""
        standby = Standby(
            standby_id=standby_id,
            level=StandbyLevel.CONNECTED if note else StandbyLevel.SESSION,
            since=at,
            host="worker-1",
            pid=5000,
            log=f"file://worker-1/var/log/spark-ha/{self.job_id}/{standby_id}/driver.log",
            note=note,
        )
        assert StandbyStore(self.coordinator, self.paths, self.run).join(standby, self.options.standby_drivers)
        return self

    def lead(self, at: datetime, host: str = "worker-1") -> ShownJob:
        """Have the newest submission lead."""
        self.epoch += 1
        led = SubmissionLed(process="p", epoch=self.epoch, host=host, pid=4000 + self.epoch, at=at)
        started = SubmissionStarted(
            handle=DriverHandle(engine="local", log_uri=f"file://{host}/var/log/spark-ha/{self.job_id}/driver.log")
        )
        leader = LeaderInfo(
            epoch=self.epoch, run=self.run, attempt=self.attempt, host=host, pid=4000 + self.epoch, since=at
        )
        if self.coordinator.find(self.paths.epoch) is None:
            self.coordinator.commit(Create(self.paths.epoch))
        self.coordinator.commit(
            SetData(self.paths.epoch, b""),
            Create(self.paths.leader, leader.to_bytes(), ephemeral=True),
            Create(self.paths.submission_started(self.run, self.attempt), started.to_bytes()),
            Create(self.paths.submission_led(self.run, self.attempt), led.to_bytes()),
        )
        return self

    def status(
        self, at: datetime, *, state: JobState = JobState.RUNNING, message: str = "", lag: int | None = None
    ) -> ShownJob:
        """Have the leader write what it does."""
        queries = {
            "revenue": QueryStatus(planned=311, committed=310, sink="s3a://lake/revenue", lag=lag),
            "late": QueryStatus(planned=309, committed=309, sink="s3a://lake/late"),
        }
        if self.odd != HOSTILE:
            queries[self.odd] = QueryStatus(planned=309, committed=309, sink="s3a://lake/hourly")
        status = Status(state=state, run=self.run, epoch=self.epoch, queries=queries, message=message, at=at)
        there = self.coordinator.find(self.paths.status)
        if there is None:
            self.coordinator.commit(Create(self.paths.status, status.to_bytes()))
        else:
            self.coordinator.commit(SetData(self.paths.status, status.to_bytes()))
        return self

    def take_checkpoint(self, at: datetime) -> ShownJob:
        """Complete a checkpoint."""
        self.checkpoint += 1
        others = ("late",) if self.odd == HOSTILE else ("late", self.odd)
        pointer = CheckpointPointer(
            number=self.checkpoint,
            epoch=self.epoch,
            run=self.run,
            reason=CheckpointKind.PERIODIC,
            payload=f"jobs/{self.job_id}/payloads/{self.checkpoint}",
            sha256="0" * 64,
            size=48_211,
            cut={"revenue": 307 + self.checkpoint, **dict.fromkeys(others, 306 + self.checkpoint)},
            created_at=at,
            seconds=0.84,
            state_size=3_412_000_000,
        )
        self.coordinator.commit(Create(self.paths.checkpoint(self.checkpoint), pointer.to_bytes()))
        return self

    def take_savepoint(self, savepoint_id: str, at: datetime, label: str = "") -> ShownJob:
        """Complete a savepoint."""
        pointer = SavepointPointer(
            savepoint_id=savepoint_id,
            directory=f"jobs/{self.job_id}/savepoints/{savepoint_id}",
            manifest_sha256="0" * 64,
            size=3_412_000_000,
            cut={"revenue": 280, "late": 279},
            label=label,
            created_at=at,
        )
        self.coordinator.commit(Create(self.paths.savepoint(savepoint_id), pointer.to_bytes()))
        return self

    def commit_batches(self, begin: datetime, end: datetime, *, every: timedelta = timedelta(minutes=5)) -> ShownJob:
        """Commit batches of three queries, one of which has a source that tells its lag, and keep their history."""
        history = ProgressHistory(self.store, JobKeys(self.job_id), self.epoch)
        for number in range((end - begin) // every):
            for position, query in enumerate(("revenue", "late", self.odd)):
                seconds = 2.0 + position + (number % 7) / 5
                history.add(
                    ProgressPoint(
                        at=begin + number * every,
                        query=query,
                        batch=number,
                        batch_seconds=seconds,
                        longest_seconds=seconds,
                        input_rows=1_000 * (position + 1),
                        input_rate=120.0 * (position + 1) + number % 11,
                        lag=40 * (number % 13) if query == "revenue" else None,
                    )
                )
        history.write(end)
        return self

    def lose(self, at: datetime, *, failure: Failure | None = None, reason: str = "", proven: bool = True) -> ShownJob:
        """Lose the driver: its leader node goes, and where it is proven, its exit is written."""
        self.coordinator.commit(
            *self._leader_gone(),
            *([Create(self._exit, self._exit_of(at, failure, reason).to_bytes())] if proven else []),
        )
        return self

    def recover(self, at: datetime, by: str = "cluster leader on airflow-1") -> ShownJob:
        """Have the loss recovered: the claim, and the next submission."""
        claim = Recovery(lost_epoch=self.epoch, run=self.run, attempt=self.attempt, by=by, at=at)
        self.coordinator.commit(Create(self.paths.recovery(self.epoch), claim.to_bytes()))
        return self.submit_again(at)

    def end(self, at: datetime, state: JobState, reason: str = "", failure: Failure | None = None) -> ShownJob:
        """Write the result of the run, and take its graph away."""
        result = RunResult.model_validate(
            {"state": state, "epoch": self.epoch, "reason": reason, "at": at, "failure": failure, "cleanup": "CLEAN"}
        )
        self.coordinator.commit(
            *self._leader_gone(),
            Create(self.paths.run_result(self.run), result.to_bytes()),
            Delete(self.paths.job_graph),
            Create(self._exit, self._exit_of(at, failure, reason).to_bytes()),
        )
        return self

    def drill(self, at: datetime, verdict: DrillVerdict, *, reasons: Sequence[str] = ()) -> ShownJob:
        """Have a restore drill over."""
        DrillStore(self.store, JobKeys(self.job_id)).add(
            Drill(
                drill_id=f"drill-{at:%Y%m%d%H%M}",
                job_id=self.job_id,
                source=f"checkpoint-{max(self.checkpoint, 1)}",
                taken_at=at - timedelta(minutes=2),
                cut={"revenue": 280},
                size=3_412_000_000,
                age_seconds=131.0,
                started_at=at,
                seconds={"choose": 0.2, "verify": 3.1, "load": 21.0, "start": 8.0},
                total_seconds=32.3,
                verdict=verdict,
                reasons=tuple(reasons),
                queries={"revenue": DrilledQuery(batch=280, loaded="proven", started="proven", state_rows=12)},
                spark_version="4.2.0",
                requested_by="DAG weekly_drills",
            )
        )
        return self

    def verify(self, at: datetime, *, problem: str = "", findings: Sequence[FindingRecord] = ()) -> ShownJob:
        """Have the newest checkpoint verified."""
        found = LastVerification(
            job_id=self.job_id,
            source=f"checkpoint-{self.checkpoint}",
            taken_at=at - timedelta(minutes=2),
            cut={"revenue": 280},
            at=at,
            depth="full",
            restorable=not problem,
            problem=problem,
            findings=tuple(findings),
            requested_by="orders.verify",
        )
        write_last_verification(self.store, JobKeys(self.job_id), found)
        return self

    @property
    def _exit(self) -> str:
        return self.paths.submission_exit(self.run, self.attempt)

    def _exit_of(self, at: datetime, failure: Failure | None, reason: str) -> SubmissionExit:
        return SubmissionExit(code=1 if failure else -9, reason=reason, failure=failure, at=at, ran=True)

    def _leader_gone(self) -> list[Op]:
        return [Delete(self.paths.leader)] if self.coordinator.find(self.paths.leader) is not None else []


def a_plan(store: ObjectStore, job_id: str, at: datetime, savepoint: str) -> StartPoint:
    """Return a start from a savepoint, by a plan that a person had to accept."""
    plan = RestorePlan(
        job_id=job_id,
        source_job=job_id,
        source="savepoint",
        source_id=savepoint,
        directory=f"jobs/{job_id}/savepoints/{savepoint}",
        verdict=Verdict.DUPLICATES_POSSIBLE,
        reasons=("batches 281 to 283 were given to the function and are given to it again",),
        queries={
            "revenue": QueryPlan(
                batch=280,
                sink=QuerySink(kind=SinkKind.FOREACH_BATCH),
                inputs=(SourceInput(source="orders", unit="rows", amount=12_400, gone=0),),
            )
        },
        candidates=(
            Candidate(
                source="checkpoint-1",
                number=1,
                cut={"revenue": 283},
                created_at=at,
                accepted=False,
                file="revenue/state/0/0/283.zip",
                reason="a state file is 12 bytes short",
            ),
            Candidate(
                source=f"savepoint-{savepoint}",
                savepoint_id=savepoint,
                cut={"revenue": 280},
                created_at=at,
                accepted=True,
            ),
        ),
        age_seconds=5_400,
        created_at=at,
        findings=(
            PlanFinding(
                query="revenue",
                verdict=Verdict.DUPLICATES_POSSIBLE,
                reason="batches 281 to 283 were given to the function and are given to it again",
                ways_out=(
                    "make the function idempotent by its batch id",
                    "accept it: --accept-verdicts DUPLICATES_POSSIBLE",
                ),
            ),
        ),
    )
    return StartPoint(
        kind=StartKind.SAVEPOINT, source_job=job_id, source_id=savepoint, plan=_blob(store, plan.to_bytes())
    )


def a_mistake(odd: str) -> Failure:
    """Return an error of an application, whose message holds a text of others."""
    return Failure(
        kind=FailureKind.APPLICATION,
        error_class="KeyError",
        message=f"'price' {odd}".rstrip(),
        query="revenue",
        batches={"revenue": 310},
        location="app.py, line 44",
    )


def write_cluster(
    coordinator: Coordinator, store: ObjectStore, cluster: ClusterPaths, *, others: int = 4, odd: str = HOSTILE
) -> None:
    """Write the cluster: one job that runs and has a past, one that is lost, one that failed, and healthy others.

    :param odd: Text of others, which a page must not trust: a query's name, a message.
    """
    at, mistake = now(), a_mistake(odd if odd == HOSTILE else "")

    def job(job_id: str) -> ShownJob:
        return ShownJob(coordinator, store, cluster, job_id, odd=odd)

    orders = job("orders").submit(at - 30 * HOURS).lead(at - 30 * HOURS, "worker-2").status(at - 30 * HOURS)
    orders.commit_batches(at - 30 * HOURS, at - 20 * HOURS)
    orders.take_savepoint("before-upgrade", at - 20 * HOURS, "before the upgrade")
    orders.end(at - 20 * HOURS, JobState.FINISHED, "stopped by orders.stop")
    orders.submit(at - 19.5 * HOURS, a_plan(store, "orders", at - 19.5 * HOURS, "before-upgrade"))
    orders.lead(at - 19.5 * HOURS, "worker-2").commit_batches(at - 19.5 * HOURS, at - 7 * HOURS)
    orders.lose(at - 7 * HOURS, proven=False)
    orders.recover(at - 6.9 * HOURS).lead(at - 6.9 * HOURS, "worker-1")
    orders.commit_batches(at - 6.9 * HOURS, at - 2 * HOURS)
    orders.lose(at - 2 * HOURS, failure=mistake).submit_again(at - 1.98 * HOURS).lead(at - 1.95 * HOURS, "worker-1")
    orders.status(at, lag=1_240).commit_batches(at - 1.95 * HOURS, at)
    for minutes in (61, 31, 1):
        orders.take_checkpoint(at - timedelta(minutes=minutes))
    orders.verify(
        at - 9 * HOURS,
        findings=[FindingRecord(code="STATE_FALLBACK", file="revenue/state/0/0/283.delta", blocks=False)],
    )
    orders.drill(at - 80 * HOURS, DrillVerdict.FAILED, reasons=("it took 32 s, and 30 s were allowed",))
    orders.drill(at - 10 * HOURS, DrillVerdict.PASSED)

    payments = job("payments").submit(at - 40 * HOURS).lead(at - 40 * HOURS, "worker-3")
    payments.status(at - 40 * HOURS, lag=9_999_999)
    payments.take_checkpoint(at - timedelta(minutes=12))
    lost = "revenue/state/0/0/310.delta"
    found = [
        FindingRecord(code="STATE_MISSING", file=lost, blocks=True),
        FindingRecord(code="OF_A_LATER_RELEASE", file=odd),
    ]
    payments.verify(
        at - timedelta(minutes=5),
        problem=f"{lost}: it is not there {odd if odd == HOSTILE else ''}".rstrip(),
        findings=found,
    )
    payments.lose(at - timedelta(minutes=10), failure=mistake)

    clicks = job("clicks").submit(at - 50 * HOURS).lead(at - 50 * HOURS, "worker-3").status(at - 50 * HOURS)
    clicks.take_checkpoint(at - 3 * HOURS)
    clicks.end(at - 3 * HOURS, JobState.FAILED, "the same error came 3 times at batch 310: KeyError: 'price'", mistake)

    for number in range(others):
        healthy = job(f"sensor-{number:02d}")
        healthy.options = HaOptions(standby_drivers=2 if number == 1 else 0)
        healthy.submit(at - 90 * HOURS).lead(at - 90 * HOURS, f"worker-{number % 3 + 1}")
        if number == 1:
            healthy.stand_by("ready", at - 89 * HOURS).stand_by("waits", at - HOURS, note=f"no warm-up {odd}")
        healthy.status(at, message=odd if number == 0 else "", lag=number or None)
        healthy.take_checkpoint(at - timedelta(seconds=20 + number))


def break_storage(config: HaConfig) -> None:
    """Have storage answer no read any more."""
    root = Path(config.storage_root.removeprefix("file://"))
    root.rename(root.with_name("aside"))
    root.write_text("no directory")


def _blob(store: ObjectStore, content: bytes) -> Blob:
    sha256, size = put_blob(store, content)
    return Blob(sha256=sha256, size=size)
