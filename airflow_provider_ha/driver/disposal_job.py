"""Removal of a savepoint or a checkpoint, requested from a running job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import OperationFailedError
from airflow_provider_ha.jobs.model import Operation


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
                next_step="Use `spark-ha checkpoint delete`",
            )
        unreadable = str(operation.arguments.get("unreadable") or "")
        self.checkpoints.dispose(self.leadership, int(number), proven=proven, unreadable=unreadable)
        return {"checkpoint": int(number)}
