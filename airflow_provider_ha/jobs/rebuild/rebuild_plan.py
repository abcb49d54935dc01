"""Plan of a rebuild: the nodes that follow from the evidence of a job. Pure.

Invariants:

- An ended run stays ended (FLINK-10011). A result counts unless a later epoch worked for the same run: its leader had
  then lost the job before ZooKeeper accepted the result. Every run except the newest has ended, because a run is
  created only after the previous run's result.
- A live run can be recovered: without a result, with its submissions, graph pointer and working directory.
- Unknown facts are not guessed in the dangerous direction: a run known only from its checkpoints (its records are older
  than the journal) comes back FAILED, and a user restores it.
- The epoch never decreases: see :data:`EPOCH_MARGIN`.
- The first life of a job takes precedence. A repeated run number shows that ZooKeeper had lost its data before the
  second life; its records are left out, and the runs in :attr:`JobPlan.intruders` are replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.job_graph import Blob, GraphPointer
from airflow_provider_ha.jobs.model import JobState, Run, RunResult, StartPoint
from airflow_provider_ha.jobs.rebuild.storage_evidence import JobEvidence, completed
from airflow_provider_ha.jobs.runs.journal import (
    GenerationEntry,
    JournalEntry,
    MoveEntry,
    ResultEntry,
    StartedEntry,
    SubmissionEntry,
)
from airflow_provider_ha.jobs.runs.submissions import Submission
from airflow_provider_ha.records import Record


# An epoch leaves a name in storage with its first object. But a leader may die earlier, a cancel without a driver only
# writes its result, and during an outage of storage every restarted driver takes an epoch without a trace. So the
# highest known epoch plus one is not enough. One restart per minute uses up this margin in 16 hours. Raising the
# version is cheap, because all increments fit into one transaction.
EPOCH_MARGIN = 1000


@dataclass(frozen=True, slots=True)
class PlannedNode:
    """A node and its planned content."""

    path: str
    data: bytes
    kind: str = ""


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Planned tree of a job.

    :param highest_epoch: Highest epoch with a trace in storage.
    :param epoch: Minimum version of the epoch node after the rebuild.
    :param counter: Highest checkpoint number in use.
    :param nodes: Nodes, parents first, without the lock and the graph pointer.
    :param pointer: The graph pointer, if the newest run has to be recovered.
    :param states: Run -> its state after the rebuild; LOST for a recoverable run.
    :param problems: Objects in storage that could not be used, as sentences.
    :param intruders: Runs of a later life, as bytes of their nodes.
    """

    job_id: str
    highest_epoch: int
    epoch: int
    counter: int
    nodes: tuple[PlannedNode, ...]
    pointer: PlannedNode | None
    states: dict[int, JobState]
    checkpoints: tuple[int, ...]
    savepoints: tuple[str, ...]
    problems: tuple[str, ...]
    intruders: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True)
class _RunPlan:
    run: Run
    submissions: tuple[SubmissionEntry, ...]
    result: RunResult | None


def plan_job(evidence: JobEvidence, paths: JobPaths) -> JobPlan:
    """Return the plan of a job's tree."""
    evidence, later = _first_life(evidence)
    checkpoints = completed(list(evidence.checkpoints))
    runs = [_plan_run(evidence, number, last=number == max(_numbers(evidence))) for number in _numbers(evidence)]
    nodes = [PlannedNode(path, b"") for path in paths.skeleton if path != paths.lock]
    nodes += [node for run in runs for node in _run_nodes(evidence, run, paths)]
    nodes += [_node(paths.checkpoint(pointer.number), pointer) for pointer in checkpoints]
    nodes += [_node(paths.savepoint(item.pointer.savepoint_id), item.pointer) for item in evidence.savepoints]
    generations = [entry.generation for entry in evidence.entries if isinstance(entry, GenerationEntry)]
    if generations:
        nodes.append(_node(paths.generation, max(generations, key=lambda generation: generation.epoch)))
    moves = [entry.moved for entry in evidence.entries if isinstance(entry, MoveEntry)]
    if moves:
        nodes.append(_node(paths.moved, max(moves, key=lambda moved: moved.at)))
    return JobPlan(
        job_id=evidence.job_id,
        highest_epoch=evidence.highest_epoch,
        epoch=evidence.highest_epoch + EPOCH_MARGIN,
        counter=evidence.highest_number,
        nodes=tuple(nodes),
        pointer=_pointer(runs, paths),
        states={plan.run.number: plan.result.state if plan.result else JobState.LOST for plan in runs},
        checkpoints=tuple(pointer.number for pointer in checkpoints),
        savepoints=tuple(item.pointer.savepoint_id for item in evidence.savepoints),
        problems=(*evidence.problems, *map(_not_used, later)),
        intruders=frozenset(run.to_bytes() for run in later),
    )


def _first_life(evidence: JobEvidence) -> tuple[JobEvidence, list[Run]]:
    """Return the evidence of the first life of a job, and the runs of later lives, which repeat its numbers."""
    submissions = [entry for entry in evidence.entries if isinstance(entry, SubmissionEntry)]
    runs = {entry.run.to_bytes(): entry.run for entry in submissions}
    highest, later = 0, list[Run]()
    for run in sorted(runs.values(), key=lambda run: run.created_at):
        if later or run.number <= highest:
            later.append(run)
        highest = max(highest, run.number)
    if not later:
        return evidence, []
    end, theirs = later[0].created_at, {run.to_bytes() for run in later}
    taken = {entry.submission.submission_id for entry in submissions if entry.run.to_bytes() in theirs}

    def is_first(entry: JournalEntry) -> bool:
        if isinstance(entry, SubmissionEntry):
            return entry.submission.submission_id not in taken
        if isinstance(entry, StartedEntry):
            return entry.submission_id not in taken
        if isinstance(entry, ResultEntry):
            return entry.result.at < end
        return not isinstance(entry, GenerationEntry) or entry.noted_at is None or entry.noted_at < end

    entries = tuple(entry for entry in evidence.entries if is_first(entry))
    checkpoints = tuple(item for item in evidence.checkpoints if item.pointer.created_at < end)
    return replace(evidence, entries=entries, checkpoints=checkpoints), later


def _not_used(run: Run) -> str:
    return (
        f"run {run.number} was created a second time, by request {run.request_id!r}, in a ZooKeeper that had lost its "
        "data; only the first run is used"
    )


def _numbers(evidence: JobEvidence) -> list[int]:
    """Return the numbers of all runs in the evidence, ascending."""
    numbers = {entry.run.number for entry in evidence.entries if isinstance(entry, SubmissionEntry)}
    numbers |= {item.pointer.run for item in evidence.checkpoints}
    return sorted(numbers)


def _plan_run(evidence: JobEvidence, number: int, *, last: bool) -> _RunPlan:
    submissions = _submissions(evidence, number)
    result = _result(evidence, number, last=last)
    if submissions and last:
        return _RunPlan(submissions[0].run, submissions, result)
    if submissions:
        return _RunPlan(submissions[0].run, submissions, result or _unknown_result(evidence, number))
    return _RunPlan(_run_of_checkpoints(evidence, number), (), result or _unknown_result(evidence, number))


def _submissions(evidence: JobEvidence, number: int) -> tuple[SubmissionEntry, ...]:
    """Return one entry per attempt, ascending.

    If two processes tried to create the same submission, only the one accepted by the engine succeeded.
    """
    found = _entries_of_run(evidence, number)
    started = {entry.submission_id for entry in evidence.entries if isinstance(entry, StartedEntry)}
    ordered = sorted(found, key=lambda e: (e.submission.submission_id in started, e.submission.created_at))
    by_attempt = {entry.submission.attempt: entry for entry in ordered if entry.run == found[-1].run}
    return tuple(by_attempt[attempt] for attempt in sorted(by_attempt))


def _entries_of_run(evidence: JobEvidence, number: int) -> list[SubmissionEntry]:
    entries = [e for e in evidence.entries if isinstance(e, SubmissionEntry) and e.run.number == number]
    return sorted(entries, key=lambda entry: entry.submission.created_at)


def _result(evidence: JobEvidence, number: int, *, last: bool) -> RunResult | None:
    noted = [entry.result for entry in evidence.entries if isinstance(entry, ResultEntry) and entry.run == number]
    if not noted:
        return None
    newest = max(noted, key=lambda result: result.epoch)
    if last and any(epoch > newest.epoch for epoch in _epochs_at_work(evidence, number)):
        return None
    return newest


def _epochs_at_work(evidence: JobEvidence, number: int) -> Iterator[int]:
    """Yield the epochs that worked for a run, which therefore had no result before them."""
    for entry in evidence.entries:
        if isinstance(entry, GenerationEntry) and entry.generation.run == number:
            yield entry.generation.epoch
    yield from (item.pointer.epoch for item in evidence.checkpoints if item.pointer.run == number)


def _unknown_result(evidence: JobEvidence, number: int) -> RunResult:
    own = _checkpoints_of(evidence, number)
    return RunResult(
        state=JobState.FAILED,
        epoch=max((pointer.epoch for pointer in own), default=0),
        reason="rebuilt from storage, which has no record of its end: restore the job from a checkpoint",
        checkpoint=max((pointer.number for pointer in own), default=None),
        at=_last_seen(evidence, number),
    )


def _run_of_checkpoints(evidence: JobEvidence, number: int) -> Run:
    """Return a run known only from its checkpoints."""
    own = [item for item in evidence.checkpoints if item.pointer.run == number]
    sizes = {blob.sha256: blob.size for blob in evidence.graphs}
    return Run(
        number=number,
        graph=Blob(sha256=own[-1].graph, size=sizes.get(own[-1].graph, 0)),
        start=StartPoint(),
        request_id=f"rebuilt-{number}",
        created_at=min(item.pointer.created_at for item in own),
    )


def _last_seen(evidence: JobEvidence, number: int) -> datetime:
    times = [pointer.created_at for pointer in _checkpoints_of(evidence, number)]
    times += [
        entry.submission.created_at
        for entry in evidence.entries
        if isinstance(entry, SubmissionEntry) and entry.run.number == number
    ]
    return max(times)


def _checkpoints_of(evidence: JobEvidence, number: int) -> list[CheckpointPointer]:
    return [item.pointer for item in evidence.checkpoints if item.pointer.run == number]


def _run_nodes(evidence: JobEvidence, plan: _RunPlan, paths: JobPaths) -> Iterator[PlannedNode]:
    number = plan.run.number
    yield _node(paths.run(number), plan.run)
    yield PlannedNode(paths.submissions(number), b"")
    for entry in plan.submissions:
        submission: Submission = entry.submission
        yield _node(paths.submission(number, submission.attempt), submission)
        for started in evidence.entries:
            if isinstance(started, StartedEntry) and started.submission_id == submission.submission_id:
                yield _node(paths.submission_started(number, submission.attempt), started.started)
    if plan.result is not None:
        yield _node(paths.run_result(number), plan.result)


def _pointer(runs: list[_RunPlan], paths: JobPaths) -> PlannedNode | None:
    """Return the graph pointer: it exists if and only if a new leader has to recover the job."""
    if not runs or runs[-1].result is not None:
        return None
    run = runs[-1].run
    attempt = max((entry.submission.attempt for entry in runs[-1].submissions), default=0)
    return _node(paths.job_graph, GraphPointer(graph=run.graph, run=run.number, attempt=attempt))


def _node(path: str, record: Record) -> PlannedNode:
    return PlannedNode(path, record.to_bytes(), record.kind)
