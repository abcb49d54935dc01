"""Waits of sensors for a fact about a job's live run: a new checkpoint, a state, or a leader.

A state also passes when the run has ended in it; any other end of the run ends the wait. A past leader does not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.api.documents.events import (
    CheckpointEvent,
    ErrorEvent,
    LeaderEvent,
    StateEvent,
    WaitFailedEvent,
)
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.fleet.notify.session import Nodes
from airflow_provider_ha.triggers._base import Event, Outage, ReadNeed, SparkHaTrigger
from airflow_provider_ha.triggers.job import leader_of


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.status import JobStatus


class LiveFactTrigger(SparkHaTrigger):
    """Wait for a fact about the job's live run.

    :param ended_run: Newest run that already had a result when the sensor first executed; 0 for none.
    """

    def __init__(self, *, ended_run: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ended_run = ended_run
        self._unknown = Outage(self, "The job is not known yet")

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {"ended_run": self.ended_run}

    def need(self, found: Nodes, paths: JobPaths) -> ReadNeed:
        """Require one look per state of a job with a leader, because every awaited fact changes a znode."""
        return ReadNeed.ALWAYS if leader_of(found[paths.leader]) is None else ReadNeed.ON_CHANGE

    def passed(self, snapshot: JobStatus) -> Event | None:
        """Return the event if *snapshot* shows the awaited fact."""
        raise NotImplementedError

    def look(self, client: HaClient) -> Event | None:
        """Read the job."""
        try:
            snapshot = client.job(self.job_id).snapshot()
        except UnknownJobError as error:
            self._unknown.goes_on(str(error))
            return None
        return self.passed(snapshot) or hopeless_event(snapshot, ended_run=self.ended_run)


def hopeless_event(snapshot: JobStatus, *, ended_run: int) -> Event | None:
    """Return an event if the watched run has ended, so that the awaited fact can no longer occur."""
    view = snapshot.run
    if view is None or view.result is None or view.run.number <= ended_run:
        return None
    reason = f"run {view.run.number} of job {snapshot.job_id!r} ended {view.result.state.value}: {view.result.reason}"
    return WaitFailedEvent(run=view.run.number, state=view.result.state, reason=reason).to_json()


def leads(snapshot: JobStatus) -> bool:
    """Return whether the newest run is live and has a leader with a known epoch.

    The znode of a leader that died after its run's result remains until its session ends; it no longer leads.
    """
    leader, view = snapshot.leader, snapshot.run
    if leader is None or view is None or view.result is not None:
        return False
    return leader.run == view.run.number and leader.epoch > 0


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


class SparkHaLeaderTrigger(LiveFactTrigger):
    """Wait for a leader with a known epoch.

    :param min_epoch: Lowest epoch that passes.
    :param min_run: Lowest run that passes.
    :param standby: Whether its run needs a ready standby driver too.
    """

    def __init__(self, *, min_epoch: int = 1, min_run: int = 1, standby: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.min_epoch = min_epoch
        self.min_run = min_run
        self.standby = standby

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {
            "min_epoch": self.min_epoch,
            "min_run": self.min_run,
            "standby": self.standby,
        }

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the leader node, and the status if it has to count a standby driver."""
        return (paths.leader, paths.status) if self.standby else (paths.leader,)

    def passed(self, snapshot: JobStatus) -> Event | None:
        """Return the event once the newest run has a leader with a high enough epoch."""
        return leader_event(snapshot, min_epoch=self.min_epoch, min_run=self.min_run, standby=self.standby)


def leader_event(snapshot: JobStatus, *, min_epoch: int, min_run: int, standby: bool = False) -> Event | None:
    """Return the event if a snapshot shows the awaited leader, or a leader that never has the awaited standby driver.

    :param standby: Whether the leader has to count a ready standby driver.
    """
    leader = snapshot.leader
    if leader is None or not leads(snapshot) or leader.epoch < min_epoch or leader.run < min_run:
        return None
    if standby:
        if (status := snapshot.of_leader) is None:
            return None
        if status.standbys is None:
            reason = f"run {leader.run} of job {snapshot.job_id!r} requests no standby driver: set standby_drivers"
            return ErrorEvent(reason=reason).to_json()
        if not status.standbys.ready:
            return None
    return LeaderEvent(
        job_id=snapshot.job_id,
        run=leader.run,
        epoch=leader.epoch,
        attempt=leader.attempt,
        host=leader.host,
        pid=leader.pid,
    ).to_json()
