"""Outcome of a recovery or restore: from a DAG run and the job's history to a sentence. Pure.

Invariant: the outcome describes the run that the DAG run has started, identified by the request in its submission. The
state of the DAG run comes second. Only a DAG run that succeeded without a submission shows the newest run: another
process was faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.plugins._bring_back import Way
from airflow_provider_ha.views.checkpoints import CheckpointListView
from airflow_provider_ha.views.history import EpochView, HistoryView, RunHistoryView


_NOUNS = {Way.RECOVER: "recovery", Way.RESTORE: "restore"}


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """Current outcome of a DAG run for the job.

    :param sentence: For people.
    :param final: Whether the outcome can no longer change or become better known.
    :param failed: Whether it failed. A run that it started and that ended later is not a failure.
    :param done: Whether the job is back, with a checkpoint to continue from after the next loss.
    :param restored: Whether the requested restore brought it back: not if a lost run continues instead, or another
        process was faster.
    :param run: Number of the run that the job continues with; ``None`` while there is none.
    :param epoch: The submission that the DAG run started.
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


def brought_back(
    state: str,
    failed_tasks: Sequence[str],
    requests: Sequence[str],
    history: HistoryView,
    checkpoints: CheckpointListView,
    *,
    way: Way = Way.RESTORE,
    asked_at: datetime | None = None,
    replayed: int | None = None,
) -> BroughtBack:
    """Return the outcome of a DAG run for the job. A resulting run takes precedence over the DAG run's state.

    :param state: Of the DAG run.
    :param failed_tasks: Ids of the tasks that failed.
    :param requests: Ids of the requests of its tasks.
    :param asked_at: Creation time of the DAG run.
    :param replayed: Number of batches that the new driver has executed again; ``None`` if unreported.
    """
    which = f"task {', '.join(failed_tasks)}" if failed_tasks else "it"
    own = found = _found(requests, history)
    if found is None and (began_later := _outlived(asked_at, history)) is not None:
        return BroughtBack(_forgotten(state, which, began_later), final=True)
    if found is None and state == "failed":
        return BroughtBack(f"The DAG run has failed: {which} did. Its log has the reason.", final=True, failed=True)
    if found is None and state == "success" and history.runs and history.runs[0].epochs:
        found = history.runs[0], history.runs[0].epochs[0]  # another process was faster
    if found is None:
        return BroughtBack(f"The DAG run is {state}. The job has not been started yet.")
    run, epoch = found
    # A submission of the following run also continues the restored state.
    epochs = {each.epoch for each in run.epochs if each.attempt >= epoch.attempt}
    first = min((each.number for each in checkpoints.checkpoints if each.epoch in epochs), default=None)
    sentence, final = _told(run, first)
    done = first is not None and run.state is None and run.epochs[0].end == "leads"
    # The first submission of a run belongs to the restore; a later one continues a lost run.
    restored = done and way is Way.RESTORE and own is not None and epoch.attempt == 1
    if done:
        sentence = f"{'Restored' if restored else 'Recovered'}. {_again(replayed)}{sentence}"
    failed = run.state == JobState.FAILED.value and first is None
    if state == "failed":
        worked = first is not None or (run.state is not None and not failed)
        since = f"failed since: {which}; the {_NOUNS[way]} itself worked" if worked else f"failed: {which}"
        sentence = f"{sentence} The DAG run has {since}."
        lost = run.state is None and run.epochs[0].end == "lost"
        final, failed = final or lost, failed or (lost and not worked)
    return BroughtBack(
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
    """Return the submission started by one of the requests: its record names the request."""
    for run in history.runs:
        for epoch in reversed(run.epochs):
            if any(epoch.requested_by == each or epoch.requested_by.startswith(f"{each} ") for each in requests):
                return run, epoch
    return None


def _outlived(asked_at: datetime | None, history: HistoryView) -> int | None:
    """Return the earliest run that began after a request; ``None`` while the answer would be among the runs read.

    History has the newest runs of a job, and the newest submissions of each.
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
        f"The DAG run {how}. Whether it started a run of the job is no longer known: run {began_later}, the oldest run "
        "that was read, began later."
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
