"""What a run of pytest on a mutant means. Only a test that ran and failed by itself has killed one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from pydantic import BaseModel

from tests.mutants.catalogue import Mutant


class Outcome(str, Enum):
    """How it went with a mutant."""

    KILLED = "killed"
    SURVIVED = "survived"
    NOT_FOUND = "text not found"
    AMBIGUOUS = "text found more than once"
    NOT_RUN = "no test ran"
    BROKEN = "not a program"
    NO_SETUP = "setup failed"
    TIMEOUT = "no end in time"
    WRONG_COPY = "the copy was not imported"
    FAILS_ANYWAY = "the test fails without it"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one mutant."""

    mutant: Mutant
    outcome: Outcome
    seconds: float
    detail: str = ""


class Report(BaseModel):
    """How one phase of one test ended; ``tests.mutants.witness`` writes it."""

    test: str
    phase: str
    outcome: str
    kind: str
    error: str


class Testimony(BaseModel):
    """What the witness saw of one run of pytest."""

    package: str = ""
    reports: list[Report] = []

    @classmethod
    def read(cls, file: Path) -> Testimony:
        """An empty one when pytest did not get as far as writing it."""
        try:
            return cls.model_validate(json.loads(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return cls()

    def of(self, test: str) -> list[Report]:
        """Reports of a node id, or of all its parameters."""
        return [
            report
            for report in self.reports
            if report.test == test or report.test.startswith((f"{test}[", f"{test}::"))
        ]

    def passed(self, test: str) -> bool:
        """The test ran and nothing of it failed."""
        reports = self.of(test)
        ran = any(report.phase == "call" and report.outcome == "passed" for report in reports)
        return ran and all(report.outcome != "failed" for report in reports)


def judge(mutant: Mutant, testimony: Testimony, copy: Path) -> tuple[Outcome, str]:
    """The outcome of a run that came to its end, and what was told as the reason."""
    called = [report for report in testimony.of(mutant.test) if report.phase == "call" and report.outcome != "skipped"]
    failed = [report for report in testimony.of(mutant.test) if report.outcome == "failed"]
    if testimony.package and not Path(testimony.package).is_relative_to(copy):
        return Outcome.WRONG_COPY, testimony.package
    for report in failed:
        if report.phase == "call" and report.kind == "noticed":
            return Outcome.KILLED, report.error
    for report in failed:
        if report.kind == "timeout":
            return Outcome.TIMEOUT, report.error
        return (Outcome.BROKEN if report.kind == "broken" else Outcome.NO_SETUP), report.error
    if not called:
        return Outcome.NOT_RUN, ""
    return Outcome.SURVIVED, mutant.why
