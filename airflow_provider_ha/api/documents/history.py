"""Leaders of a job and of a cluster, actions of a cluster leader, history of runs, and restore drills."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from airflow_provider_ha.api.documents.operation import OperationView
from airflow_provider_ha.api.documents.view import UnreadableView, View, shows
from airflow_provider_ha.jobs.model import JobState, LeaderInfo, StartKind
from airflow_provider_ha.jobs.recovery.losses import RecoveryTimes
from airflow_provider_ha.jobs.runs.submissions import StateRestore
from airflow_provider_ha.jobs.status import JobStatus, NewestRun, RunDepth
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrilledQuery, DrillVerdict


if TYPE_CHECKING:
    from airflow_provider_ha.checkpoints.store.pointer_scan import UnreadableRecord
    from airflow_provider_ha.fleet.reconciler import ReconcileResult
    from airflow_provider_ha.jobs.run_history import Attempt, JobHistory, RunHistory
    from airflow_provider_ha.jobs.runs.watchers import ClusterLeaderInfo


class ReconciledView(View):
    """One job that a leader looked at.

    :param outcome: The outcome: ``recovered``, ``left alone``, ``given up`` and so on.
    """

    job_id: str
    outcome: str
    detail: str
    again: float | None


class RecoveryView(View):
    """All jobs of a cluster.

    :param cluster: Namespace of the jobs.
    :param epoch: Epoch of the leadership of the cluster; 0 for one job that was named.
    :param jobs: One entry for each.
    """

    cluster: str
    epoch: int
    jobs: tuple[ReconciledView, ...]


class LeadingLineView(View):
    """First line of ``--watch``: the process leads the cluster.

    :param epoch: Epoch of the leadership of the cluster.
    """

    outcome: Literal["leading"] = "leading"
    epoch: int


class ReconciledLineView(View):
    """Each other line of ``--watch``: a change of a job.

    :param outcome: The outcome.
    """

    job_id: str
    outcome: str
    detail: str


def recovery_view(cluster_id: str, epoch: int, jobs: Sequence[ReconcileResult]) -> RecoveryView:
    """Return the outcome for every job."""
    shown = [ReconciledView.of(each, outcome=each.outcome.value) for each in jobs]
    return RecoveryView(cluster=cluster_id, epoch=epoch, jobs=tuple(shown))


@shows(LeaderInfo, "epoch run attempt host pid since")
class LeaderView(View):
    """A leader, as its node in ZooKeeper says."""


class JobLeaderView(View):
    """Whether a job has a leader.

    :param epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param leader: The leader; ``null`` without a leader.
    """

    job_id: str
    epoch: int
    leader: LeaderView | None


class ClusterShowView(View):
    """The leader of a cluster, which recovers its jobs.

    :param cluster_id: The cluster.
    :param address: Address of the leader; empty without a leader.
    :param host: Host of its process.
    :param pid: Process id of the leader; ``null`` without a leader.
    :param epoch: Epoch of this leadership; 0 without a leader.
    :param since: When it was granted.
    :param inspected_at: When it had last inspected a job, to the nearest quarter of a minute.
    :param inspected_seconds_ago: Seconds since then; ``null`` when it has inspected none.
    """

    cluster_id: str
    address: str = ""
    host: str = ""
    pid: int | None = None
    epoch: int = 0
    since: datetime | None = None
    inspected_at: datetime | None = None
    inspected_seconds_ago: float | None = None


def cluster_show_view(cluster_id: str, leader: ClusterLeaderInfo | None, *, now: datetime) -> ClusterShowView:
    """Return the leader of a cluster, and how long ago it has inspected a job."""
    if leader is None:
        return ClusterShowView(cluster_id=cluster_id)
    at = leader.inspected_at
    return ClusterShowView(
        cluster_id=cluster_id,
        **leader.model_dump(),
        inspected_seconds_ago=None if at is None else max(0.0, (now - at).total_seconds()),
    )


class DrillResultView(View):
    """The result of a drill, and the time that it took.

    :param drill_id: Its id.
    :param started_at: When the drill began.
    :param verdict: ``PASSED``, ``FAILED`` or ``UNKNOWN``.
    :param queries: Query -> its result.
    """

    drill_id: str
    job_id: str
    source: str
    taken_at: datetime
    cut: dict[str, int]
    size: int
    age_seconds: float
    started_at: datetime
    seconds: dict[str, float]
    total_seconds: float
    verdict: DrillVerdict
    reasons: tuple[str, ...]
    queries: dict[str, DrilledQuery]
    spark_version: str


class DrillView(DrillResultView):
    """A drill, as recorded by the job."""

    requested_by: str


class DrillListView(View):
    """The drills of a job.

    :param drills: Newest first.
    """

    job_id: str
    drills: tuple[DrillView, ...]
    unreadable: tuple[UnreadableView, ...]


def drill_list(job_id: str, drills: Sequence[Drill], unreadable: Sequence[UnreadableRecord]) -> DrillListView:
    """Return the drills of a job."""
    return DrillListView.model_validate({"job_id": job_id, "drills": drills, "unreadable": unreadable})


# What became of a submission.
End = Literal["leads", "starting", "finished", "failed", "handed over", "lost", "never led"]


class EpochView(View):
    """One submission of a run, and the epoch that it led.

    :param run: The run.
    :param engine: Engine that received it.
    :param requested_by: Who submitted it: request id, host and process.
    :param submitted_at: When.
    :param epoch: The epoch that it led; ``null`` when it never led.
    :param host: Host of the driver that led.
    :param pid: Its process.
    :param led_at: When it became the leader.
    :param ended_at: When it ended, as far as that is known: its processes were dead, its run had its result, its loss
        was recovered, or the next submission was made. ``null`` while it lives.
    :param end: ``leads``, ``starting``, ``finished`` (its run ended with it), ``failed`` (it FAILED with it),
        ``handed over`` (on request, to a standby driver), ``lost`` or ``never led``.
    :param reason: Why it ended, in one line.
    :param recovered_by: Who recovered its loss.
    :param recovered_at: When.
    :param class_archive: ``used``, or why the driver's JVM has loaded Spark's classes without a class archive; empty
        for a driver that has not led.
    :param first_commit_seconds: Time from the launch of the driver to its first commit; ``null`` when it has made none,
        or this is not known.
    :param phases: Phase of its start -> seconds, after the loss of a driver: ``submit`` (from the proof of that death),
        ``lead``, ``bind`` (the lost epoch is fenced, the working directory is current), ``start`` (of a query),
        ``commit`` (of a batch) and ``total``. Phases that are not completed, or not known, are left out.
    :param state_restores: Query -> how tasks read its state until its first commit under the driver; empty without
        ``local_recovery``.
    :param standby: Whether the driver was a standby driver before it led: it did not start for this submission.
    """

    run: int
    attempt: int
    engine: str
    requested_by: str
    submitted_at: datetime
    epoch: int | None
    host: str | None
    pid: int | None
    led_at: datetime | None
    ended_at: datetime | None
    end: End
    reason: str
    recovered_by: str | None
    recovered_at: datetime | None
    class_archive: str = ""
    first_commit_seconds: float | None = None
    phases: dict[str, float] = {}
    state_restores: dict[str, StateRestore] = {}
    standby: bool = False


class TakeoverView(View):
    """A hand-over or a fail-over that was requested, and the driver that has continued.

    :param operation: The request.
    :param epoch: The driver that leads since; ``null`` when the request failed, or the command did not wait.
    """

    job_id: str
    operation: OperationView
    epoch: EpochView | None


class RunHistoryView(View):
    """One run.

    :param run: Its number.
    :param started_from: ``fresh``, ``checkpoint``, ``savepoint`` or ``path``.
    :param source: The checkpoint, savepoint or path; ``null`` for a fresh start.
    :param owner: Owner of the job, a DAG id; ``null`` when it is open to all.
    :param created_at: When it was made.
    :param state: ``FINISHED``, ``CANCELED`` or ``FAILED``; ``null`` while it is live.
    :param reason: Why it ended, for people.
    :param ended_at: When.
    :param checkpoint: Number of its last checkpoint.
    :param epochs: Its submissions, newest first.
    :param left_out: How many earlier submissions are not shown.
    """

    run: int
    started_from: StartKind
    source: str | None
    owner: str | None
    created_at: datetime
    state: str | None
    reason: str
    ended_at: datetime | None
    checkpoint: int | None
    epochs: tuple[EpochView, ...]
    left_out: int


class HistoryView(View):
    """The history of a job.

    :param runs: Newest first.
    :param left_out: How many earlier runs are not shown.
    """

    job_id: str
    runs: tuple[RunHistoryView, ...]
    left_out: int
    unreadable: tuple[UnreadableView, ...]

    @property
    def restored(self) -> int:
        """Number of resumptions from a checkpoint or savepoint, by the shown runs and their restarts."""
        starts = sum(run.started_from is not StartKind.FRESH for run in self.runs)
        return starts + sum(len(run.epochs) + run.left_out - 1 for run in self.runs if run.epochs)


def history_view(history: JobHistory) -> HistoryView:
    """Return the history of a job."""
    runs = tuple(_run(run, history.leader) for run in history.runs)
    return HistoryView.of(history, runs=runs, left_out=history.runs_left_out)


def _run(history: RunHistory, leader: LeaderInfo | None) -> RunHistoryView:
    run, result = history.run, history.result
    # A run whose submissions cannot be read has no attempt.
    around = zip((None, *history.attempts), history.attempts, (*history.attempts[1:], None), strict=False)
    epochs = [_epoch(history, before, attempt, later, leader) for before, attempt, later in around]
    return RunHistoryView(
        run=run.number,
        started_from=run.start.kind,
        source=_source(history),
        owner=run.owner,
        created_at=run.created_at,
        state=result.state.value if result is not None else None,
        reason=result.reason if result is not None else "",
        ended_at=result.at if result is not None else None,
        checkpoint=result.checkpoint if result is not None else None,
        epochs=tuple(reversed(epochs)),
        left_out=history.attempts_left_out,
    )


def _source(history: RunHistory) -> str | None:
    start = history.run.start
    if start.kind is StartKind.FRESH or start.source_id is None:
        return None
    name = start.source_id if start.kind is StartKind.PATH else f"{start.kind.value}-{start.source_id}"
    return f"{name} of {start.source_job}" if start.source_job else name


def _epoch(
    history: RunHistory, before: Attempt | None, attempt: Attempt, later: Attempt | None, leader: LeaderInfo | None
) -> EpochView:
    submission, led = attempt.submission, attempt.led
    end = _end(history, attempt, later, leader)
    return EpochView(
        run=history.run.number,
        attempt=submission.attempt,
        engine=submission.engine,
        requested_by=submission.requested_by,
        submitted_at=submission.created_at,
        epoch=led.epoch if led is not None else None,
        host=led.host if led is not None else None,
        pid=led.pid if led is not None else None,
        led_at=led.at if led is not None else None,
        ended_at=None if end in {"leads", "starting"} else _ended_at(history, attempt, later),
        end=end,
        reason=_reason(history, attempt, end),
        recovered_by=attempt.recovery.by if attempt.recovery is not None else None,
        recovered_at=attempt.recovery.at if attempt.recovery is not None else None,
        class_archive=led.class_archive if led is not None else "",
        first_commit_seconds=attempt.times.first_commit_seconds,
        phases=_phases(before, attempt),
        state_restores=dict(attempt.state_restores),
        standby=submission.standby,
    )


def _phases(before: Attempt | None, attempt: Attempt) -> dict[str, float]:
    """Return the phases of a recovery; empty for the first attempt of a run, and for one that has not led."""
    if before is None or attempt.led is None:
        return {}
    times = RecoveryTimes(
        alive_at=None,
        dead_at=before.exit.at if before.exit is not None else None,
        submitted_at=attempt.submission.created_at,
        led_at=attempt.led.at,
        bound_at=attempt.times.bound_at,
        started_at=attempt.times.started_at,
        committed_at=attempt.times.committed_at,
    )
    return {name: round(seconds, 2) for name, seconds in times.phases.items()}


def _end(history: RunHistory, attempt: Attempt, later: Attempt | None, leader: LeaderInfo | None) -> End:
    """Return the end of an attempt: the state of a job that has no later attempt, except that this one is lost then."""
    led = attempt.led
    job: JobStatus[RunDepth] = JobStatus(
        job_id="",
        leader=leader if led is not None and leader is not None and leader.epoch == led.epoch else None,
        epoch=led.epoch if led is not None else 0,
        epoch_zxid=1 if led is not None else 0,  # after its submission
        facts=NewestRun(
            number=history.run.number,
            attempt=attempt.submission.attempt,
            ended=attempt.exit is not None,
            result=history.result if later is None else None,
        ),
        gone=later is not None,
    )
    if job.is_over:
        return "failed" if job.state is JobState.FAILED else "finished"
    if job.is_lost:
        if attempt.exit is not None and attempt.exit.handed_over:
            return "handed over"
        return "lost" if led is not None else "never led"
    return "leads" if job.is_led else "starting"


def _ended_at(history: RunHistory, attempt: Attempt, later: Attempt | None) -> datetime | None:
    known: Sequence[datetime | None] = (
        history.result.at if later is None and history.result is not None else None,
        attempt.exit.at if attempt.exit is not None else None,
        attempt.recovery.at if attempt.recovery is not None else None,
        later.submission.created_at if later is not None else None,
    )
    return next((at for at in known if at is not None), None)


def _reason(history: RunHistory, attempt: Attempt, end: End) -> str:
    if end in {"leads", "starting"}:
        return ""
    if end in {"finished", "failed"} and history.result is not None:
        state = history.result.state.value
        return f"{state}: {history.result.reason}" if history.result.reason else state
    if attempt.exit is None:
        return "its session ended in ZooKeeper; the end of its processes is not proven"
    failure = attempt.exit.failure
    if failure is not None and failure.message:
        return f"{failure.kind.value} {failure.error}"
    return attempt.exit.reason.partition("\n")[0]
