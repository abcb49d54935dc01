"""Brings the answers of Spark and the verdicts together: what is not answered yet is asked, the rest is looked up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.proofs.verdicts.answers import Line, outcome, untrue
from tests.proofs.verdicts.asking import ask
from tests.proofs.verdicts.cases import Case, shapes_of
from tests.proofs.verdicts.kept import Kept
from tests.proofs.verdicts.verdicts import verdict
from tests.releases.corpus import recorded
from tests.releases.installed import BY_VERSION


def answered(cases: Sequence[Case], folder: Path, tell: Callable[[str], None]) -> tuple[list[Line], list[str]]:
    """Return a line for each case that its release has a file for, and what is wrong with the answers themselves.

    :param folder: Keeps the answers.
    """
    lines: list[Line] = []
    wrong: list[str] = []
    for release in dict.fromkeys(case.release for case in cases):
        own = [case for case in cases if case.release == release]
        recorded(BY_VERSION[release], shapes_of(BY_VERSION[release]))
        kept = Kept(folder / f"{release}.jsonl")
        _ask(release, [case for case in own if kept.get(case) is None], kept, folder, tell)
        found, untrue_ones = _lines(own, kept, folder / "copy")
        lines += found
        wrong += untrue_ones
        tell(f"{release}: {len(found)} cases, {sum(line.agreement != 'agree' for line in found)} disagree")
    return lines, wrong


def _ask(release: str, missing: Sequence[Case], kept: Kept, folder: Path, tell: Callable[[str], None]) -> None:
    done = 0

    def keep(case: Case, answer: dict[str, Any]) -> None:
        nonlocal done
        kept.keep(case, answer)
        done += 1
        if done % 25 == 0:
            tell(f"{release}: {done} of {len(missing)} asked")

    if missing:
        ask(release, missing, folder / "scratch", keep)


def _lines(cases: Sequence[Case], kept: Kept, copy: Path) -> tuple[list[Line], list[str]]:
    controls = {(case.shape, case.damage.name): case for case in cases if case.damage.name.startswith("whole")}
    lines: list[Line] = []
    wrong: list[str] = []
    for case in cases:
        answer = kept.get(case)
        if answer is None or "nothing" in answer:
            continue
        control = kept.get(controls[case.shape, case.damage.control])
        assert control is not None
        if case.damage.name.startswith("whole") and (why := untrue(case, answer)):
            wrong.append(f"{case.name} is no control: {why}")
        said, codes = verdict(case.damaged(copy), case.release)
        lines.append(
            Line(case.release, case.shape, case.damage.name, case.digest, outcome(answer, control), said, codes)
        )
    return lines, wrong
