"""The move of a job to another cluster."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.views.view import View


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
