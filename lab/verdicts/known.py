"""The disagreements that are known, each with its reason: ``disagreements.toml``, which a reader can edit."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lab.verdicts.answers import Line


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pytest brings it along

FILE = Path(__file__).with_name("disagreements.toml")


@dataclass(frozen=True)
class Known:
    """Why some verdicts differ from what Spark does.

    :param cases: Patterns that fit names of cases, such as ``4.? hdfs: metadata*``.
    :param kind: What they are called: ``cautious`` for a false alarm on purpose.
    """

    cases: tuple[str, ...]
    kind: Literal["missed", "false alarm", "cautious", "unknown"]
    why: str

    def fits(self, line: Line) -> bool:
        """Whether it explains a disagreement."""
        wanted = "false alarm" if self.kind == "cautious" else self.kind
        return line.agreement == wanted and any(fnmatch.fnmatchcase(line.name, one) for one in self.cases)


@dataclass(frozen=True)
class Judged:
    """What became of every line.

    :param kinds: ``agree`` or the kind of disagreement, one for each line.
    :param unexplained: Disagreements without a reason.
    :param idle: Reasons that explain nothing any more.
    """

    kinds: tuple[str, ...]
    unexplained: tuple[Line, ...]
    idle: tuple[Known, ...]


def known(file: Path = FILE) -> list[Known]:
    """Return what is known."""
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    return [Known(tuple(one["cases"]), one["kind"], one["why"].strip()) for one in told.get("known", [])]


def judged(lines: Sequence[Line], reasons: Sequence[Known]) -> Judged:
    """Give every line its kind. Pure."""
    kinds, unexplained, used = [], [], set()
    for line in lines:
        fitting = [reason for reason in reasons if reason.fits(line)]
        used |= set(fitting)
        kinds.append(fitting[0].kind if fitting else line.agreement)
        if line.agreement != "agree" and not fitting:
            unexplained.append(line)
    return Judged(tuple(kinds), tuple(unexplained), tuple(one for one in reasons if one not in used))
