"""Submission of a job: each step leaves a trace for the next caller with the same request id.

The order: blobs, graph blob, one transaction {run node, graph pointer}, then the submission (``jobs.submit.launch``).
The run node is the arbiter: its name is its number, so only the first submitter wins, and the loser finds out whether
the winner had the same request. The transaction checks that the planned checkpoint or savepoint still exists; from then
on, a process that wants to remove it finds the run that begins from it (``jobs.runs.run_store``).

A live run of another request that has lost its driver is recovered and followed, or ended in the transaction that
creates the new run (``jobs.submit.preconditions``). The followed run is recorded before its recovery, so that a retry
finds it again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_ha.checkpoints.store.checkpoint_pointers import pointer_path
from airflow_provider_ha.coordination.coordinator import Check, Create, Op
from airflow_provider_ha.errors import (
    CheckpointMissingError,
    ConfigurationError,
    JobStateError,
    LeadershipError,
    NodeExistsError,
    NodeMissingError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.host.engines.table import DEFAULT_ENGINE
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob, GraphPointer
from airflow_provider_ha.jobs.model import JobState, Run, StartKind, StartPoint
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.rebuild.rebuild import is_known_to_storage_only, rebuild_unknown, refuse_unknown
from airflow_provider_ha.jobs.recovery.losses import failures_before
from airflow_provider_ha.jobs.recovery.lost_runs import (
    LostRun,
    carry_out_cancel,
    end_lost,
    lost_run,
    recover,
    result_of,
)
from airflow_provider_ha.jobs.removal.removal_records import (
    JobLife,
    RemovedRunStore,
    read_life,
    refuse_half_deleted,
    removed,
)
from airflow_provider_ha.jobs.runs.run_store import RunView, next_number, refuse_other_run
from airflow_provider_ha.jobs.runs.submissions import EarlierFailures
from airflow_provider_ha.jobs.runs.watchers import follow, followed
from airflow_provider_ha.jobs.submit.launch import ensure_submitted, refuse_this_host
from airflow_provider_ha.jobs.submit.preconditions import refuse_lost, refuse_moved, stays_op
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy, SubmittedRun


log = logging.getLogger(__name__)

_SEPARATOR = "#"  # request#2: the second run of the request


@dataclass(frozen=True, slots=True)
class PreparedSubmission:
    """Content of a run whose blobs are in storage.

    :param owner: Owner of the job from then on; ``None`` for a job without an owner.
    :param arrival: For a job from another cluster: operations that end its move, in the transaction of the run.
    """

    graph: Blob
    start: StartPoint
    owner: str | None = None
    arrival: tuple[Op, ...] = ()


def submit_run(
    job: JobContext,
    request_id: str,
    prepare: Callable[[], PreparedSubmission],
    *,
    on_lost: Callable[[LostRun], LostRunPolicy] | None = None,
    engine: str = DEFAULT_ENGINE,
    arrives: bool = False,
    accept_loss: bool = False,
    anew: bool = False,
    seen: int | None = None,
) -> SubmittedRun:
    """Find the run of a request or create it, and ensure that it is submitted.

    :param request_id: Id of the request. It finds its run again, unless that run FAILED: then it creates another.
    :param prepare: Uploads the files of the run. Called only before a run is created, so a refusal changes nothing.
    :param on_lost: Returns the policy for a live run of another request that has lost its driver, or refuses the
        request; without it, the request is refused.
    :param arrives: Whether the run ends the move of the job to this cluster.
    :param accept_loss: Whether the request accepts the loss that a lost run waits for (:func:`recover`).
    :param anew: Whether a job known to storage only may start without a checkpoint, because its user accepts the
        effects.
    :param seen: Newest run of the job when the caller decided, 0 for none: any other run is neither ended nor followed,
        except the request's own. ``None`` accepts any newest run.
    :raises JobStateError: The job has a live run of another request, has moved to another cluster, is known to storage
        only, or has a newer run than the caller has seen.
    :raises CheckpointMissingError: The start of the run was removed before its creation; the job is unchanged.
    :raises ConfigurationError: A driver would end with the task on this host; the job is unchanged.
    """
    _check_request_id(request_id)
    first: PreparedSubmission | None = None
    if anew and is_known_to_storage_only(job):
        refuse_this_host(job, engine)
        # Prepare first: a refusal after the rebuild would leave a lost run that no request names.
        first = prepare()
        rebuild_unknown(job)
        on_lost = _restart
    else:
        refuse_unknown(job)
    while True:
        life = read_life(job.coordinator, job.paths)  # before the runs: a run is created only in the life that was read
        refuse_half_deleted(life)
        numbers = job.runs.numbers()
        known = _find_request(job, numbers, request_id)
        if known.number is not None:
            if (found := _found(job, known, request_id, accept_loss=accept_loss)) is not None:
                return found
            continue
        refuse_removed(job, request_id)
        _refuse_unseen(job, known, numbers, seen)
        lost = _live_run(job, numbers)  # guard: live-run-refuses
        if not arrives:
            refuse_moved(job)  # guard: moved-jobs-are-started
        if lost is not None and carry_out_cancel(job, lost, by=request_id):
            continue
        if lost is not None and (on_lost or partial(refuse_lost, job))(lost) is LostRunPolicy.RECOVER:
            follow(job.coordinator, job.paths, request_id, lost.number)
            log.info("request %s follows the lost run %d of %s", request_id, lost.number, job.job_id)
            continue
        refuse_this_host(job, engine)
        prepared = first or prepare()
        create_job(job.coordinator, job.paths)
        run = Run(
            number=next_number(job.coordinator, job.paths, numbers, life),
            graph=prepared.graph,
            start=prepared.start,
            request_id=request_id if known.next_use == 1 else f"{request_id}{_SEPARATOR}{known.next_use}",
            created_at=job.clock.now(),
            owner=prepared.owner,
            failures=_earlier_failures(job, numbers),
        )
        if not _made(job, lost, run, _creation(job, run, life, numbers), prepared.arrival if arrives else None):
            continue
        log.info("created run %d of %s for request %s", run.number, job.job_id, run.request_id)
        attempt = ensure_submitted(job, run.number, by=request_id)
        return SubmittedRun(job_id=job.job_id, run=run.number, attempt=attempt, created=True)


def _refuse_unseen(job: JobContext, known: _RequestState, numbers: list[int], seen: int | None) -> None:
    if not known.newest:
        refuse_other_run("request", job.job_id, seen=seen, newest=numbers[-1] if numbers else 0)


def _restart(_: LostRun) -> LostRunPolicy:
    """End the run that only storage knew, as its user has chosen."""
    return LostRunPolicy.RESTART


def _check_request_id(request_id: str) -> None:
    if not request_id or _SEPARATOR in request_id:
        raise ConfigurationError(
            f"request id {request_id!r} cannot be used",
            next_step=f"Use a text that is not empty, without {_SEPARATOR!r}",
        )


def made_by(run: Run, request_id: str) -> bool:
    """Return whether a request created the run, by its first or a later use."""
    return re.fullmatch(re.escape(request_id) + rf"(?:{_SEPARATOR}\d+)?", run.request_id) is not None


def check_submission(
    job: JobContext, request_id: str, *, on_lost: Callable[[LostRun], LostRunPolicy], seen: int | None = None
) -> bool:
    """Return whether :func:`submit_run` would create a run, instead of finding the request's or following a lost one.

    Changes nothing.

    :param seen: As in :func:`submit_run`.
    :raises JobStateError: As :func:`submit_run`.
    """
    numbers = job.runs.numbers()
    known = _find_request(job, numbers, request_id)
    if known.number is not None:
        return False
    refuse_removed(job, request_id)
    _refuse_unseen(job, known, numbers, seen)
    refuse_unknown(job)
    lost = _live_run(job, numbers)
    if lost is None or operations.open_cancels(job.coordinator, job.paths, lost.number):
        return True
    return on_lost(lost) is LostRunPolicy.RESTART


def failed_run(job: JobContext, request_id: str) -> RunView | None:
    """Return the newest run of a request if it FAILED; ``None`` otherwise, or without a run.

    :raises JobStateError: The run FAILED, and was removed.
    """
    for number, run in job.runs.runs(reversed(job.runs.numbers())).items():
        if made_by(run, request_id):
            view = job.runs.get(number)
            failed = view.result is not None and view.result.state is JobState.FAILED
            return view if failed else None
    gone = RemovedRunStore(job.coordinator, job.paths).find(request_id)
    if gone is not None and gone.failed:
        raise removed(job.paths, gone.run)
    return None


def refuse_removed(job: JobContext, request_id: str) -> None:
    """Refuse a request whose run was removed: another run would repeat work requested once.

    Call it after reading the job's runs: a run removed in between has its note by then. A FAILED run is repeated, even
    if it was removed.

    :raises JobStateError: The request had a run, which was removed and did not end FAILED.
    :raises RecordCorruptError: The note cannot be read, so the existence of a run is unknown.
    """
    found = RemovedRunStore(job.coordinator, job.paths).find(request_id)
    if found is not None and not found.failed:
        raise JobStateError(
            f"request {request_id!r} has led to run {found.run} of job {job.job_id!r}, which is over and was removed",
            next_step="To start the job again use a new request: a new DAG run, another request id. retained_runs "
            "and retained_days of the connection limit how long runs are kept",
        )


@dataclass(frozen=True, slots=True)
class _RequestState:
    """State of a request.

    :param number: Its newest run, if that must not be repeated.
    :param own: Whether the request created that run; ``False`` if it follows the run.
    :param next_use: Number of the request's runs, including the next one.
    :param newest: Whether the job's newest run belongs to the request.
    """

    number: int | None
    own: bool
    next_use: int
    newest: bool = False


def _find_request(job: JobContext, numbers: list[int], request_id: str) -> _RequestState:
    follows = followed(job.coordinator, job.paths, request_id)
    uses, seen, newest = 0, False, False
    for number, run in job.runs.runs(reversed(numbers)).items():
        own = made_by(run, request_id)
        uses += own
        newest = newest or (own and number == numbers[-1])
        if seen or not (own or number == follows):
            continue
        seen = True
        result = job.runs.result(number)
        if result is None or result.state is not JobState.FAILED:
            return _RequestState(number, own, 0)
    return _RequestState(None, own=False, next_use=uses + 1, newest=newest)


def _found(job: JobContext, known: _RequestState, request_id: str, *, accept_loss: bool = False) -> SubmittedRun | None:
    """Return the run of a request; ``None`` if it has ended in between, and has to be read again."""
    number = known.number
    assert number is not None, "there is a run"  # noqa: S101  # checked by the caller
    if known.own or job.runs.result(number) is not None:
        attempt = ensure_submitted(job, number, by=request_id)
        return SubmittedRun(job_id=job.job_id, run=number, attempt=attempt, created=False)
    try:
        submitted = recover(job, by=request_id, wait=False, run_number=number, accept_loss=accept_loss)
    except (JobStateError, LeadershipError):
        if job.runs.result(number) is None:
            raise
        return None
    return replace(submitted, created=False)


def _made(job: JobContext, lost: LostRun | None, run: Run, creation: list[Op], arrival: Sequence[Op] | None) -> bool:
    """Create *run*, in place of a lost run if there is one; ``False`` if the job has to be read again.

    :param arrival: Operations that end the move of a job from another cluster.
    :raises CheckpointMissingError: The start of the run was removed after it was planned.
    """
    try:
        if lost is not None:
            return _replaced(job, lost, run, creation)
        job.commit(*creation, *(stays_op(job) if arrival is None else arrival))
    except (NodeExistsError, VersionConflictError, OutcomeUnknownError) as error:
        log.info(
            "run %d of %s was possibly not created by this call (%s), reading it again", run.number, job.job_id, error
        )
        return False
    except NodeMissingError as error:
        if error.path == _start_path(job, run):
            raise _start_is_gone(job, run) from error
        raise
    return True


def _replaced(job: JobContext, lost: LostRun, run: Run, creation: list[Op]) -> bool:
    """Create *run* in the transaction that ends a lost one; ``False`` if that run is no longer lost or live."""
    reason = f"its driver was lost, and run {run.number} takes its place"
    result = result_of(job, lost, JobState.FINISHED, reason=reason, by=run.request_id)
    try:
        end_lost(job, lost, result, also=[*creation, *stays_op(job)])
    except (JobStateError, LeadershipError) as error:
        log.info("run %d of %s does not take the place of run %d: %s", run.number, job.job_id, lost.number, error)
        return False
    return True


def _earlier_failures(job: JobContext, numbers: list[int]) -> EarlierFailures | None:
    try:
        return failures_before(job.runs.get(numbers[-1])) if numbers else None
    except JobStateError:  # the job was just deleted: the transaction of the run is rejected
        return None


def _live_run(job: JobContext, numbers: list[int]) -> LostRun | None:
    """Return the live run of the job that has lost its driver; ``None`` if the job has no live run.

    :raises JobStateError: The job has a live run with a driver, or with a driver on its way.
    """
    if not numbers or job.runs.result(numbers[-1]) is not None:
        return None
    snapshot = job.snapshot()
    lost, view, leader = lost_run(snapshot), snapshot.run, snapshot.leader
    if lost is not None or view is None or view.result is not None:
        return lost
    leads = (
        "it has no leader now"
        if leader is None
        else f"epoch {leader.epoch} on {leader.host} (pid {leader.pid}) leads it"
    )
    raise JobStateError(
        f"job {job.job_id!r} already has a live run, number {view.run.number}; {leads}, it is {snapshot.state.value}",
        next_step=f"Follow it (SparkHaFollowOperator), or end it first: `spark-ha job stop {job.job_id}` "
        f"(SparkHaStopOperator) with a checkpoint, `spark-ha job cancel {job.job_id}` (SparkHaCancelOperator) "
        "immediately",
    )


def _creation(job: JobContext, run: Run, life: JobLife, numbers: list[int]) -> list[Op]:
    paths = job.paths
    ops: list[Op] = [
        *life.begins(),
        job.runs.create_op(run),
        Create(paths.submissions(run.number)),
        job.graphs.pointer_op(GraphPointer(graph=run.graph, run=run.number)),
    ]
    if numbers:
        ops.append(Check(paths.run_result(numbers[-1])))  # at most one live run per job
    start = _start_path(job, run)
    if start is not None:
        # The existence of the pointer is enough: it never changes except for the mark of a claim, and the plan was
        # verified.
        ops.append(Check(start))  # guard: runs-begin-from-what-is-gone
    return ops


def _start_path(job: JobContext, run: Run) -> str | None:
    """Return the pointer of a run's start, in this or another job; ``None`` if the run needs none."""
    start = run.start
    if start.kind not in {StartKind.CHECKPOINT, StartKind.SAVEPOINT}:
        return None
    source = job.paths.cluster.job(start.source_job or job.job_id)
    return pointer_path(source, f"{start.kind.value}-{start.source_id}")


def _start_is_gone(job: JobContext, run: Run) -> CheckpointMissingError:
    source = run.start.source_job or job.job_id
    return CheckpointMissingError(
        f"{run.start.kind.value} {run.start.source_id} of job {source!r} was removed before run {run.number} of job "
        f"{job.job_id!r} could start from it",
        next_step=f"Submit it again from another start: `spark-ha checkpoint list {source}` and `spark-ha savepoint "
        f"list {source}` list the available ones",
    )
