"""Operations, moves and deletions, and results of the tasks that start, follow, stop, save or recover jobs.

Invariant: a task returns a key only when it has a value for it, and a key is never renamed: DAGs name it in templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field
from typing_extensions import Self

from airflow_provider_ha.api.documents.view import View, shows
from airflow_provider_ha.jobs.model import JobState, Operation
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


class ClusterDeletionView(View):
    """The deletion of a cluster: its plan or its result.

    :param state: ``planned`` with ``--dry-run``; ``deleted``.
    """

    cluster: str
    state: Literal["planned", "deleted"]
    jobs: tuple[str, ...]
    runs: int
    checkpoints: int
    savepoints: tuple[str, ...]


@shows(Operation, "operation_id operation arguments run requested_by requested_at state epoch result error finished_at")
class OperationView(View):
    """A request with its state and its result."""


class TaskResultView(View):
    """A view whose JSON has the keys that were given, and no others."""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON with the keys that were given."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class TaskRunView(TaskResultView):
    """XCom ``spark_ha_run``: the run of a task, as soon as there is one, also while the task is deferred.

    :param attempt: Its newest submission, when the task looked.
    :param epoch: Epoch of its leader, or of its result; left out before a driver of the run leads.
    :param operation_id: Id of the operation that the task has requested of the run.
    :param conn_id: Connection of the job's cluster.
    """

    job_id: str
    run: int
    attempt: int | None = None
    epoch: int | None = None
    operation_id: str | None = None
    conn_id: str | None = None


class TaskRunResultView(TaskResultView):
    """The run that a task has submitted, restored or followed.

    :param epoch: Epoch of the leader that was RUNNING, or that wrote the result.
    :param state: ``RUNNING`` with ``wait_for="running"``, else ``FINISHED``.
    :param checkpoint: Number of the last checkpoint of a run that FINISHED.
    :param reason: Why the run has ended, for people.
    """

    job_id: str
    run: int
    epoch: int
    state: JobState
    checkpoint: int | None = None
    reason: str | None = None

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> Self:
        """Return what a task makes of the event ``running`` or ``ended``."""
        return cls.model_validate({key: event[key] for key in cls.model_fields if event.get(key) is not None})


class OperationResultView(TaskResultView):
    """The operation that a task has requested, once it is COMPLETED.

    :param run: Run that the operation was requested of.
    :param operation_id: Id of the request.
    """

    job_id: str
    run: int
    operation_id: str

    @classmethod
    def of_operation(cls, job_id: str, operation: Operation) -> Self:
        """Return an operation with the parts of its result that this view has; a later driver may give more."""
        given = {key: value for key, value in operation.result.items() if key in cls.model_fields}
        return cls.model_validate(
            {**given, "job_id": job_id, "run": operation.run, "operation_id": operation.operation_id}
        )


class StopResultView(OperationResultView):
    """A stop of a run that FINISHED.

    :param checkpoint: Number of the last checkpoint; ``null`` for a run that lost its driver before its first one.
    :param path: Path of the checkpoint, or of the requested savepoint.
    :param savepoint_id: The savepoint, when one was requested.
    :param disposed: Savepoints that its schedule disposed of.
    """

    checkpoint: int | None = None
    path: str | None = None
    savepoint_id: str | None = None
    disposed: tuple[str, ...] = ()


class CancelResultView(OperationResultView):
    """A cancel of a run that is CANCELED.

    :param savepoint_id: The savepoint, when one was requested.
    :param path: Path of its directory.
    """

    savepoint_id: str | None = None
    path: str | None = None


class SavepointResultView(OperationResultView):
    """A savepoint of a job.

    :param savepoint_id: Its id.
    :param path: Path of its directory.
    :param disposed: Older savepoints that the limits of its schedule have disposed of; left out without limits.
    :param checkpoint: The checkpoint that it was copied from, of a job that is over.
    :param new: False when the newest savepoint of its schedule holds that checkpoint already; left out otherwise.
    """

    savepoint_id: str
    path: str
    disposed: tuple[str, ...] = ()
    checkpoint: int | None = None
    new: bool | None = None


class CheckpointResultView(OperationResultView):
    """A checkpoint that was requested of a running job.

    :param checkpoint: Its number.
    :param path: Path of its directory.
    :param cut: Query -> its newest batch in the checkpoint.
    :param new: Whether it was taken for the request; false without a committed batch since the newest checkpoint.
    """

    checkpoint: int
    path: str
    cut: dict[str, int]
    new: bool


class RecoveredJobsView(TaskResultView):
    """The jobs of a cluster by outcome. An outcome without jobs is left out.

    :param recovered: Jobs that were submitted again from their persisted graph.
    :param on_its_way: Lost jobs for which another process had made the next submission.
    :param left_alone: Jobs that need nothing.
    :param cleaned_up: Jobs that are over, and whose leftovers are removed now.
    :param replenished: Led jobs for which missing standby drivers were started.
    :param in_quarantine: Jobs in quarantine: they need a person.
    :param pending: Jobs whose loss has not lasted long enough to act on it.
    """

    recovered: tuple[str, ...] = ()
    on_its_way: tuple[str, ...] = Field(default=(), alias="on its way")
    left_alone: tuple[str, ...] = Field(default=(), alias="left alone")
    cleaned_up: tuple[str, ...] = Field(default=(), alias="cleaned up")
    replenished: tuple[str, ...] = ()
    in_quarantine: tuple[str, ...] = Field(default=(), alias="in quarantine")
    pending: tuple[str, ...] = ()
