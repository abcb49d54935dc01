"""The reason of a restart, and the time spent in each phase of a recovery, from existing records. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from itertools import pairwise

from airflow_provider_ha.jobs.failures import STALLED, FailureKind
from airflow_provider_ha.jobs.runs import SubmissionView


class RestartReason(str, Enum):
    """Why a driver had to be started again."""

    APPLICATION = "application"  # an error of the script, or of a query as the script wrote it
    OUTAGE = "outage"  # of storage, a connection, memory, an executor, a broker or ZooKeeper
    STALLED = "stalled"  # it committed nothing although it should have
    UNFIT = "unfit"  # its host lacks something that another one had
    KILLED = "killed"  # its processes are dead, and it reported nothing
    HOST = "host"  # its death is not proven: its host, or its supervisor, is gone
    OTHER = "other"


def restart_reason(lost: SubmissionView) -> RestartReason:
    """Return why the submission after *lost* was made."""
    left = lost.exit
    if left is None:
        return RestartReason.HOST
    if left.unfit:
        return RestartReason.UNFIT
    if left.met_outage:
        return RestartReason.OUTAGE
    if left.failure is None:
        return RestartReason.OTHER if left.decision else RestartReason.KILLED
    if left.failure.error_class == STALLED:
        return RestartReason.STALLED
    return RestartReason.APPLICATION if left.failure.kind is FailureKind.APPLICATION else RestartReason.OTHER


def restarts_since(submissions: Iterable[SubmissionView], since: datetime) -> Mapping[RestartReason, int]:
    """Return the number of re-submissions of a run since a moment, for every reason, including those with 0."""
    found = dict.fromkeys(RestartReason, 0)
    for lost, again in pairwise(submissions):
        if again.submission.created_at >= since:
            found[restart_reason(lost)] += 1
    return found


@dataclass(frozen=True, slots=True)
class RecoveryTimes:
    """The moments of a recovery; ``None`` if unknown, or still to come.

    :param alive_at: Last sign of life of the lost leader: its last heartbeat.
    :param dead_at: Time of the proof that all its processes are dead.
    :param submitted_at: Time of the next submission.
    :param led_at: Time at which that one became the leader.
    :param committed_at: Time at which it committed its first batch.
    """

    alive_at: datetime | None
    dead_at: datetime | None
    submitted_at: datetime
    led_at: datetime
    committed_at: datetime | None

    @property
    def phases(self) -> Mapping[str, float]:
        """Phase -> seconds. Without a proof of death ``submit`` begins with the last sign of life."""
        steps = (
            ("detect", self.alive_at, self.dead_at),
            ("submit", self.dead_at or self.alive_at, self.submitted_at),
            ("lead", self.submitted_at, self.led_at),
            ("commit", self.led_at, self.committed_at),
            ("total", self.alive_at or self.dead_at, self.committed_at),
        )
        return {
            # The moments come from several hosts, whose clocks differ.
            name: max(0.0, (end - begin) / timedelta(seconds=1))
            for name, begin, end in steps
            if begin is not None and end is not None
        }
