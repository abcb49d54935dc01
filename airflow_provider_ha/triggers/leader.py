"""Wait until a job has a live leader; a past leader does not count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.events import LeaderEvent
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.triggers._base import Event
from airflow_provider_ha.triggers.job import LiveFactTrigger, leads


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.status import JobStatus


class SparkHaLeaderTrigger(LiveFactTrigger):
    """Wait for a leader with a known epoch.

    :param min_epoch: Lowest epoch that passes.
    :param min_run: Lowest run that passes.
    """

    def __init__(self, *, min_epoch: int = 1, min_run: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.min_epoch = min_epoch
        self.min_run = min_run

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {"min_epoch": self.min_epoch, "min_run": self.min_run}

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the leader node."""
        return (paths.leader,)

    def passed(self, snapshot: JobStatus) -> Event | None:
        """Return the event once the newest run has a leader with a high enough epoch."""
        return leader_event(snapshot, min_epoch=self.min_epoch, min_run=self.min_run)


def leader_event(snapshot: JobStatus, *, min_epoch: int, min_run: int) -> Event | None:
    """Return the event if a snapshot shows the awaited leader."""
    leader = snapshot.leader
    if leader is None or not leads(snapshot) or leader.epoch < min_epoch or leader.run < min_run:
        return None
    return LeaderEvent(
        job_id=snapshot.job_id,
        run=leader.run,
        epoch=leader.epoch,
        attempt=leader.attempt,
        host=leader.host,
        pid=leader.pid,
    ).to_json()
