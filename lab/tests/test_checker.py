"""The checker of the soak: a good history passes, and each way to go wrong is found by its own invariant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.leadership.checker import Invariant, beliefs, check, counts
from tests.support.leadership.history import Event, History, read


def an_event(at: float, kind: str, actor: str = "", **facts: Any) -> Event:
    return Event(at, actor or "nemesis", kind, facts)


def a_commit(at: float, epoch: int, number: int) -> list[Event]:
    return [
        an_event(at, "sent", f"p{epoch}", epoch=epoch, number=number),
        an_event(at + 0.1, "committed", f"p{epoch}", epoch=epoch, number=number),
    ]


def a_grant(at: float, epoch: int, found: int, *, until: float) -> list[Event]:
    return [
        an_event(at, "acquired", f"p{epoch}", epoch=epoch, session=epoch),
        an_event(at + 0.01, "lease", f"p{epoch}", epoch=epoch, until=until),
        an_event(at + 0.02, "recovered", f"p{epoch}", epoch=epoch, number=found),
    ]


GOOD = [
    *a_grant(1, 1, 0, until=4),
    *a_commit(1.5, 1, 1),
    *a_commit(2, 1, 2),
    an_event(2.5, "fault", name="freeze"),
    an_event(3, "observed", number=2, problem=""),
    *a_grant(5, 2, 2, until=9),
    an_event(5.5, "healed", within=3),
    *a_commit(6, 2, 3),
    an_event(6.5, "rejected", "p1", epoch=1, number=3),
    an_event(7, "died", victim="p2"),
    *a_grant(7.1, 3, 3, until=9),
    *a_commit(8, 3, 4),
    an_event(8.5, "released", "p3", epoch=3),
    an_event(20, "left", sessions=[], ephemerals=[], processes=[], threads=[], files=0),
]


def history(*also: Event) -> list[Event]:
    return sorted([*GOOD, *also], key=lambda event: event.at)


def without(kind: str) -> list[Event]:
    return [event for event in GOOD if event.kind != kind]


def test_a_good_history_passes() -> None:
    assert check(GOOD) == []


def test_a_grant_that_is_noted_late_is_no_epoch_that_comes_back() -> None:
    """Its process was stopped in between; its lease is over when it wakes up."""
    late = [
        an_event(4.6, "connected", "p4", session=4),
        an_event(12.5, "acquired", "p4", epoch=4, session=4),
        an_event(12.6, "lease", "p4", epoch=4, until=11),
        an_event(12.7, "lost", "p4", epoch=4),
    ]

    assert check(history(*late, *a_grant(12, 5, 4, until=13))) == []


# name -> (the invariant that finds it, the history)
BAD: dict[str, tuple[Invariant, list[Event]]] = {
    "an epoch is granted twice": (
        Invariant.TOKENS_INCREASE,
        history(an_event(10, "acquired", "p9", epoch=3, session=9)),
    ),
    "an epoch comes back": (Invariant.TOKENS_INCREASE, history(an_event(10, "acquired", "p9", epoch=2, session=9))),
    "a deposed leader commits": (Invariant.COMMITS_ARE_ORDERED, history(*a_commit(8.2, 1, 5))),
    "a number is committed twice": (Invariant.COMMITS_ARE_ORDERED, history(*a_commit(8.2, 3, 3))),
    "a deposed leader commits an old number": (
        Invariant.COMMITS_ARE_ORDERED,
        [event for event in history(*a_commit(8.2, 1, 2)) if event.at not in (2, 2.1)],
    ),
    "a payload is torn": (
        Invariant.POINTERS_ARE_COMPLETE,
        history(an_event(8.2, "observed", number=4, problem="it has another digest")),
    ),
    "a commit is gone after a change of leader": (Invariant.COMMITS_SURVIVE, history(*a_grant(9, 4, 3, until=9.5))),
    "two believe": (
        Invariant.ONE_BELIEVER,
        history(an_event(2.1, "lease", "p1", epoch=1, until=5.2)),
    ),
    "the dead is followed before its death is known": (
        Invariant.ONE_BELIEVER,
        [event for event in history(an_event(7.3, "died", victim="p2")) if event.at != 7],
    ),
    "no process leads after the faults": (Invariant.LED_AFTER_HEALING, history(an_event(10, "healed", within=3))),
    "a new leader skips a number": (
        Invariant.RESTARTS_RESUME,
        history(*a_grant(9, 4, 4, until=9.5), *a_commit(9.2, 4, 6)),
    ),
    "a new leader finds what no process wrote": (
        Invariant.RESTARTS_RESUME,
        history(*a_grant(9, 4, 17, until=9.5)),
    ),
    "a session is left": (Invariant.NOTHING_IS_LEFT, [*without("left"), an_event(20, "left", sessions=["0x1"])]),
}


@pytest.mark.parametrize("case", sorted(BAD))
def test_what_is_wrong_is_found_by_its_invariant(case: str) -> None:
    invariant, bad = BAD[case]

    assert invariant in {violation.invariant for violation in check(bad)}


def test_every_invariant_has_a_history_that_breaks_it() -> None:
    assert {invariant for invariant, _ in BAD.values()} == set(Invariant)


def test_an_answer_that_was_read_late_is_no_violation() -> None:
    """A frozen leader may read the answer to its last commit when its successor has long committed."""
    late = [
        an_event(2.2, "sent", "p1", epoch=1, number=3),
        an_event(9, "committed", "p1", epoch=1, number=3),
    ]
    shifted = [
        Event(event.at, event.actor, event.kind, event.facts | {"number": event["number"] + 1})
        if event.kind in ("sent", "committed", "recovered", "rejected") and event.at > 5
        else event
        for event in GOOD
    ]

    assert check(sorted([*shifted, *late], key=lambda event: event.at)) == []


def test_a_fault_during_the_bound_excuses_a_missing_leader() -> None:
    assert check(history(an_event(10, "healed", within=3), an_event(11, "fault", name="cut"))) == []


def test_a_belief_ends_with_the_process() -> None:
    assert [belief.until for belief in beliefs(GOOD)] == [4, 7, 8.5]


def test_faults_and_outcomes_are_counted() -> None:
    assert counts(GOOD)["fault: freeze"] == 1
    assert counts(GOOD)["committed"] == 4


def test_the_last_half_line_of_a_killed_process_did_not_happen(tmp_path: Path) -> None:
    history = History(tmp_path, "p1")
    history.note("acquired", epoch=1)
    history.close()
    with (tmp_path / "p1.jsonl").open("ab") as file:
        file.write(b'{"at": 1.0, "ac')

    assert [event.kind for event in read(tmp_path)] == ["acquired"]
