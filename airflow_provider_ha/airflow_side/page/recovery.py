"""Recovery and restore of a job: choices, refusals, parameters of a DAG run, and its outcome. Pure.

The page starts no driver: with the local engine it would run on the host of the API server. So a recovery and a restore
are runs of a DAG, on a host for drivers.

Invariant: the outcome describes the run that the DAG run has started, identified by the request in its submission. The
state of the DAG run comes second. Only a DAG run that succeeded without a submission shows the newest run: another
process was faster.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from airflow_provider_ha.api.documents.checkpoints import CheckpointListView, SavepointListView
from airflow_provider_ha.api.documents.history import EpochView, HistoryView, RunHistoryView
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_registry import what_comes_again
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.jobs.submit.requests import LATEST, LostRunPolicy


class RecoveryMethod(str, Enum):
    """Way to bring a job back: a recovery or a restore."""

    RECOVER = "recover"
    RESTORE = "restore"


TITLES = {RecoveryMethod.RECOVER: "Recover", RecoveryMethod.RESTORE: "Restore from a checkpoint"}

# Verdicts that a user may accept in addition to SAFE, which is always accepted, with their meanings.
ACCEPTABLE = {
    Verdict.DUPLICATES_POSSIBLE: "rows may be written again, and a sink may keep both",
    Verdict.LOSS_POSSIBLE: "rows may be missing: the boundaries of batches that a sink already has are lost",
}
WHEN_LOST = {
    "": "refuse: leave the lost run unchanged",
    LostRunPolicy.RESTART.value: "restart: end the lost run, and restore",
    LostRunPolicy.RECOVER.value: "recover: continue the lost run, without a restore",
}


@dataclass(frozen=True, slots=True)
class RestoreChoice:
    """Choices of a user for a restore.

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
            if_lost=LostRunPolicy(self.if_lost) if self.if_lost else None,
        )


@dataclass(frozen=True, slots=True)
class RecoveryButton:
    """Button for a recovery or a restore.

    :param refused: Reason why the button is disabled; empty if it is enabled.
    """

    way: RecoveryMethod
    title: str
    refused: str

    @property
    def name(self) -> str:
        """Name in URLs."""
        return self.way.value

    @property
    def place(self) -> str:
        """Target, relative to the URL of the job."""
        return self.way.value


def recovery_buttons(snapshot: JobStatus, quarantined: str | None = None) -> tuple[RecoveryButton, ...]:
    """Return the buttons of a job.

    :param quarantined: Reason of the quarantine; ``None`` without one.
    """
    no_run = "" if snapshot.run is not None else "The job has no run."
    return (
        RecoveryButton(RecoveryMethod.RECOVER, TITLES[RecoveryMethod.RECOVER], recovery_refused(snapshot, quarantined)),
        RecoveryButton(RecoveryMethod.RESTORE, TITLES[RecoveryMethod.RESTORE], no_run),
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
    return LostRunPolicy.RESTART.value if snapshot.state is JobState.LOST else ""


def sources(checkpoints: CheckpointListView, savepoints: SavepointListView) -> Sequence[tuple[str, str, Any]]:
    """Return the possible starts of a restore, newest first: name, description and time."""
    found = [(f"checkpoint-{each.number}", f"epoch {each.epoch}", each.created_at) for each in checkpoints.checkpoints]
    found += [
        (f"savepoint-{each.savepoint_id}", each.label or each.schedule or "", each.created_at)
        for each in savepoints.savepoints
    ]
    return sorted(found, key=lambda each: each[2], reverse=True)


def restore_conf(  # noqa: PLR0917  # the fields of the page
    cluster: str, job_id: str, run: int, choice: RestoreChoice, source: str, owner: str | None
) -> dict[str, Any]:
    """Return the parameters with which the DAG restores exactly the shown plan.

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


def restore_command(job_id: str, choice: RestoreChoice, source: str, owner: str | None) -> str:
    """Return the equivalent shell command."""
    words = ["spark-ha", "job", "restore", job_id, "--start-from", source]
    for each in choice.accept_verdicts[1:]:
        words += ["--accept-verdicts", each]
    if choice.if_lost:
        words += ["--if-lost", choice.if_lost]
    return shlex.join([*words, *(["--force"] if owner is not None else [])])


def same_job(conf: Mapping[str, Any], cluster: str, job_id: str) -> bool:
    """Return whether a DAG run was requested for this job."""
    return conf.get("job_id") == job_id and conf.get("spark_ha_conn_id") == cluster


_NOUNS = {RecoveryMethod.RECOVER: "recovery", RecoveryMethod.RESTORE: "restore"}


@dataclass(frozen=True, slots=True)
class RecoveryOutcome:
    """Current outcome of a DAG run for the job.

    :param sentence: Sentence for people.
    :param final: The outcome can no longer change or become better known.
    :param failed: The DAG run failed. A run that it started and that ended later is not a failure.
    :param done: The job is back, with a checkpoint to continue from after the next loss.
    :param restored: The requested restore brought the job back: false if a lost run continues instead, or another
        process was faster.
    :param run: Number of the run that the job continues with; ``None`` before it exists.
    :param epoch: Submission that the DAG run started.
    :param checkpoint: Number of the first checkpoint of that run or submission.
    """

    sentence: str
    final: bool = False
    failed: bool = False
    done: bool = False
    restored: bool = False
    run: int | None = None
    epoch: EpochView | None = None
    checkpoint: int | None = None


def recovery_outcome(
    state: str,
    failed_tasks: Sequence[str],
    requests: Sequence[str],
    history: HistoryView,
    checkpoints: CheckpointListView,
    *,
    way: RecoveryMethod = RecoveryMethod.RESTORE,
    asked_at: datetime | None = None,
    replayed: int | None = None,
) -> RecoveryOutcome:
    """Return the outcome of a DAG run for the job. A resulting run takes precedence over the DAG run's state.

    :param state: State of the DAG run.
    :param failed_tasks: Ids of the failed tasks.
    :param requests: Ids of the requests of its tasks.
    :param asked_at: Creation time of the DAG run.
    :param replayed: Number of batches that the new driver has executed again; ``None`` if unreported.
    """
    which = f"task {', '.join(failed_tasks)}" if failed_tasks else "it"
    own = found = _found(requests, history)
    if found is None and (began_later := _outlived(asked_at, history)) is not None:
        return RecoveryOutcome(_forgotten(state, which, began_later), final=True)
    if found is None and state == "failed":
        return RecoveryOutcome(f"The DAG run has failed: {which} did. Its log has the reason.", final=True, failed=True)
    if found is None and state == "success" and history.runs and history.runs[0].epochs:
        found = history.runs[0], history.runs[0].epochs[0]  # another process was faster
    if found is None:
        return RecoveryOutcome(f"The DAG run is {state}. The job has not been started yet.")
    run, epoch = found
    # A submission of the following run also continues the restored state.
    epochs = {each.epoch for each in run.epochs if each.attempt >= epoch.attempt}
    first = min((each.number for each in checkpoints.checkpoints if each.epoch in epochs), default=None)
    sentence, final = _told(run, first)
    done = first is not None and run.state is None and run.epochs[0].end == "leads"
    # The first submission of a run belongs to the restore; a later one continues a lost run.
    restored = done and way is RecoveryMethod.RESTORE and own is not None and epoch.attempt == 1
    if done:
        sentence = f"{'Restored' if restored else 'Recovered'}. {_again(replayed)}{sentence}"
    failed = run.state == JobState.FAILED.value and first is None
    if state == "failed":
        worked = first is not None or (run.state is not None and not failed)
        since = f"failed since: {which}; the {_NOUNS[way]} itself worked" if worked else f"failed: {which}"
        sentence = f"{sentence} The DAG run has {since}."
        lost = run.state is None and run.epochs[0].end in ("lost", "handed over")
        final, failed = final or lost, failed or (lost and not worked)
    return RecoveryOutcome(
        sentence,
        final=final,
        failed=failed,
        done=done,
        restored=restored,
        run=run.run,
        epoch=run.epochs[0],
        checkpoint=first,
    )


def _again(replayed: int | None) -> str:
    if replayed is None:
        return ""
    return f"{replayed or 'No'} {'batch was' if replayed == 1 else 'batches were'} executed again. "


def _found(requests: Sequence[str], history: HistoryView) -> tuple[RunHistoryView, EpochView] | None:
    """Return the submission that any of the requests started; its record names the request."""
    for run in history.runs:
        for epoch in reversed(run.epochs):
            if any(epoch.requested_by == each or epoch.requested_by.startswith(f"{each} ") for each in requests):
                return run, epoch
    return None


def _outlived(asked_at: datetime | None, history: HistoryView) -> int | None:
    """Return the earliest run that began after a request; ``None`` while the answer would be among the runs read.

    History has the newest runs of a job, and their newest submissions.
    """
    if asked_at is None or not history.runs:
        return None
    oldest = history.runs[-1]
    if oldest.run > 1 and asked_at < oldest.created_at:
        return oldest.run
    return None


def _forgotten(state: str, which: str, began_later: int) -> str:
    how = f"has failed: {which} did" if state == "failed" else f"is {state}"
    return (
        f"The DAG run {how}. It is no longer known whether it started a run of the job: run {began_later}, the oldest "
        "run in the history, started later."
    )


def _told(run: RunHistoryView, checkpoint: int | None) -> tuple[str, bool]:
    """Return the state of a run, and whether a person can stop waiting."""
    newest, what = run.epochs[0], f"Run {run.run}"
    if run.state is not None:
        return f"{what} has ended: {run.state}{f' ({run.reason})' if run.reason else ''}.", True
    if newest.epoch is None:
        return f"{what} is submitted, and waits for its leader.", False
    if newest.end != "leads":
        return f"{what} has lost its driver again: {newest.reason}.", False
    leads = f"{what} is led by {newest.host}, epoch {newest.epoch}"
    if checkpoint is None:
        return f"{leads}. Its first new checkpoint is not there yet.", False
    return f"{leads}. Its first new checkpoint is number {checkpoint}.", True
