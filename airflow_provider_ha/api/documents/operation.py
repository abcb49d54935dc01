"""Operations of a job and their results, moves to another cluster, and deletions."""

from __future__ import annotations

from typing import Literal

from airflow_provider_ha.api.documents.view import View, shows
from airflow_provider_ha.jobs.model import Operation
from airflow_provider_ha.jobs.move.move_records import Move, MoveRecord


@shows(MoveRecord, "cluster place move_id run by at")
class MovedView(View):
    """Where a job has gone."""


@shows(Move, "job_id origin destination place state move_id steps source cut replayed files bytes verdict run")
class MoveView(View):
    """A move, planned, done or given up."""


class DeletionView(View):
    """The deletion of a job: its plan or its result.

    :param state: ``planned`` with ``--dry-run``; ``deleted``; ``waiting`` when the job is gone and readers still hold
        its files: the same command removes them later.
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

    :param state: ``planned`` with ``--dry-run``; ``erased``.
    """

    cluster: str
    state: Literal["planned", "erased"]
    jobs: tuple[str, ...]
    runs: int
    checkpoints: int
    savepoints: tuple[str, ...]


@shows(Operation, "operation_id operation arguments run requested_by requested_at state epoch result error finished_at")
class OperationView(View):
    """A request with its state and its result."""
