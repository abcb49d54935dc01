"""Brings the answers of Spark and the verdicts together: what is not answered yet is asked, the rest is looked up.

An answer that lies in the repository is asked for on no machine again: it belongs to what was recorded and what was
done to it, not to the bytes of one recording. Verdicts are asked for each time. Where the restorable list has a batch
now and had it not, or the other way round, Spark was started from something else: it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lab.verdicts.answers import Line, outcome, read, untrue
from lab.verdicts.asking import ask
from lab.verdicts.cases import Case, shapes_of
from lab.verdicts.kept import Kept
from lab.verdicts.restoring import is_listed
from lab.verdicts.steps import NothingToDamageError
from lab.verdicts.verdicts import verdict
from tests.support.releases.corpus import recorded
from tests.support.releases.installed import BY_VERSION


Tell = Callable[[str], None]
Committed = dict[tuple[str, str], Line]


def answered(cases: Sequence[Case], folder: Path, tell: Tell, *, asking: bool = True) -> tuple[list[Line], list[str]]:
    """Return a line for each case that its release has a file for, and what is wrong with the answers themselves.

    :param cases: With the control of each.
    :param folder: Keeps the answers.
    :param asking: Whether Spark is started; otherwise each case needs its recording, and what is not answered yet is
        left out.
    """
    committed = {(line.name, line.digest): line for line in read()}
    lines: list[Line] = []
    wrong: list[str] = []
    for release in dict.fromkeys(case.release for case in cases):
        own = [case for case in cases if case.release == release]
        kept = Kept(folder / f"{release}.jsonl")
        if asking:
            recorded(BY_VERSION[release], shapes_of(BY_VERSION[release]))
        _forget(own, kept, committed, folder / "copy")
        if asking:
            _ask(release, _missing(own, kept, committed), kept, folder, tell)
        said, untrue_controls = _said(own, kept, committed)
        found = [line for case in own if (line := _line(case, said.get(case), folder / "copy")) is not None]
        lines += found
        wrong += untrue_controls
        tell(f"{release}: {len(found)} cases, {sum(line.agreement != 'agree' for line in found)} disagree")
    return lines, wrong


def unrecorded(cases: Sequence[Case]) -> list[str]:
    """Return the releases that lack the recording of a case."""
    return list(dict.fromkeys(case.release for case in cases if not (case.place / "complete").exists()))


def _forget(cases: Sequence[Case], kept: Kept, committed: Committed, copy: Path) -> None:
    """Forget the answers about what is restored otherwise now."""
    for case in (one for one in cases if one.damage.restored):
        answer, line = kept.get(case), committed.get((case.name, case.digest))
        before = answer.get("restored") if answer else line and line.verdict == "yes"
        if before is None:
            continue
        with suppress(NothingToDamageError):
            if is_listed(case, case.damaged(copy)) is not before:
                kept.forget(case)
                committed.pop((case.name, case.digest), None)


def _missing(cases: Sequence[Case], kept: Kept, committed: Committed) -> list[Case]:
    new = {case for case in cases if kept.get(case) is None and (case.name, case.digest) not in committed}
    # A new answer is compared with its control, which has to be at hand.
    needed = {(case.shape, case.damage.control) for case in new}
    return [
        case for case in cases if case in new or (kept.get(case) is None and (case.shape, case.damage.name) in needed)
    ]


def _ask(release: str, missing: Sequence[Case], kept: Kept, folder: Path, tell: Tell) -> None:
    done = 0

    def keep(case: Case, answer: dict[str, Any]) -> None:
        nonlocal done
        kept.keep(case, answer)
        done += 1
        if done % 25 == 0:
            tell(f"{release}: {done} of {len(missing)} asked")

    if missing:
        ask(release, missing, folder / "scratch", keep)


def _said(cases: Sequence[Case], kept: Kept, committed: Committed) -> tuple[dict[Case, str], list[str]]:
    """Return what Spark said, and which controls it did not pass."""
    by_name = {(case.shape, case.damage.name): case for case in cases}
    said: dict[Case, str] = {}
    wrong: list[str] = []
    for case in cases:
        answer = kept.get(case)
        control = kept.get(by_name[case.shape, case.damage.control])
        if answer is None or control is None:
            if (case.name, case.digest) in committed:
                said[case] = committed[case.name, case.digest].spark
        elif "nothing" not in answer:
            said[case] = outcome(answer, control)
            if case.damage.name == case.damage.control and (why := untrue(case, answer)):
                wrong.append(f"{case.name} is no control: {why}")
    return said, wrong


def _line(case: Case, spark: str | None, copy: Path) -> Line | None:
    if spark is None:
        return None
    try:
        checkpoint = case.damaged(copy)
    except NothingToDamageError:
        return None
    said, codes = verdict(case, checkpoint)
    return Line(case.release, case.shape, case.damage.name, case.digest, spark, said, codes)
