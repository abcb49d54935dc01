"""Recovery and restore of a job: the parameters for a DAG, and refusals. Pure.

The page starts no driver: with the local engine it would run on the host of the API server. So a recovery and a restore
are runs of a DAG, on a host for drivers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_ha.checkpoints.connectors.sinks import what_comes_again
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.control.job.requests import LATEST, IfLost
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.views.checkpoints import CheckpointListView
from airflow_provider_ha.views.savepoints import SavepointListView


class Way(str, Enum):
    """Way to bring a job back: a recovery or a restore."""

    RECOVER = "recover"
    RESTORE = "restore"


TITLES = {Way.RECOVER: "Recover", Way.RESTORE: "Restore from a checkpoint"}

# Verdicts that a user may accept in addition to SAFE, which is always accepted, with their meanings.
ACCEPTABLE = {
    Verdict.DUPLICATES_POSSIBLE: "rows may be written again, and a sink may keep both",
    Verdict.LOSS_POSSIBLE: "rows may be missing: the boundaries of batches that a sink already has are gone",
}
WHEN_LOST = {
    "": "refuse: leave the lost run as it is",
    IfLost.RESTART.value: "restart: end the lost run, and restore",
    IfLost.RECOVER.value: "recover: continue the lost run, without a restore",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """A user's choices for a restore.

    :param start_from: ``latest``, ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param accepted: Verdicts accepted in addition to ``SAFE``.
    :param if_lost: Treatment of a live run without a driver; empty refuses the restore.
    """

    start_from: str = LATEST
    accepted: tuple[Verdict, ...] = ()
    if_lost: str = ""

    @property
    def accept_verdicts(self) -> list[str]:
        """Names of all accepted verdicts."""
        return [Verdict.SAFE.value, *(each.value for each in ACCEPTABLE if each in self.accepted)]

    def request(self, job_id: str, request_id: str) -> RestoreRequest:
        """Return the request for the plan. Only ``latest`` may fall back to an older candidate."""
        return RestoreRequest(
            job_id=job_id,
            request_id=request_id,
            start_from=self.start_from,
            fallback=self.start_from == LATEST,
            accept_verdicts=frozenset(map(Verdict, self.accept_verdicts)),
            if_lost=IfLost(self.if_lost) if self.if_lost else None,
        )


@dataclass(frozen=True, slots=True)
class Return:
    """The button for a recovery or a restore.

    :param refused: Why it is disabled; empty if it is enabled.
    """

    way: Way
    title: str
    refused: str

    @property
    def name(self) -> str:
        """Its name in addresses."""
        return self.way.value

    @property
    def place(self) -> str:
        """Its target, relative to the address of the job."""
        return self.way.value


def returns(snapshot: JobStatus, quarantined: str | None = None) -> tuple[Return, ...]:
    """Return the buttons of a job.

    :param quarantined: Why it is in quarantine; ``None`` if it is not.
    """
    no_run = "" if snapshot.run is not None else "The job has no run."
    return (
        Return(Way.RECOVER, TITLES[Way.RECOVER], recovery_refused(snapshot, quarantined)),
        Return(Way.RESTORE, TITLES[Way.RESTORE], no_run),
    )


def recovery_refused(snapshot: JobStatus, quarantined: str | None) -> str:
    """Return why a recovery is refused; empty if it is possible."""
    if snapshot.run is None:
        return "The job has no run."
    if snapshot.run.result is not None:
        return f"Run {snapshot.run.run.number} is {snapshot.run.result.state.value}."
    if quarantined is not None:
        return "The job is in quarantine: release it first."
    if snapshot.state is not JobState.LOST:
        return f"The job is {snapshot.state.value}: only a lost driver is recovered."
    return ""


def effects_on_sinks(snapshot: JobStatus) -> tuple[str, ...]:
    """Return the effects of a recovery on the outputs: each query executes its batch in flight again."""
    status = snapshot.status
    found = {**status.not_started, **status.queries} if status is not None else {}
    if not found:
        return ("The outputs that receive the batch in flight again are unknown: the job has reported no query.",)
    return tuple(
        f"{name} ({query.sink or 'not known'}): {what_comes_again(query.sink)}." for name, query in found.items()
    )


def if_lost_at_first(snapshot: JobStatus) -> str:
    """Return the initial choice: a restore of a lost job usually ends the lost run."""
    return IfLost.RESTART.value if snapshot.state is JobState.LOST else ""


def sources(checkpoints: CheckpointListView, savepoints: SavepointListView) -> Sequence[tuple[str, str, Any]]:
    """Return the possible starts of a restore, newest first: name, description and time."""
    found = [(f"checkpoint-{each.number}", f"epoch {each.epoch}", each.created_at) for each in checkpoints.checkpoints]
    found += [
        (f"savepoint-{each.savepoint_id}", each.label or each.schedule or "", each.created_at)
        for each in savepoints.savepoints
    ]
    return sorted(found, key=lambda each: each[2], reverse=True)


def restore_conf(  # noqa: PLR0917  # the fields of the page
    cluster: str, job_id: str, run: int, choice: Choice, source: str, owner: str | None
) -> dict[str, Any]:
    """Return the parameters with which the DAG restores exactly what the page showed.

    :param run: Newest shown run, 0 for none: the job may have another run when the DAG run begins.
    :param source: Start of the plan.
    :param owner: DAG that owns the job, for which the user has permission.
    """
    return {
        "source_job": job_id,
        "job_id": job_id,
        "start_from": source,
        "fallback": False,
        "accept_verdicts": choice.accept_verdicts,
        "if_lost": choice.if_lost or None,
        "force": owner is not None,
        "seen_run": run,
        "spark_ha_conn_id": cluster,
    }


def recover_conf(cluster: str, job_id: str, run: int) -> dict[str, Any]:
    """Return the parameters with which the DAG recovers only the shown run of this job."""
    return {"job_id": job_id, "seen_run": run, "spark_ha_conn_id": cluster}


def restore_command(job_id: str, choice: Choice, source: str, owner: str | None) -> str:
    """Return the equivalent shell command."""
    words = ["spark-ha", "restore", job_id, "--start-from", source]
    for each in choice.accept_verdicts[1:]:
        words += ["--accept-verdict", each]
    if choice.if_lost:
        words += ["--if-lost", choice.if_lost]
    return shlex.join([*words, *(["--force"] if owner is not None else [])])


def same_job(conf: Mapping[str, Any], cluster: str, job_id: str) -> bool:
    """Whether a DAG run was requested for this job."""
    return conf.get("job_id") == job_id and conf.get("spark_ha_conn_id") == cluster
