"""Follow an operation (savepoint, stop, cancel) until it is final, and until its run has ended.

A stop whose driver is lost before it answers is requested again, and then ends the run without a driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents import events
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.jobs.model import Operation, OperationState
from airflow_provider_ha.jobs.runs.run_store import RunStore, RunView
from airflow_provider_ha.triggers._base import Event, SparkHaTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.operations.stop import UnansweredStop


class SparkHaOperationTrigger(SparkHaTrigger):
    """Wait for the result of an operation.

    Events: ``completed``, ``failed``, ``abandoned`` (the run ended before the operation completed). Each carries the
    operation. ``lost``: the stop is waiting for a driver although it needs none, and none is being started.

    :param operation_id: Id of the operation.
    :param run: Run to which the operation belongs.
    :param until_ended: Success also requires the run's result (stop and cancel).
    """

    def __init__(self, *, operation_id: str = "", run: int = 0, until_ended: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.operation_id = operation_id
        self.number = run
        self.until_ended = until_ended
        self._unanswered: UnansweredStop | None = None

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {
            "operation_id": self.operation_id,
            "run": self.number,
            "until_ended": self.until_ended,
        }

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the operation and the run's result."""
        return (paths.operation(self.operation_id), paths.run_result(self.number))

    def look(self, client: HaClient) -> Event | None:
        """Read the operation and its run."""
        operation = client.job(self.job_id).operation(self.operation_id)
        if operation is None:
            reason = f"operation {self.operation_id!r} of job {self.job_id!r} is gone"
            return events.ErrorEvent(reason=reason).to_json()
        paths = ClusterPaths(client.config.root, client.config.cluster_id).job(self.job_id)
        view = RunStore(client.coordinator, paths).get(self.number)
        event = operation_event(operation, view, until_ended=self.until_ended)
        return self._lost(client, operation) if event is None else event

    def _lost(self, client: HaClient, operation: Operation) -> Event | None:
        from airflow_provider_ha.jobs.operations.stop import UnansweredStop  # noqa: PLC0415  # brings the stores

        self._unanswered = self._unanswered or UnansweredStop()
        due = self._unanswered.due(client.job(self.job_id).snapshot(), operation)
        return events.UnansweredStopEvent().to_json() if due else None


def operation_event(operation: Operation, view: RunView, *, until_ended: bool) -> Event | None:
    """Return the event of an operation and its run; ``None`` before the operation's result or the run's end."""
    if not operation.state.final:
        return None
    if view.result is None and until_ended and operation.state is OperationState.COMPLETED:
        return None
    return events.operation_event(operation, view.result).to_json()
