"""Judges a history of leaders: eight invariants, each a pure function from events to what is wrong.

Every check is sound: it complains only about what no order of the events could excuse. Tokens (epochs) and numbers
(checkpoints) order everything, so nothing has to be searched.

Kinds of events and their facts:

- a leader: ``acquired`` (epoch, session), ``lease`` (epoch, until: what it may believe from now on; one that never
  doubts writes none down), ``recovered`` (epoch, number: the newest checkpoint that it found), ``sent`` / ``committed``
  / ``rejected`` (epoch, number), ``lost`` and ``released`` (epoch)
- who causes faults: ``fault`` (name), ``healed`` (within: seconds in which a process has to lead), ``died`` (victim:
  actor; after the proof of death)
- who only looks: ``observed`` (number, problem: empty for a checkpoint that is complete and has its digest)
- the end: ``left`` (sessions, ephemerals, processes, threads, files: what should not be there)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import combinations, pairwise

from tests.support.leadership.history import Event


class Invariant(Enum):
    """What has to hold in every history."""

    TOKENS_INCREASE = "epochs increase from grant to grant, and each has one owner"
    COMMITS_ARE_ORDERED = "accepted commits are ordered by epoch and number, each once, none of a deposed leader"
    POINTERS_ARE_COMPLETE = "a pointer always names a complete payload with its digest"
    COMMITS_SURVIVE = "an acknowledged commit survives every later change of leader"
    ONE_BELIEVER = "at most one process believes that it leads"
    LED_AFTER_HEALING = "after the faults are over, a process leads within the bound"
    RESTARTS_RESUME = "a new leader goes on with the number after the last one"
    NOTHING_IS_LEFT = "no session, ephemeral node, process, thread or file is left at the end"


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that must not happen, and did."""

    invariant: Invariant
    what: str


def check(history: Sequence[Event]) -> list[Violation]:
    """Return everything that is wrong in a history; its events are in the order of their times."""
    return [Violation(invariant, what) for invariant, judge in _JUDGES.items() for what in judge(history)]


def counts(history: Sequence[Event]) -> Counter[str]:
    """Return how often each fault and each outcome occurred."""
    named = (f"fault: {event['name']}" if event.kind == "fault" else event.kind for event in history)
    return Counter(name for name in named if name != "lease")


def _tokens_increase(history: Sequence[Event]) -> Iterator[str]:
    began = {event.actor: event.at for event in reversed(history)}
    owners: dict[int, str] = {}
    newest: Event | None = None
    for grant in _of(history, "acquired"):
        epoch = grant["epoch"]
        if epoch in owners:
            yield f"{owners[epoch]} and {grant.actor} both own epoch {epoch}"
        # A process that stood still between the grant and its note was granted the epoch earlier than it says.
        elif newest is not None and epoch < newest["epoch"] and began[grant.actor] > newest.at:
            yield f"epoch {epoch} of {grant.actor} was granted after epoch {newest['epoch']}"
        owners.setdefault(epoch, grant.actor)
        if newest is None or epoch > newest["epoch"]:
            newest = grant


def _commits_are_ordered(history: Sequence[Event]) -> Iterator[str]:
    commits = sorted(_of(history, "committed"), key=lambda event: event["number"])
    for one, then in pairwise(commits):
        if one["number"] == then["number"]:
            yield f"checkpoint {one['number']} was committed by epochs {one['epoch']} and {then['epoch']}"
        elif one["epoch"] > then["epoch"]:
            yield f"epoch {then['epoch']} committed {then['number']}, epoch {one['epoch']} had {one['number']}"
    sent = {(event["epoch"], event["number"]): event.at for event in reversed(_of(history, "sent"))}
    newest, since = 0, 0.0
    for commit in _of(history, "committed"):
        # Between sending and the answer it may have been accepted at any time: only what was sent too late counts.
        if commit["epoch"] < newest and sent.get((commit["epoch"], commit["number"]), 0.0) > since:
            yield f"epoch {commit['epoch']} was accepted after epoch {newest}"
        if commit["epoch"] > newest:
            newest, since = commit["epoch"], commit.at


def _pointers_are_complete(history: Sequence[Event]) -> Iterator[str]:
    for event in _of(history, "observed"):
        if event["problem"]:
            yield f"checkpoint {event['number']}: {event['problem']}"


def _commits_survive(history: Sequence[Event]) -> Iterator[str]:
    commits = _of(history, "committed")
    for found in _of(history, "recovered"):
        acknowledged = [commit["number"] for commit in commits if commit["epoch"] < found["epoch"]]
        if acknowledged and found["number"] < max(acknowledged):
            yield f"epoch {found['epoch']} found checkpoint {found['number']}, but {max(acknowledged)} was acknowledged"


def _one_believer(history: Sequence[Event]) -> Iterator[str]:
    for one, other in combinations(beliefs(history), 2):
        both = min(one.until, other.until) - max(one.since, other.since)
        if both > 0:
            yield f"epochs {one.epoch} ({one.actor}) and {other.epoch} ({other.actor}) both believed for {both:.3f} s"


def _led_after_healing(history: Sequence[Event]) -> Iterator[str]:
    led, disturbances, commits = beliefs(history), _of(history, "fault"), _of(history, "committed")
    for healed in _of(history, "healed"):
        end = healed.at + healed["within"]
        quiet = not any(healed.at < fault.at < end for fault in disturbances)
        acted = any(healed.at <= commit.at <= end for commit in commits)
        believed = any(one.since <= end and one.until >= healed.at for one in led)
        if quiet and end < history[-1].at and not (acted or believed):
            yield f"no process led within {healed['within']} s after {healed.at:.1f}"


def _restarts_resume(history: Sequence[Event]) -> Iterator[str]:
    sent = {event["number"] for event in _of(history, "sent")} | {0}
    for found in _of(history, "recovered"):
        if found["number"] not in sent:
            yield f"epoch {found['epoch']} found checkpoint {found['number']}, which no process has written"
        first = next((event for event in _of(history, "sent") if event["epoch"] == found["epoch"]), None)
        if first is not None and first["number"] != found["number"] + 1:
            yield f"epoch {found['epoch']} found checkpoint {found['number']} and went on with {first['number']}"


def _nothing_is_left(history: Sequence[Event]) -> Iterator[str]:
    for event in _of(history, "left"):
        yield from (f"{name}: {value}" for name, value in event.facts.items() if value)


_JUDGES: dict[Invariant, Callable[[Sequence[Event]], Iterator[str]]] = {
    Invariant.TOKENS_INCREASE: _tokens_increase,
    Invariant.COMMITS_ARE_ORDERED: _commits_are_ordered,
    Invariant.POINTERS_ARE_COMPLETE: _pointers_are_complete,
    Invariant.COMMITS_SURVIVE: _commits_survive,
    Invariant.ONE_BELIEVER: _one_believer,
    Invariant.LED_AFTER_HEALING: _led_after_healing,
    Invariant.RESTARTS_RESUME: _restarts_resume,
    Invariant.NOTHING_IS_LEFT: _nothing_is_left,
}


@dataclass(frozen=True, slots=True)
class Belief:
    """The time during which one process believed that it leads: from its grant to the end of its lease, at the latest.

    It ends earlier with the process, with its own insight, or when it gives the lock back.
    """

    actor: str
    epoch: int
    since: float
    until: float


def beliefs(history: Sequence[Event]) -> list[Belief]:
    """Return who believed when, in the order of the grants."""
    leases: dict[int, float] = {}
    ends: dict[int, float] = {}
    deaths = {event["victim"]: event.at for event in _of(history, "died")}
    for event in history:
        if event.kind == "lease":
            leases[event["epoch"]] = max(leases.get(event["epoch"], 0.0), event["until"])
        elif event.kind in ("lost", "released"):
            ends.setdefault(event["epoch"], event.at)
    return [
        Belief(
            actor=event.actor,
            epoch=event["epoch"],
            since=event.at,
            until=min(
                leases.get(event["epoch"], event.at),
                ends.get(event["epoch"], float("inf")),
                deaths.get(event.actor, float("inf")),
            ),
        )
        for event in _of(history, "acquired")
    ]


def _of(history: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in history if event.kind == kind]
