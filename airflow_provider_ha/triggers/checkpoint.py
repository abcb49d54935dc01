"""Wait for a new checkpoint of a live job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.events import CheckpointEvent
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.triggers._base import Event
from airflow_provider_ha.triggers.job import LiveFactTrigger, leads


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.status import JobStatus


class SparkHaCheckpointTrigger(LiveFactTrigger):
    """Wait for a checkpoint with a higher number and a live leader.

    :param newer_than: Number to exceed. Numbers never repeat, unlike the clocks of two hosts.
    """

    def __init__(self, *, newer_than: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.newer_than = newer_than

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {"newer_than": self.newer_than}

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the counter, which changes with each checkpoint, and the leader."""
        return (paths.checkpoint_id_counter, paths.leader)

    def passed(self, snapshot: JobStatus) -> Event | None:
        """Return the event once a newer checkpoint exists and the job has a leader."""
        return checkpoint_event(snapshot, newer_than=self.newer_than)


def checkpoint_event(snapshot: JobStatus, *, newer_than: int) -> Event | None:
    """Return the event if a snapshot shows the awaited checkpoint."""
    latest = snapshot.latest_checkpoint
    if latest is None or latest <= newer_than or not leads(snapshot):
        return None
    assert snapshot.leader is not None  # noqa: S101  # what leads() has just said, for the type checker
    leader = snapshot.leader
    return CheckpointEvent(job_id=snapshot.job_id, run=leader.run, epoch=leader.epoch, checkpoint=latest).to_json()
