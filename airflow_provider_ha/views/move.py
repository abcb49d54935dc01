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
    :param state: ``planned``: nothing was changed; ``moved``: the job has its run there; ``abandoned``: it may be
        started at its old place again.
    :param move_id: Id of the move, and of the request of its run; ``null`` before it is begun.
    :param steps: What is left to do, in order; empty once it is moved.
    :param source: What the job goes on from: ``savepoint-<id>`` or ``checkpoint-<n>``; ``null`` while that is open.
    :param cut: Query -> last batch that is brought along.
    :param replayed: Query -> batches that are executed again with their own boundaries.
    :param files: How many files are copied, those of the application included; ``null`` while that is not known.
    :param bytes: How many bytes they have.
    :param verdict: Of the restore plan; ``null`` while there is none.
    :param run: Number of the run there; ``null`` while there is none.
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
