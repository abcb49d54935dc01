"""The leader of a job."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_ha.views.view import View


if TYPE_CHECKING:
    from airflow_provider_ha.jobs.snapshot import JobSnapshot


class LeaderView(View):
    """A leader, as its node in ZooKeeper says.

    :param epoch: Epoch of this leadership.
    :param run: Run that it leads.
    :param attempt: Submission of that run; 0 for a process that is no driver.
    :param host: Host of the process.
    :param pid: Its process id.
    :param since: When it was granted.
    """

    epoch: int
    run: int
    attempt: int
    host: str
    pid: int
    since: datetime


class JobLeaderView(View):
    """Whether a job has a leader.

    :param job_id: The job.
    :param epoch: Epoch of the latest leadership, past or present; 0 when the job was never led.
    :param leader: The leader; ``null`` when there is none.
    """

    job_id: str
    epoch: int
    leader: LeaderView | None


def leader_view(snapshot: JobSnapshot) -> JobLeaderView:
    """Return the leader of a job."""
    return JobLeaderView.of(snapshot)
