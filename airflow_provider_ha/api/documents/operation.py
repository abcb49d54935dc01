"""Operations of a job and their results, moves to another cluster, and deletions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from airflow_provider_ha.api.documents.view import View
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.jobs.model import OperationKind, OperationState


class MovedView(View):
    """Where a job has gone.

    :param cluster: Hosts of ZooKeeper, and the node below which that cluster keeps jobs.
    :param place: Where the job works there: work root with the cluster id.
    :param move_id: Id of the move, and of the request of its run there.
    :param run: Number of its run there; ``null`` while it is on its way.
    :param by: Who moved it.
    :param at: When the move was begun.
    """

    cluster: str
    place: str
    move_id: str
    run: int | None
    by: str
    at: datetime


class MoveView(View):
    """A move, planned, done or given up.

    :param job_id: The job.
    :param origin: The old cluster: hosts of ZooKeeper, and the node below which it keeps jobs.
    :param destination: The new cluster.
    :param place: Where the job works there: work root with the cluster id.
    :param state: ``planned``: nothing changed yet; ``moved``: the job has its run at the target; ``abandoned``: it may
        start at its old place again.
    :param move_id: Id of the move, and of the request of its run; ``null`` before it is begun.
    :param steps: Remaining steps, in order; empty after the move.
    :param source: Start of the job after the move: ``savepoint-<id>`` or ``checkpoint-<n>``; ``null`` while undecided.
    :param cut: Query -> last batch that is brought along.
    :param replayed: Query -> batches that are executed again with their own boundaries.
    :param files: Number of files to copy, including the application's files; ``null`` while unknown.
    :param bytes: How many bytes they have.
    :param verdict: Verdict of the restore plan; ``null`` before the plan is made.
    :param run: Number of the run at the target; ``null`` before the run exists.
    """

    job_id: str
    origin: str
    destination: str
    place: str
    state: Literal["planned", "moved", "abandoned"]
    move_id: str | None
    steps: tuple[str, ...]
    source: str | None
    cut: dict[str, int]
    replayed: dict[str, int]
    files: int | None
    bytes: int | None
    verdict: Verdict | None
    run: int | None


class DeletionView(View):
    """The deletion of a job: its plan or its result.

    :param job_id: The job.
    :param state: ``planned`` with ``--dry-run``; ``deleted``; ``waiting`` when the job is gone and readers still hold
        its files: the same command removes them later.
    :param runs: How many runs it had.
    :param checkpoints: How many checkpoints were retained.
    :param savepoints: Ids of its savepoints.
    :param keep_savepoints: Whether they stay.
    :param waiting: Files that readers still hold.
    """

    job_id: str
    state: Literal["planned", "waiting", "deleted"]
    runs: int
    checkpoints: int
    savepoints: tuple[str, ...]
    keep_savepoints: bool
    waiting: tuple[str, ...]


class ErasureView(View):
    """The erasure of a cluster: its plan or its result.

    :param cluster: Id of the cluster.
    :param state: ``planned`` with ``--dry-run``; ``erased``.
    :param jobs: Ids of the jobs.
    :param runs: How many runs they had.
    :param checkpoints: How many checkpoints were retained.
    :param savepoints: Savepoints that stay, as ``job/id``.
    """

    cluster: str
    state: Literal["planned", "erased"]
    jobs: tuple[str, ...]
    runs: int
    checkpoints: int
    savepoints: tuple[str, ...]


class OperationView(View):
    """A request with its state and its result.

    :param operation_id: Id of the request: two requests with one id are one request.
    :param operation: Kind of the operation.
    :param arguments: Its arguments: the mode of a stop, the label of a savepoint.
    :param run: Run that the request is for.
    :param requested_by: Requester, for people.
    :param requested_at: When it was made.
    :param state: ``REQUESTED``, ``RUNNING``, ``COMPLETED``, ``FAILED`` or ``ABANDONED``. Several requests that one end
        of the run fulfils are ``COMPLETED`` with one result.
    :param epoch: Epoch that took it up.
    :param result: ``savepoint_id`` and ``path`` of a savepoint, ``checkpoint`` of a stop; ``checkpoint``, ``path``,
        ``cut`` and ``new`` of a checkpoint.
    :param error: Why it failed; of a stop or cancel of a run that ended otherwise, what ended it and what helps.
    :param finished_at: When its state became final.
    """

    operation_id: str
    operation: OperationKind
    arguments: dict[str, Any]
    run: int
    requested_by: str
    requested_at: datetime
    state: OperationState
    epoch: int | None
    result: dict[str, Any]
    error: str
    finished_at: datetime | None
