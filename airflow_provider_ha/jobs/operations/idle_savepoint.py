"""Savepoint of a job without a driver: a copy of its newest proven checkpoint.

Invariants:

- Other processes do not wait for the copy. It is made without the job's lock, so a driver may start in that time; a
  reader's lease keeps the checkpoint until the copy is verified.
- Each copy has a separate directory, even for two calls with the same operation id, so no copy replaces files of
  another.
- One transaction, committed as the leader of a job without a driver, publishes the pointer and the answer. It checks
  that the job was not deleted in between, and creates the operation's node: of two calls with the same id, the first
  wins and the other removes its own copy. Nothing is recorded earlier, so the next call with the id starts from the
  beginning.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.areas.pins import SINKS
from airflow_provider_ha.checkpoints.model import QueryCut
from airflow_provider_ha.checkpoints.restore.restore_point import CHECKPOINT, LATEST
from airflow_provider_ha.checkpoints.restore.select import RestoreSource, Selection
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.coordination.coordinator import Create, Op, SetData
from airflow_provider_ha.errors import (
    CheckpointCorruptError,
    CheckpointMissingError,
    HaError,
    JobStateError,
    LeadershipUnavailableError,
    NodeExistsError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import held, savepoint_store, select_checkpoint
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState, Run
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.recovery.transactions import brief_commit, take_lock
from airflow_provider_ha.jobs.removal.removal_records import JobLife, read_life
from airflow_provider_ha.names import short_name


def copy_request(
    job: JobContext, chosen: RestoreSource, savepoint_id: str, *, label: str, schedule: str | None = None
) -> tuple[SavepointRequest, Tree]:
    """Return the request for a copy of a checkpoint, and the directory to read.

    A query without a committed batch is left out, because it has no file.

    :param chosen: A checkpoint; a reader's lease on it has to outlast the copy.
    """
    root = job.area.tree(chosen.directory)
    request = SavepointRequest(
        savepoint_id=savepoint_id,
        run=chosen.run,
        epoch=chosen.epoch,
        cut={query: part.batch for query, part in chosen.queries.items() if part.batch >= 0},
        sinks={query: part.sink for query, part in chosen.queries.items()},
        sources={query: part.sources for query, part in chosen.queries.items()},
        sink_logs=_kept_logs(root, chosen.queries),
        graph=chosen.graph,
        spark_version=chosen.spark_version,
        label=label,
        schedule=schedule,
    )
    return request, root


def _kept_logs(root: Tree, queries: dict[str, QueryCut]) -> dict[str, Tree]:
    logs = {query: root / SINKS / query / LOG for query in queries}
    return {query: log for query, log in logs.items() if log.names()}


log = logging.getLogger(__name__)

_LOOKS = 3  # for a job that is started, stopped and started again during the call
Tell = Callable[[str], None]


def take_savepoint(
    job: JobContext,
    *,
    operation_id: str,
    arguments: Mapping[str, Any],
    retention: SavepointRetention | None,
    requested_by: str,
    tell: Tell = lambda _: None,
) -> Operation:
    """Request a savepoint from the driver; for an ended job, copy its newest proven checkpoint and return the answer.

    A job that has lost its driver has not ended: the next driver takes the savepoint, with all committed batches.

    :param retention: Retention of the schedule's savepoints, from *arguments*.
    :param tell: Progress callback, called with a description before a long step.
    :raises UnknownJobError: The job does not exist.
    :raises CheckpointMissingError: The job has ended without a proven checkpoint.
    :raises JobStateError: The job has no run, was deleted during the call, or the id belongs to another request.
    :raises LeadershipUnavailableError: Another process holds the lock of the ended job; no savepoint exists.
    """
    job.snapshot()  # raises UnknownJobError, with the names of the known jobs
    for _ in range(_LOOKS):
        newest = job.runs.latest()
        over = newest is not None and newest.result is not None
        if not over or operations.read(job.coordinator, job.paths, operation_id) is not None:
            break
        assert newest is not None  # noqa: S101  # it is over
        copy = _Copy(job, newest.run, operation_id, dict(arguments), retention, requested_by)
        try:
            return copy.make(tell)
        except (NodeExistsError, LeadershipUnavailableError) as error:
            again = job.runs.latest()
            led = again is not None and again.result is None
            if not led and isinstance(error, LeadershipUnavailableError):
                raise
            log.info("the savepoint of job %s is left to another process: %s", job.job_id, error)
    return operations.request(
        job.coordinator,
        job.paths,
        OperationKind.SAVEPOINT,
        operation_id=operation_id,
        arguments=arguments,
        requested_by=requested_by,
        clock=job.clock,
    )


@dataclass(frozen=True, slots=True)
class _Copy:
    """A call that copies a checkpoint of a job.

    :param run: The newest run of the job, which has ended.
    """

    job: JobContext
    run: Run
    operation_id: str
    arguments: dict[str, Any]
    retention: SavepointRetention | None
    requested_by: str

    def make(self, tell: Tell) -> Operation:
        life = read_life(self.job.coordinator, self.job.paths)  # before its checkpoints are read
        if life.deleted is not None:
            raise JobStateError(f"job {self.job.job_id!r} was deleted", next_step="Nothing was copied")
        found: list[Selection] = []

        def choose() -> str:
            tell("verifying the newest checkpoint")
            found.append(select_checkpoint(self.job, start_from=LATEST, fallback=True))
            return _proven(self.job, found[-1]).name

        with held(self.job, choose, by=f"savepoint ({self.operation_id}) by {self.requested_by}"):
            chosen = _proven(self.job, found[-1])
            same = self._same(chosen)
            tell(f"copying {chosen.name}" if same is None else f"savepoint {same} holds {chosen.name}")
            answered = self._copied(life, found[-1], chosen) if same is None else self._found(life, chosen, same)
        return self._retained(answered)

    def _same(self, chosen: RestoreSource) -> str | None:
        """Return the schedule's newest savepoint if it already has the checkpoint.

        A schedule continues while the job is stopped: without this check, its retention would replace all savepoints by
        copies of a single cut.
        """
        schedule = self.arguments.get("schedule")
        if schedule is None:
            return None
        store = savepoint_store(self.job)
        newest = next((each for each in store.list() if each.schedule == schedule and each.claimed_by is None), None)
        if newest is None:
            return None
        try:
            savepoint = store.load(newest)
        except (CheckpointCorruptError, CheckpointMissingError) as error:
            log.warning("savepoint %s is not counted: %s", newest.savepoint_id, error)
            return None
        cut = {query: part.batch for query, part in chosen.queries.items() if part.batch >= 0}
        held_there = (savepoint.run, savepoint.epoch, {name: part.batch for name, part in savepoint.queries.items()})
        return newest.savepoint_id if held_there == (chosen.run, chosen.epoch, cut) else None

    def _found(self, life: JobLife, chosen: RestoreSource, savepoint_id: str) -> Operation:
        result = self._result(chosen, savepoint_id, ()) | {"new": False}
        return self._commit(life, result)

    def _copied(self, life: JobLife, selection: Selection, chosen: RestoreSource) -> Operation:
        store = savepoint_store(self.job)
        savepoint_id = short_name(f"{self.operation_id}-{new_id()[:6]}")
        request, root = copy_request(
            self.job,
            chosen,
            savepoint_id,
            label=str(self.arguments.get("label") or ""),
            schedule=self.arguments.get("schedule"),
        )
        passed_over = tuple(f"{each.source}: {each.reason}" for each in selection.candidates if not each.accepted)
        result = self._result(chosen, savepoint_id, passed_over)

        def commit(*ops: Op) -> list[int]:
            self._commit(life, result, *ops)
            return []

        try:
            store.publish(commit, store.copy(request, root))
        except OutcomeUnknownError:
            raise  # the pointer may exist
        except BaseException:
            self._discard(savepoint_id)
            raise
        answered = operations.read(self.job.coordinator, self.job.paths, self.operation_id)
        assert answered is not None  # noqa: S101  # it was created with the pointer
        return answered

    def _commit(self, life: JobLife, result: dict[str, Any], *ops: Op) -> Operation:
        """Publish the answer together with *ops*, as the leader of a job without a driver.

        :raises NodeExistsError: Another call with the id was faster.
        :raises LeadershipUnavailableError: A driver leads, or another process acts on the job.
        :raises JobStateError: The job was deleted in between.
        """
        now = self.job.clock.now()
        with take_lock(self.job, self.run.number) as leadership:
            answer = Operation(
                operation_id=self.operation_id,
                operation=OperationKind.SAVEPOINT,
                arguments=self.arguments,
                run=self.run.number,
                requested_by=self.requested_by,
                requested_at=now,
                state=OperationState.COMPLETED,
                epoch=leadership.epoch,
                result=result,
                finished_at=now,
            )
            written = Create(self.job.paths.operation(self.operation_id), answer.to_bytes())
            try:
                leadership.commit(*life.begins(), written, *ops)
            except VersionConflictError as error:
                raise JobStateError(
                    f"job {self.job.job_id!r} was deleted while its savepoint was copied", next_step="Nothing was kept"
                ) from error
            with suppress(HaError):  # a schedule continues for an ended job, without a driver to remove old operations
                for old in operations.expired(operations.list_operations(self.job.coordinator, self.job.paths), now):
                    leadership.commit(operations.forget_op(self.job.paths, old))
        return answer

    def _result(self, chosen: RestoreSource, savepoint_id: str, passed_over: tuple[str, ...]) -> dict[str, Any]:
        result: dict[str, Any] = {
            "savepoint_id": savepoint_id,
            "path": str(savepoint_store(self.job).tree(savepoint_id)),
            "checkpoint": int(chosen.source_id),
        }
        return result | ({"passed_over": list(passed_over)} if passed_over else {})

    def _retained(self, answered: Operation) -> Operation:
        """Remove the schedule's surplus savepoints and record that; after a kill, the next savepoint does so."""
        if self.retention is None:
            return answered
        commit = brief_commit(self.job, self.run.number)
        try:
            disposed = savepoint_store(self.job).retain(commit, self.retention)
            noted = answered.model_copy(update={"result": answered.result | {"disposed": list(disposed)}})
            commit(SetData(self.job.paths.operation(self.operation_id), noted.to_bytes()))
        except HaError as error:
            log.warning("old savepoints of job %s stay until the next one is taken: %s", self.job.job_id, error)
            return answered
        return noted

    def _discard(self, savepoint_id: str) -> None:
        key = self.job.keys.savepoint(savepoint_id)
        try:
            if not savepoint_store(self.job).has(savepoint_id) and self.job.area.contains(key):
                self.job.area.remove(key)
        except (HaError, OSError) as error:
            log.warning("%s, which has no pointer, could not be removed: %s", key, error)


def _proven(job: JobContext, selection: Selection) -> RestoreSource:
    """Return the newest proven checkpoint.

    :raises CheckpointMissingError: The job has no proven checkpoint.
    """
    chosen = selection.chosen
    if chosen is not None and chosen.source == CHECKPOINT and any(each.batch >= 0 for each in chosen.queries.values()):
        return chosen
    bad = [each for each in selection.candidates if each.source.startswith(CHECKPOINT) and not each.accepted]
    reasons = "".join(f"; {each.source}: {each.file or 'record'}: {each.reason}" for each in bad)
    help_with = (
        f"`spark-ha checkpoint list {job.job_id}` and `spark-ha savepoint list {job.job_id}` show the available ones"
    )
    raise CheckpointMissingError(
        f"job {job.job_id!r} is over and has no proven checkpoint for a savepoint{reasons}",
        next_step=help_with,
    )
