"""Buttons of a job by state: arrangement, effects, and reasons for disabled ones. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.status import JobStatus


class JobAction(str, Enum):
    """Actions of the page."""

    SAVEPOINT = "savepoint"
    STOP = "stop"
    DRAIN = "drain"
    CANCEL = "cancel"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class ActionButton:
    """Button of an action.

    :param title: Label of the button.
    :param effects: Effects of the action, as sentences; empty if the button is disabled.
    :param refused: Reason why the button is disabled; empty if it is enabled.
    :param command: Equivalent shell command.
    """

    action: JobAction
    title: str
    effects: tuple[str, ...]
    refused: str
    command: str

    @property
    def name(self) -> str:
        """Name in URLs."""
        return self.action.value

    @property
    def place(self) -> str:
        """Target, relative to the URL of the job."""
        return f"actions/{self.action.value}"


class Button(Protocol):
    """Interface of a button of a job's page."""

    @property
    def name(self) -> str:
        """Name in the page's markup."""

    @property
    def place(self) -> str:
        """Target, relative to the URL of the job."""

    @property
    def title(self) -> str:
        """Text on the button."""

    @property
    def refused(self) -> str:
        """Reason why the button is disabled; empty if it is enabled."""


@dataclass(frozen=True, slots=True)
class Menu:
    """Buttons of a job, arranged for its page.

    :param primary: The most likely action in this state; ``None`` without one.
    :param others: Other actions.
    :param dangerous: Actions that end the job permanently, or discard rows.
    :param refused: Reason -> titles of the buttons disabled for it.
    """

    primary: Button | None
    others: tuple[Button, ...]
    dangerous: tuple[Button, ...]
    refused: dict[str, tuple[str, ...]]


_PRIMARY = {
    "QUARANTINED": ("release",),
    JobState.LOST.value: ("recover",),
    JobState.RUNNING.value: ("savepoint",),
    JobState.STALLED.value: ("savepoint",),
    JobState.STARTING.value: ("savepoint",),
    **{state.value: ("restore",) for state in (JobState.FAILED, JobState.FINISHED, JobState.CANCELED)},
}
DANGEROUS = frozenset({"cancel", "drain"})


def menu_of(buttons: Sequence[Button], state: str) -> Menu:
    """Return the buttons of a job in a state, arranged.

    :param state: As shown on the page.
    """
    enabled = [each for each in buttons if not each.refused]
    primary = next((each for each in enabled if each.name in _PRIMARY.get(state, ())), None)
    refused: dict[str, tuple[str, ...]] = {}
    for each in buttons:
        if each.refused:
            refused[each.refused] = (*refused.get(each.refused, ()), each.title)
    return Menu(
        primary=primary,
        others=tuple(each for each in enabled if each is not primary and each.name not in DANGEROUS),
        dangerous=tuple(each for each in enabled if each.name in DANGEROUS),
        refused=refused,
    )


_TITLES = {
    JobAction.SAVEPOINT: "Take a savepoint",
    JobAction.STOP: "Stop with a checkpoint",
    JobAction.DRAIN: "Drain and stop",
    JobAction.CANCEL: "Cancel at once",
    JobAction.RELEASE: "Release from quarantine",
}
_COMMANDS = {
    JobAction.SAVEPOINT: "spark-ha savepoint trigger {}",
    JobAction.STOP: "spark-ha job stop {}",
    JobAction.DRAIN: "spark-ha job stop {} --mode terminate",
    JobAction.CANCEL: "spark-ha job cancel {}",
    JobAction.RELEASE: "spark-ha job release {}",
}
_COPIES = "The driver copies a consistent state of all queries and verifies the copy. The job keeps running."
_STAYS = "The savepoint stays until a person or its schedule removes it."


def offers(snapshot: JobStatus, quarantined: str | None = None) -> tuple[ActionButton, ...]:
    """Return the buttons of a job, including disabled ones.

    :param quarantined: Why it is in quarantine; ``None`` if it is not.
    """
    actions = [action for action in JobAction if action is not JobAction.RELEASE or quarantined is not None]
    return tuple(offer(snapshot, action, quarantined) for action in actions)


def saved_cancel(snapshot: JobStatus) -> ActionButton:
    """Return the alternative cancel: a savepoint first, in one operation."""
    refused = _refusal(snapshot, JobAction.CANCEL, None) or _refusal_of_state(snapshot, JobAction.CANCEL)
    ends = "Then the run ends immediately, if necessary within a batch, and is CANCELED."
    effects = (
        _COPIES,
        f"{ends} When the savepoint fails, the run does not end: the job continues.",
        f"A restore from the savepoint reads the sources again from its cut. {_STAYS}",
    )
    return ActionButton(
        JobAction.CANCEL,
        "Take a savepoint, then cancel",
        () if refused else effects,
        refused,
        f"{_COMMANDS[JobAction.CANCEL].format(snapshot.job_id)} --savepoint",
    )


def offer(snapshot: JobStatus, action: JobAction, quarantined: str | None = None) -> ActionButton:
    """Return a button of a job."""
    refused = _refusal(snapshot, action, quarantined)
    effects = () if refused else _effects(snapshot, action, quarantined or "")
    return ActionButton(action, _TITLES[action], effects, refused, _COMMANDS[action].format(snapshot.job_id))


def _refusal(snapshot: JobStatus, action: JobAction, quarantined: str | None) -> str:
    if action is JobAction.RELEASE:
        return "" if quarantined is not None else "The job is not in quarantine."
    if snapshot.run is None:
        return "The job has no run."
    if snapshot.run.result is not None:
        return f"Run {snapshot.run.run.number} is {snapshot.run.result.state.value}."
    return "" if action is JobAction.CANCEL else _refusal_of_state(snapshot, action)


def _refusal_of_state(snapshot: JobStatus, action: JobAction) -> str:
    if snapshot.state is JobState.STOPPING:
        return "The job is being stopped already."
    if snapshot.state is not JobState.LOST:
        return ""
    if action is JobAction.STOP:
        forgets = "The driver is lost, and the run has no checkpoint: its end would lose its progress."
        return "" if snapshot.latest_checkpoint is not None else forgets
    return "The driver is lost. This needs a driver: recover the job first."


def _effects(snapshot: JobStatus, action: JobAction, quarantined: str) -> tuple[str, ...]:
    newest = snapshot.latest_checkpoint
    if action is JobAction.SAVEPOINT:
        return _COPIES, _STAYS
    if action is JobAction.STOP and snapshot.state is JobState.LOST:
        return (
            f"The driver is lost, so the run ends immediately, FINISHED with checkpoint {newest}.",
            "The next start executes the batches after that checkpoint again.",
        )
    if action is JobAction.STOP:
        return (
            "The driver finishes the batch of each query, takes a checkpoint, and ends. The run is FINISHED then.",
            "A restore or a new submission continues from that checkpoint and reads no input again.",
        )
    if action is JobAction.DRAIN:
        return (
            "The watermark moves to its maximum, and every open window is emitted. Then the run is FINISHED.",
            "If the job continues later, it drops late rows of these windows.",
            "To pause the job, stop it with a checkpoint instead.",
        )
    if action is JobAction.CANCEL:
        at = f"checkpoint {newest}" if newest is not None else "nothing: it has no checkpoint"
        return (
            "The run ends immediately, if necessary within a batch, and is CANCELED. No new checkpoint is taken.",
            f"A restore continues from {at}, and reads the sources again from there.",
        )
    return (
        f"The job is in quarantine, because {quarantined.rstrip('.')}.",
        "Once it is released, the cluster's leader recovers it again. Repair the cause first.",
    )
