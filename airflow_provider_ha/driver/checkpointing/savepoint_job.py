"""Savepoints of a running job: schedule, creation, and removal on request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.model import QuerySources, Savepoint
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.retention_policy import SavepointRetention, max_age_of
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointRequest, SavepointStore
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Sources
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.errors import CheckpointMissingError, ConfigurationError, OperationFailedError
from airflow_provider_ha.jobs.model import Operation, OperationKind
from airflow_provider_ha.names import short_name


@dataclass(frozen=True, slots=True)
class DisposalJob:
    """Executes the operations of kind ``dispose``.

    :param savepoint: Removes the savepoint that an operation names.
    """

    checkpoints: CheckpointStore
    leadership: Leadership
    savepoint: Callable[[Operation], dict[str, Any]]

    def dispose(self, operation: Operation) -> dict[str, Any]:
        """Remove the savepoint or checkpoint named by the operation; returns its result.

        :raises OperationFailedError: It names no checkpoint, or no remaining proven checkpoint.
        :raises HaError: As ``CheckpointStore.dispose``.
        """
        if "checkpoint" not in operation.arguments:
            return self.savepoint(operation)
        number, proven = str(operation.arguments["checkpoint"]), str(operation.arguments.get("proven") or "")
        if not (number.isascii() and number.isdigit()) or not proven:  # guard: checkpoints-go-without-a-proof
            raise OperationFailedError(
                f"checkpoint {number!r} is no number, or the request names no proven one",
                next_step="Use `spark-ha delete checkpoint`",
            )
        unreadable = str(operation.arguments.get("unreadable") or "")
        self.checkpoints.dispose(self.leadership, int(number), proven=proven, unreadable=unreadable)
        return {"checkpoint": int(number)}


COPY_ATTEMPTS = 3  # a cut can be purged while it is copied; the next one is newer


@dataclass(frozen=True, slots=True)
class SavepointJob:
    """Makes and disposes savepoints for operations.

    :param live: The working directory.
    :param directory: Location of a savepoint, by its id; for the answer.
    :param sources: Returns the sources of a query.
    """

    store: SavepointStore
    leadership: Leadership
    registry: QueryRegistry
    provenance: Provenance
    live: Tree
    directory: Callable[[str], Tree]
    sources: Sources = lambda *_: QuerySources()

    def create(self, operation: Operation) -> dict[str, Any]:
        """Make a savepoint without a pause of the job; returns the operation's result.

        :raises ConfigurationError: Its schedule's settings are invalid; the job was not copied.
        :raises OperationFailedError: A query is missing: a partial cut is no savepoint.
        :raises CheckpointError: The copy is damaged, or Spark purges faster than it can be copied.
        """
        if not self.registry.whole:
            raise OperationFailedError("the script has not started all its queries yet", next_step="Try again later")
        arguments = operation.arguments
        schedule = schedule_of(arguments)
        retention = retention_of(schedule, arguments)
        savepoint = self._copy(self._id(operation), str(arguments.get("label") or ""), schedule)
        result: dict[str, Any] = {
            "savepoint_id": savepoint.savepoint_id,
            "path": str(self.directory(savepoint.savepoint_id)),
        }
        if retention is not None:
            result["disposed"] = list(self.store.retain(self.leadership.commit, retention))
        return result

    def dispose(self, operation: Operation) -> dict[str, Any]:
        """Remove the savepoint that the operation names.

        :raises OperationFailedError: It does not name a savepoint.
        :raises CheckpointMissingError: There is no such savepoint.
        """
        savepoint_id = operation.arguments.get("savepoint_id")
        if not savepoint_id:
            raise OperationFailedError("no savepoint_id is given", next_step="Name the savepoint that is to be removed")
        self.store.dispose(self.leadership.commit, str(savepoint_id))
        return {"savepoint_id": savepoint_id}

    def _id(self, operation: Operation) -> str:
        """Return the savepoint's id, which follows from the operation's: a repeated request finds the same savepoint.

        A stop or cancel that is continued by another epoch ends at another cut, so its savepoint is another one.
        """
        stops = operation.operation in (OperationKind.STOP, OperationKind.CANCEL_WITH_SAVEPOINT)
        asked = f"{operation.operation_id}-e{self.leadership.epoch}" if stops else operation.operation_id
        return short_name(asked)

    def _copy(self, savepoint_id: str, label: str, schedule: str | None) -> Savepoint:
        for attempt in range(1, COPY_ATTEMPTS + 1):
            queries = self.registry.members
            request = SavepointRequest(
                savepoint_id=savepoint_id,
                run=self.provenance.run,
                epoch=self.leadership.epoch,
                # Downstream first: a query is never ahead of its input.
                cut={query.name: progress(query.directory).committed for query in reversed(queries)},
                sinks={query.name: query.sink_now() for query in queries},
                sources={query.name: self.sources(query.name, ()) for query in queries},
                sink_logs={query.name: query.sink_log for query in queries if query.sink_log is not None},
                graph=self.provenance.graph,
                spark_version=self.provenance.spark_version,
                label=label,
                schedule=schedule,
            )
            try:
                return self.store.create(self.leadership.commit, request, self.live.fresh())
            except CheckpointMissingError:
                if attempt == COPY_ATTEMPTS:
                    raise
        raise AssertionError("the loop returns or raises")


def schedule_of(arguments: Mapping[str, Any]) -> str | None:
    """Return the schedule that a savepoint belongs to; ``None`` for a user's own.

    :raises ConfigurationError: It is not a valid name.
    """
    schedule = arguments.get("schedule")
    if schedule is None or isinstance(schedule, str):
        return schedule
    raise _unusable("schedule", schedule, "a name")


def retention_of(schedule: str | None, arguments: Mapping[str, Any]) -> SavepointRetention | None:
    """Return an operation's limits for the savepoints of its schedule; ``None`` when all of them stay.

    Its node may have been written by hand, so its values are checked.

    :raises ConfigurationError: A limit is invalid.
    """
    count, days = arguments.get("retain"), arguments.get("retain_days")
    if schedule is None or (count is None and days is None):
        return None
    return SavepointRetention(
        schedule, None if count is None else _count(count), None if days is None else max_age_of(_days(days))
    )


def _count(value: object) -> int:
    """Return the number of savepoints to keep. Parsed from the text, so that neither 2.5 nor ``true`` is a number."""
    try:
        count = int(str(value))
    except ValueError:
        count = -1
    if count < 0:
        raise _unusable("retain", value, "how many savepoints of the schedule are kept")
    return count


def _days(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        raise _unusable("retain_days", value, "a number of days") from None


def _unusable(argument: str, value: object, meant: str) -> ConfigurationError:
    return ConfigurationError(
        f"{argument} of the savepoint operation is {value!r}; it must be {meant}",
        next_step="Request it again with another operation id",
    )
