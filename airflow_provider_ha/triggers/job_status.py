"""Wait until a job reaches a target state; any other terminal state ends the wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.events import StateEvent
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.triggers._base import Event
from airflow_provider_ha.triggers.job import LiveFactTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.status import JobStatus


class SparkHaJobStatusTrigger(LiveFactTrigger):
    """Wait for a state.

    :param target_states: Names of :class:`~airflow_provider_ha.jobs.model.JobState`.
    """

    def __init__(self, *, target_states: Sequence[str] = (), **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_states = list(target_states)

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {"target_states": self.target_states}

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the status and the leader."""
        return (paths.status, paths.leader)

    def passed(self, snapshot: JobStatus) -> Event | None:
        """Return the event once the job is in a target state."""
        return status_event(snapshot, self.target_states)


def status_event(snapshot: JobStatus, target_states: Sequence[str]) -> Event | None:
    """Return the event if a snapshot shows a target state."""
    view = snapshot.run
    if view is None or snapshot.state.value not in target_states:
        return None
    return StateEvent(job_id=snapshot.job_id, run=view.run.number, epoch=snapshot.epoch, state=snapshot.state).to_json()
