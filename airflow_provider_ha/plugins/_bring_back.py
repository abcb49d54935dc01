"""Bringing a job back: what the page asks a DAG for, and what it refuses. Pure.

The page starts no driver: with the local engine it would run on the host of the API server. So a recovery and a restore
are runs of a DAG, on a host that is meant for drivers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from airflow_provider_ha.checkpoints.connectors.sinks import what_comes_again
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.control.job.requests import LATEST, IfLost, RestoreRequest
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.views.checkpoints import CheckpointListView
from airflow_provider_ha.views.savepoints import SavepointListView


class Way(str, Enum):
    """How a job is brought back."""

    RECOVER = "recover"
    RESTORE = "restore"


TITLES = {Way.RECOVER: "Recover", Way.RESTORE: "Restore from a checkpoint"}

# Besides SAFE, which is accepted always: what a user may accept, and what that means.
ACCEPTABLE = {
    Verdict.DUPLICATES_POSSIBLE: "rows may be written again, and a sink may keep both",
    Verdict.LOSS_POSSIBLE: "rows may be missing: the boundaries of batches that a sink already has are gone",
}
WHEN_LOST = {
    "": "refuse: leave the lost run as it is",
    IfLost.RESTART.value: "restart: end the lost run, and restore",
    IfLost.RECOVER.value: "recover: go on with the lost run, and restore nothing",
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What a user has chosen for a restore.

    :param start_from: ``latest``, ``checkpoint-<n>`` or ``savepoint-<id>``.
    :param accepted: Verdicts that are accepted besides ``SAFE``.
    :param if_lost: What becomes of a live run that has lost its driver; empty refuses the restore.
    """

    start_from: str = LATEST
    accepted: tuple[Verdict, ...] = ()
    if_lost: str = ""

    @property
    def accept_verdicts(self) -> list[str]:
        """Names of all verdicts that are accepted."""
        return [Verdict.SAFE.value, *(each.value for each in ACCEPTABLE if each in self.accepted)]

    def request(self, job_id: str, request_id: str) -> RestoreRequest:
        """Return the request that the plan is made of. Only the latest one may be replaced by an older one."""
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
    """The button that leads to a recovery or a restore.

    :param refused: Why it is disabled; empty when it is not.
    """

    way: Way
    title: str
    refused: str

    @property
    def name(self) -> str:
        """The name of it in addresses."""
        return self.way.value

    @property
    def place(self) -> str:
        """Where it leads, from the address of the job."""
        return self.way.value


def returns(snapshot: JobStatus, quarantined: str | None = None) -> tuple[Return, ...]:
    """Return the buttons of a job.

    :param quarantined: Why it is in quarantine; ``None`` when it is not.
    """
    no_run = "" if snapshot.run is not None else "The job has no run."
    return (
        Return(Way.RECOVER, TITLES[Way.RECOVER], recovery_refused(snapshot, quarantined)),
        Return(Way.RESTORE, TITLES[Way.RESTORE], no_run),
    )


def recovery_refused(snapshot: JobStatus, quarantined: str | None) -> str:
    """Return why there is nothing to recover; empty when there is."""
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
    """Return what a recovery means for each output: of each query, the batch in flight is executed again."""
    status = snapshot.status
    found = {**status.not_started, **status.queries} if status is not None else {}
    if not found:
        return ("Which outputs get the batch in flight again is not known: no query of the job has been seen.",)
    return tuple(
        f"{name} ({query.sink or 'not known'}): {what_comes_again(query.sink)}." for name, query in found.items()
    )


def if_lost_at_first(snapshot: JobStatus) -> str:
    """Return what is chosen before a user has chosen: who restores a lost job wants the lost run to end."""
    return IfLost.RESTART.value if snapshot.state is JobState.LOST else ""


def sources(checkpoints: CheckpointListView, savepoints: SavepointListView) -> Sequence[tuple[str, str, Any]]:
    """Return what a restore can start from: its name, its description, and when it was taken. Newest first."""
    found = [(f"checkpoint-{each.number}", f"epoch {each.epoch}", each.created_at) for each in checkpoints.checkpoints]
    found += [
        (f"savepoint-{each.savepoint_id}", each.label or each.schedule or "", each.created_at)
        for each in savepoints.savepoints
    ]
    return sorted(found, key=lambda each: each[2], reverse=True)


def restore_conf(  # noqa: PLR0917  # as many as the page shows
    cluster: str, job_id: str, run: int, choice: Choice, source: str, owner: str | None
) -> dict[str, Any]:
    """Return the parameters with which the DAG restores exactly what was shown.

    :param run: Newest run that was shown, 0 for none: the DAG run may begin when the job has had another one since.
    :param source: What the plan starts from.
    :param owner: DAG that the job belongs to, whose permission the user has.
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
    """Return the parameters with which the DAG recovers the shown run of this job alone."""
    return {"job_id": job_id, "seen_run": run, "spark_ha_conn_id": cluster}


def restore_command(job_id: str, choice: Choice, source: str, owner: str | None) -> str:
    """Return what does the same in a shell."""
    words = ["spark-ha", "restore", job_id, "--start-from", source]
    for each in choice.accept_verdicts[1:]:
        words += ["--accept-verdict", each]
    if choice.if_lost:
        words += ["--if-lost", choice.if_lost]
    return shlex.join([*words, *(["--force"] if owner is not None else [])])


def same_job(conf: Mapping[str, Any], cluster: str, job_id: str) -> bool:
    """Whether a DAG run was asked for this job."""
    return conf.get("job_id") == job_id and conf.get("spark_ha_conn_id") == cluster
