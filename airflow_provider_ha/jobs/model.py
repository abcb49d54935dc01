"""Records of a job in ZooKeeper and storage (design, sections 1, 3 and 5)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Literal

from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.submissions import EarlierFailures, Failure, StartTimes, StateRestore
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
        """``True`` if the run has ended: only these states clean up (design, contract 5)."""
        return self in (JobState.FINISHED, JobState.CANCELED, JobState.FAILED)


class StartKind(str, Enum):
    """The kind of a run's start."""

    FRESH = "fresh"
    CHECKPOINT = "checkpoint"
    SAVEPOINT = "savepoint"
    PATH = "path"  # checkpoint directories that Spark wrote elsewhere


class OutputMode(str, Enum):
    """Content of a restored file sink's log if the output directory is another one.

    ``CONTINUE`` copies the entries up to the cut, which name the old files: a partitioned output reads as the whole
    result, any other output with ``recursiveFileLookup=true``. ``FRESH`` writes empty entries, so only new output is
    visible.
    """

    CONTINUE = "continue"
    FRESH = "fresh"


class StartPoint(Model):
    """The start of a run, decided before the run was created.

    :param kind: Fresh, a checkpoint, a savepoint, or directories from elsewhere.
    :param source_job: Job that the checkpoint or savepoint belongs to.
    :param source_id: Number of the checkpoint, id of the savepoint, or the directories.
    :param plan: Blob of the restore plan (``checkpoints.model.RestorePlan``).
    :param output: Mode for file sinks whose directory differs from the source's.
    :param claim_mode: Whether the job becomes the owner of its start.
    :param asked: Whether the user requested a fresh start, and not only the latest state of a job without state.
    :param common: Query -> highest batch shared with the earlier runs; missing for a query that began without a
        checkpoint.
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
        """Return the shared batches of a start from the job's own checkpoint or savepoint; empty for other starts."""
        own = self.kind in {StartKind.CHECKPOINT, StartKind.SAVEPOINT} and self.source_job == job_id
        return self.common if own else {}


class Run(Record):
    """``runs/<n>``: one submission of a job, with its own graph and its own result.

    :param number: Counts from 1 per job.
    :param graph: Blob of the job graph.
    :param start: The start of the run.
    :param request_id: Id of the request; the same request never creates two runs.
    :param owner: Owner of the job, a DAG id; others are refused unless they force it. ``None``: open to all.
    :param failures: Consecutive failures before it; ``None`` if the previous run did not fail.
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

    :param state: ``FINISHED``, ``CANCELED`` or ``FAILED``.
    :param cleanup: ``DIRTY`` until all unneeded data of the run is removed, then ``CLEAN``.
    :param epoch: Epoch of the leader that wrote it.
    :param reason: Reason, for users.
    :param checkpoint: Number of the last checkpoint.
    :param drained: Query -> drain batch, if the run was terminated.
    :param failure: The error of the application that ended it.
    :param budget_exhausted: Whether the run has used up its attempts, or its application failed too often at the same
        batch.
    :param end: The orderly end, from which the answers to other requests follow; ``None`` for any other end.
    :param at: End of the run.
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
    :param sink_path: Directory of the query's file sink, if any.
    :param sink_entry_sha256: Digest of the batch's entry in the sink log; a restore later sets aside only this exact
        entry.
    :param wrote: Whether the sink received rows: a ``foreachBatch`` function is not called without rows.
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
    """The start that a run continued from when its last working directory was missing, damaged, or refused by Spark.

    The start of a run never changes; a fallback replaces it for later epochs.

    :param source: ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param plan: Blob of the restore plan, whose verdict is SAFE.
    :param lost: Key of the directory that could not be continued.
    :param reason: Reason for the fallback.
    :param epoch: Epoch that fell back.
    :param cut: Query -> batch after which it continued.
    :param again: Query -> highest batch that is executed again with its recorded boundaries.
    :param tried: Earlier sources of the run that Spark also refused.
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
        """Description for users: source, reason, and repeated batches."""
        again = [
            f"{query}: {self.cut[query] + 1} to {top}" for query, top in self.again.items() if top > self.cut[query]
        ]
        batches = f"batches executed again: {', '.join(again)}" if again else "no batch is executed again"
        return f"fell back to {self.source}, because {self.reason}; {batches}"


class AcceptedLoss(Model):
    """Missing input that a run has continued without, by consent: the last time, and the count.

    :param queries: Query -> batch from which it continued.
    :param reason: Description for users.
    :param epoch: Epoch that continued.
    :param count: Number of times that the run has done so.
    """

    queries: dict[str, int]
    reason: str
    epoch: int
    count: int
    at: datetime


class Generation(Record):
    """``generation``: the current working directory; one fenced write.

    :param run: Run that works there.
    :param epoch: Epoch that created the directory.
    :param directory: Key of the working directory.
    :param fallback: The fallback of this run from which the directory, or a predecessor, was created.
    :param lossy: Query -> batch from which it continues without missing input, accepted by its user.
    :param loss: The last time that an epoch of this run did so; ``None`` if none has.
    """

    kind: ClassVar[str] = "generation"

    run: int
    epoch: int
    directory: str
    fallback: Fallback | None = None
    lossy: dict[str, int] = {}
    loss: AcceptedLoss | None = None


class LeaderInfo(Record):
    """Data of the leader node, for users and sensors. Holds no secret.

    :param epoch: Epoch of this leadership.
    :param run: Run that it leads.
    :param attempt: Number of the submission within the run; 0 for a process that is not a driver.
    :param host: Host of the process.
    :param since: Time of its leadership grant.
    :param standby: Whether it was a standby driver before.
    """

    kind: ClassVar[str] = "leader"

    epoch: int
    run: int
    attempt: int
    host: str
    pid: int
    since: datetime
    standby: bool = False


class QueryStatus(Model):
    """Status of a query.

    :param planned: Highest batch in ``offsets/``.
    :param committed: Highest batch in ``commits/``.
    :param sink: Its output, as text.
    :param replayed: Batches that were executed again at the start.
    :param batch_at: Start of the newest batch that Spark has reported. This key and the following are ``None`` before
        the first batch of an epoch.
    :param batch_seconds: Duration of the batch in seconds.
    :param input_rows: Rows that the batch read.
    :param input_rate: Rows per second that arrived since the previous batch.
    :param processed_rate: Rows per second that the batch processed.
    :param lag: Rows that the sources had when the batch was planned, and that it did not read; ``None`` if the sources
        do not report this.
    :param committed_at: Time of its commit.
    :param state_restore: How tasks read its state until its first commit under this driver; ``None`` without
        ``local_recovery``.
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
    state_restore: StateRestore | None = None


STANDBY_PATIENCE = 300.0  # seconds: a standby driver starts within a minute, on a busy host within a few


class StandbyCount(Model):
    """Standby drivers of a run, as its leader counts them every few seconds.

    :param requested: Number that the options of the job request.
    :param ready: Number of those that have done in advance what the job allows.
    :param note: What keeps one of the others from being ready; empty while none is missing.
    :param missing_since: Since when this leader has seen fewer than requested; ``None`` while none is missing.
    """

    requested: int
    ready: int = 0
    note: str = ""
    missing_since: datetime | None = None

    def problem(self, now: datetime) -> str:
        """Return how many are ready, and the reason against more, if some are missing for minutes; empty otherwise."""
        if self.missing_since is None or (now - self.missing_since).total_seconds() < STANDBY_PATIENCE:
            return ""
        return f"{self.ready} of {self.requested} standby drivers ready{self.note and f': {self.note}'}"


class Status(Record):
    """``status``: state of the job, written by its leader when it changes.

    :param queries: The queries that the script has started in this epoch.
    :param not_started: Earlier queries of the run that the script has not started yet; they rest, and every checkpoint
        includes them.
    :param application_id: Spark's id of the application; empty before the script has created its session.
    :param spark_ui: URL of its web UI; empty without one.
    :param stalled: The stalled query, with start and reason; the job is then STALLED. Empty otherwise.
    :param metrics: Address of the leader's metrics, as ``host:port``; empty without one.
    :param failed_checkpoints: Number of checkpoints that its driver could not take.
    :param loss: Missing input that the run has continued without, by consent; ``None`` without any.
    :param class_archive: ``used``, or why the JVM of its driver has loaded its classes without an archive.
    :param times: When its driver completed the phases of its start.
    :param standbys: Its standby drivers; ``None`` for a job that requests none, and after the end of its run.
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
    class_archive: str = ""
    times: StartTimes = StartTimes()
    standbys: StandbyCount | None = None
    at: datetime

    @property
    def is_stalled(self) -> bool:
        """``True`` if the job is STALLED under this leader; an ending or ended job is not."""
        return bool(self.stalled) and self.state in (JobState.STARTING, JobState.RUNNING)


class OperationKind(str, Enum):
    """Kinds of requests to a running job."""

    SAVEPOINT = "savepoint"
    CHECKPOINT = "checkpoint"
    STOP = "stop"
    CANCEL = "cancel"
    CANCEL_WITH_SAVEPOINT = "cancel-with-savepoint"
    DISPOSE = "dispose"
    HAND_OVER = "hand-over"
    FAIL_OVER = "fail-over"


class OperationState(str, Enum):
    """State of an operation."""

    REQUESTED = "REQUESTED"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"

    @property
    def final(self) -> bool:
        """``True`` if the operation does not change any longer."""
        return self in (OperationState.COMPLETED, OperationState.FAILED, OperationState.ABANDONED)


class Operation(Record):
    """``operations/<id>``: a request, written once by its requester; then state and result, written by the leader.

    :param operation_id: The request's id: two requests with the same id are the same request.
    :param operation: Kind of the operation.
    :param arguments: ``savepoint``: ``schedule``, ``retain``, ``retain_days``, ``label``; ``stop``: ``mode``
        (``suspend`` or ``terminate``) and ``savepoint`` (bool); ``dispose``: ``savepoint_id``.
    :param run: Run that the request is for; another run abandons it.
    :param requested_by: The requester, for people.
    :param requested_at: Time of the request.
    :param state: ``REQUESTED``, ``RUNNING``, ``COMPLETED``, ``FAILED`` or ``ABANDONED``. Several requests that one end
        of the run fulfils are ``COMPLETED`` with one result.
    :param epoch: Epoch that executes it.
    :param result: ``savepoint``: ``savepoint_id``, ``path``, for an ended job also ``checkpoint``; ``stop``:
        ``checkpoint``, ``savepoint_id``, ``path``; ``checkpoint``: ``checkpoint``, ``path``, ``cut`` and ``new``, false
        if there was no batch after the newest checkpoint; ``cancel-with-savepoint``: ``savepoint_id``, ``path``, once
        the savepoint is taken.
    :param error: Reason of the failure; for a stop or cancel of a run that ended otherwise, the end of the run and the
        next step.
    :param finished_at: Time at which its state became final.
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
    :param result: Result of the operation, shared by the operations that are COMPLETED with it.
    """

    operation: OperationKind | None = None
    operation_id: str = ""
    requested_by: str = ""
    drained: bool = False
    result: dict[str, Any] = {}

    @classmethod
    def of(cls, operation: Operation, result: Mapping[str, Any]) -> RunEnd:
        """Return the end by *operation*, including its interim result."""
        return cls(
            operation=operation.operation,
            operation_id=operation.operation_id,
            requested_by=operation.requested_by,
            drained=operation.arguments.get("mode") == "terminate",
            result={**operation.result, **result},
        )


RunResult.model_rebuild()
