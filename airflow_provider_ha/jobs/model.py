"""Records of a job in ZooKeeper and storage (design, sections 1, 3 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Literal

from pydantic import Field

from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import EarlierFailures, Failure
from airflow_provider_ha.records import Model, Record


class JobState(str, Enum):
    """State of a job, from its leader or its result; a status has RUNNING in place of STALLED, with the reason."""

    SUBMITTED = "SUBMITTED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    STALLED = "STALLED"
    STOPPING = "STOPPING"
    LOST = "LOST"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        """Whether the run is over for good: only these states clean up (design, contract 5)."""
        return self in (JobState.FINISHED, JobState.CANCELED, JobState.FAILED)


class Blob(Model):
    """A content-addressed blob.

    :param sha256: Its digest and name.
    :param size: Bytes.
    """

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class Artifact(Model):
    """A file that travels with the application.

    :param name: File name on the driver's side, without directories.
    :param blob: Its bytes.
    :param unpack: Whether it is a zipped package directory, unpacked into the directory of the application.
    :param alias: Of an archive: the directory that it is unpacked as; its own name when empty.
    """

    name: str
    blob: Blob
    unpack: bool = False
    alias: str = ""


DEFAULT_ENGINE = "local"  # of a job that names none


class Target(Model):
    """Where a job's drivers run.

    :param engine: Name of the engine that runs them.
    :param master: Spark master of the session: ``--master``.
    :param deploy_mode: Whether spark-submit itself is the driver (``client``), or the cluster starts the driver.
    :param engine_options: Options of the engine for this job; each engine has different ones.
    :param cluster_options: Options that the connection of the submission named for all jobs, where they describe the
        machines of a cluster. They count for a later client whose connection names none.
    """

    engine: str = DEFAULT_ENGINE
    master: str = "local[*]"
    deploy_mode: Literal["client", "cluster"] = "client"
    engine_options: dict[str, str] = {}
    cluster_options: dict[str, str] = {}


class JobGraph(Record):
    """Everything needed to start a run on another host tomorrow. Lies in storage, never in ZooKeeper.

    :param application: The script.
    :param arguments: Its arguments, templates already rendered.
    :param modules: Sibling modules and zipped packages, copied into the directory of the script.
    :param py_files: ``--py-files``: zips, eggs, wheels, modules.
    :param files: ``--files``: data files, found in the driver's working directory.
    :param jars: ``--jars``.
    :param archives: ``--archives``: unpacked in the working directories of driver and executors.
    :param beside: Names of data files beside the script on the host that submitted it, which do not travel.
    :param packages: ``--packages``, Maven coordinates.
    :param conf: Spark conf; travels in a file that only its owner can read.
    :param lineage: Conf for OpenLineage, below *conf*; holds no secret
        (:mod:`~airflow_provider_ha.jobs.options.conf`).
    :param env: Environment of the driver.
    :param target: Where the drivers run.
    :param driver_memory: ``--driver-memory``.
    """

    kind: ClassVar[str] = "job-graph"

    job_id: str
    name: str
    application: Artifact
    arguments: tuple[str, ...] = ()
    modules: tuple[Artifact, ...] = ()
    py_files: tuple[Artifact, ...] = ()
    files: tuple[Artifact, ...] = ()
    jars: tuple[Artifact, ...] = ()
    archives: tuple[Artifact, ...] = ()
    beside: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    conf: dict[str, str] = {}
    lineage: dict[str, str] = {}
    env: dict[str, str] = {}
    target: Target = Target()
    driver_memory: str | None = None
    options: HaOptions = HaOptions()

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """Every file of the application."""
        return (self.application, *self.modules, *self.py_files, *self.files, *self.jars, *self.archives)


class GraphPointer(Record):
    """``persisted_job_graph``: exists if and only if a new leader has to recover the job.

    Each submission writes it anew, so that its transaction is that of the newest one: with the epoch it says whether
    that submission has led (:mod:`~airflow_provider_ha.jobs.status`).

    :param graph: Blob of the job graph.
    :param run: The run it belongs to.
    :param attempt: The newest submission of the run; 0 before the first one.
    """

    kind: ClassVar[str] = "graph-pointer"

    graph: Blob
    run: int
    attempt: int = 0


class StartKind(str, Enum):
    """The kind of a run's start."""

    FRESH = "fresh"
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    PATH = "path"  # checkpoint directories that Spark wrote elsewhere


class OutputMode(str, Enum):
    """What a restored file sink's log holds when the output directory is another one.

    ``CONTINUE`` copies the entries up to the cut, which name the old files: a partitioned output reads as the whole
    result, another one with ``recursiveFileLookup=true``. ``FRESH`` makes empty ones: only what is new is there.
    """

    CONTINUE = "continue"
    FRESH = "fresh"


class StartPoint(Model):
    """The start of a run, decided before the run was created.

    :param kind: Fresh, a checkpoint, a savepoint, or directories from elsewhere.
    :param source_job: Job that the checkpoint or savepoint belongs to.
    :param source_id: Number of the checkpoint, id of the savepoint, or the directories.
    :param plan: Blob of the restore plan (``checkpoints.model.RestorePlan``).
    :param output: For file sinks whose directory is not the one that the source wrote to.
    :param claim_mode: Whether the job becomes the owner of what it starts from.
    :param asked: Whether the user has asked for a fresh start, and not only for the latest state of a job without one.
    :param common: Query -> highest batch in common with the runs before; none for a query that began from
        nothing.
    """

    kind: StartKind = StartKind.FRESH
    source_job: str | None = None
    source_id: str | None = None
    plan: Blob | None = None
    output: OutputMode = OutputMode.CONTINUE
    claim_mode: ClaimMode = ClaimMode.NO_CLAIM
    asked: bool = False
    common: dict[str, int] = {}

    def common_within(self, job_id: str) -> dict[str, int]:
        """Batches in common of a start from the job's own checkpoint or savepoint; none for every other start."""
        own = self.kind in {StartKind.CHECKPOINT, StartKind.SAVEPOINT} and self.source_job == job_id
        return self.common if own else {}


class Run(Record):
    """``runs/<n>``: one submission of a job, with its own graph and its own result.

    :param number: Counts from 1 per job.
    :param graph: Blob of the job graph.
    :param start: The start of the run.
    :param request_id: Id of the request; the same request never makes two runs.
    :param owner: Owner of the job, a DAG id; others are refused unless they force it. ``None``: open to all.
    :param failures: Failures in a row before it; ``None`` when the run before it did not fail.
    """

    kind: ClassVar[str] = "run"

    number: int
    graph: Blob
    start: StartPoint
    request_id: str
    created_at: datetime
    owner: str | None = None
    failures: EarlierFailures | None = None


class RunResult(Record):
    """``runs/<n>/result``: none -> DIRTY -> CLEAN. A run with a result is never run again.

    :param state: FINISHED, CANCELED or FAILED.
    :param cleanup: DIRTY until everything that the run no longer needs is removed.
    :param epoch: Epoch of the leader that wrote it.
    :param reason: For people.
    :param checkpoint: Number of the last checkpoint.
    :param drained: Query -> batches that the drain wrote, when the run was terminated.
    :param failure: The error of the application that ended it.
    :param budget_exhausted: Whether the run has used up its attempts, or its application failed too often at one batch.
    :param end: What ended it well, for the answers to what else was asked of it; ``None`` for any other end.
    """

    kind: ClassVar[str] = "run-result"

    state: Literal[JobState.FINISHED, JobState.CANCELED, JobState.FAILED]
    cleanup: Literal["DIRTY", "CLEAN"] = "DIRTY"
    epoch: int
    reason: str = ""
    checkpoint: int | None = None
    drained: dict[str, DrainedQuery] = {}
    failure: Failure | None = None
    budget_exhausted: bool = False
    end: RunEnd | None = None
    at: datetime


class DrainedQuery(Model):
    """The output of a drain beyond the sharp checkpoint before it.

    :param batch: The drain's batch.
    :param sink_path: Directory of the file sink, when the query has one.
    :param sink_entry_sha256: Digest of the batch's entry in the sink log; a restore later sets aside only this exact
        entry.
    :param wrote: Whether the sink was given anything: a ``foreachBatch`` function is not called without rows.
    """

    batch: int
    sink_path: str | None = None
    sink_entry_sha256: str | None = None
    wrote: bool = True


class Recovery(Record):
    """``recoveries/<lost epoch>``: the process that recovers that loss; created once (design, contract 9)."""

    kind: ClassVar[str] = "recovery"

    lost_epoch: int
    run: int
    attempt: int
    by: str
    at: datetime


class Fallback(Model):
    """What a run went on from when its last working directory was gone, damaged, or refused by Spark.

    The start of a run never changes; this takes its place for the epochs that follow.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param plan: Blob of the restore plan, whose verdict is SAFE.
    :param lost: Key of the directory that could not be continued.
    :param reason: Why not.
    :param epoch: Epoch that fell back.
    :param cut: Query -> batch that it went on after.
    :param again: Query -> highest batch that is executed again with its recorded boundaries.
    :param tried: Earlier sources of the run that Spark refused as well.
    """

    source: str
    plan: Blob
    lost: str
    reason: str
    epoch: int
    cut: dict[str, int]
    again: dict[str, int]
    tried: tuple[str, ...] = ()
    at: datetime

    @property
    def sentence(self) -> str:
        """Return for people what was restored, why, and what is done again."""
        again = [
            f"{query}: {self.cut[query] + 1} to {top}" for query, top in self.again.items() if top > self.cut[query]
        ]
        batches = f"batches executed again: {', '.join(again)}" if again else "no batch is executed again"
        return f"fell back to {self.source}, because {self.reason}; {batches}"


class AcceptedLoss(Model):
    """Input that a run has gone on without, by consent: the last time, and how often.

    :param queries: Query -> batch from which it continued.
    :param reason: The same, for people.
    :param epoch: Epoch that continued.
    :param count: How often the run has done so.
    """

    queries: dict[str, int]
    reason: str
    epoch: int
    count: int
    at: datetime


class Generation(Record):
    """``generation``: which working directory is current; one fenced write.

    :param run: Run that works there.
    :param epoch: Epoch that made it.
    :param directory: Key of the working directory.
    :param fallback: The fallback of this run that the directory, or one that it was made from, was made by.
    :param lossy: Query -> batch from which it goes on without input that is gone: its user has accepted it.
    :param loss: The last time that an epoch of this run did so; ``None`` when none has.
    """

    kind: ClassVar[str] = "generation"

    run: int
    epoch: int
    directory: str
    fallback: Fallback | None = None
    lossy: dict[str, int] = {}
    loss: AcceptedLoss | None = None


class LeaderInfo(Record):
    """Data of the leader node: the leader, for people and sensors. Holds no secret.

    :param epoch: Epoch of this leadership.
    """

    kind: ClassVar[str] = "leader"

    epoch: int
    run: int
    attempt: int
    host: str
    pid: int
    since: datetime


class QueryStatus(Model):
    """Status of a query.

    :param planned: Highest batch in ``offsets/``.
    :param committed: Highest batch in ``commits/``.
    :param sink: Where it writes, as text.
    :param replayed: Batches that were executed again at the start.
    :param batch_at: Start of the newest batch that Spark has reported. This key and the following are ``None`` before
        the first batch of an epoch.
    :param batch_seconds: How long it took.
    :param input_rows: Rows that it read.
    :param input_rate: Rows per second that arrived since the batch before it.
    :param processed_rate: Rows per second that it worked off.
    :param lag: Rows that its sources had when it was planned, and that it did not read; ``None`` if the sources do not
        report it.
    :param committed_at: When it was committed.
    """

    planned: int
    committed: int
    sink: str | None = None
    replayed: int = 0
    batch_at: datetime | None = None
    batch_seconds: float | None = None
    input_rows: int | None = None
    input_rate: float | None = None
    processed_rate: float | None = None
    lag: int | None = None
    committed_at: datetime | None = None


class Status(Record):
    """``status``: state of the job, written by its leader when it changes.

    :param queries: The queries that the script has started in this epoch.
    :param not_started: Those that the run had, and that the script has not started yet: they lie at rest, and every
        checkpoint holds them.
    :param application_id: Spark's id of the application; empty before the script has made its session.
    :param spark_ui: URL of its web UI; empty without one.
    :param stalled: Which query is stalled, since when, and why; empty when none is. The job is then STALLED.
    :param metrics: Where the leader serves its metrics, as ``host:port``; empty when nowhere.
    :param failed_checkpoints: How many checkpoints its driver could not take.
    :param loss: Input that the run has gone on without, by consent; ``None`` for none.
    """

    kind: ClassVar[str] = "status"

    state: JobState
    run: int
    epoch: int
    queries: dict[str, QueryStatus] = {}
    not_started: dict[str, QueryStatus] = {}
    checkpoint: int | None = None
    message: str = ""
    application_id: str = ""
    spark_ui: str = ""
    stalled: str = ""
    metrics: str = ""
    failed_checkpoints: int = 0
    loss: AcceptedLoss | None = None
    at: datetime

    @property
    def is_stalled(self) -> bool:
        """Whether the job is STALLED while this leader leads: one that ends, or has ended, is not."""
        return bool(self.stalled) and self.state in (JobState.STARTING, JobState.RUNNING)


class OperationKind(str, Enum):
    """The requests that a running job accepts."""

    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    STOP = "stop"
    CANCEL = "cancel"
    CANCEL_WITH_SAVEPOINT = "cancel-with-savepoint"
    DISPOSE = "dispose"


class OperationState(str, Enum):
    """State of an operation."""

    REQUESTED = "REQUESTED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"

    @property
    def final(self) -> bool:
        """Whether it will not change any more."""
        return self in (OperationState.COMPLETED, OperationState.FAILED, OperationState.ABANDONED)


class Operation(Record):
    """``operations/<id>``: the request, written once by its requester; then state and result, written by the leader.

    :param operation_id: The request's own id: two requests with one id are one request.
    :param arguments: ``savepoint``: ``schedule``, ``retain``, ``retain_days``, ``label``; ``stop``: ``mode``
        (``suspend`` or ``terminate``) and ``savepoint`` (bool); ``dispose``: ``savepoint_id``.
    :param run: Run that the request is for; another run abandons it.
    :param epoch: Epoch that took it up.
    :param result: ``savepoint``: ``savepoint_id``, ``path``, of a job that is over also ``checkpoint``; ``stop``:
        ``checkpoint``, ``savepoint_id``, ``path``; ``checkpoint``: ``checkpoint``, ``path``, and ``new``, false when no
        batch came after the newest one; ``cancel-with-savepoint``: ``savepoint_id``, ``path``, as soon as the savepoint
        is taken.
    """

    kind: ClassVar[str] = "operation"

    operation_id: str
    operation: OperationKind
    arguments: dict[str, Any] = {}
    run: int
    requested_by: str
    requested_at: datetime
    state: OperationState = OperationState.REQUESTED
    epoch: int | None = None
    result: dict[str, Any] = {}
    error: str = ""
    finished_at: datetime | None = None


class RunEnd(Model):
    """The request that ended a run, with its result; or the end of the script, which has no operation.

    :param drained: Whether every query has written its last batch.
    :param result: As that of the operation; what is COMPLETED with it has the same.
    """

    operation: OperationKind | None = None
    operation_id: str = ""
    requested_by: str = ""
    drained: bool = False
    result: dict[str, Any] = {}

    @classmethod
    def of(cls, operation: Operation, result: Mapping[str, Any]) -> RunEnd:
        """Return the end by *operation*. What was noted of that stays."""
        return cls(
            operation=operation.operation,
            operation_id=operation.operation_id,
            requested_by=operation.requested_by,
            drained=operation.arguments.get("mode") == "terminate",
            result={**operation.result, **result},
        )


RunResult.model_rebuild()
