"""What Spark answered and what the verdict was: one line for each case, kept in the repository.

``lab/verdicts/data/<release>.tsv.xz``: shape, damage, digest, Spark's answer, verdict, findings.
"""

from __future__ import annotations

import json
import lzma
import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.verdicts.cases import Case
from tests.support.releases.shapes import BY_NAME, Shape, truth_of


FOLDER = Path(__file__).with_name("data")
RIGHT = "right"
_SUFFIX = ".tsv.xz"
_WHOLE = {"counts", "chain", "global"}  # kinds of query that say everything in each batch


@dataclass(frozen=True)
class Line:
    """One case, answered.

    :param spark: ``right``, ``wrong at start N``, ``failed at start N: why`` or ``another query id``.
    :param verdict: ``yes``, ``no`` or ``unknown``.
    :param codes: The findings, those that block first, each of them with ``!``.
    """

    release: str
    shape: str
    damage: str
    digest: str
    spark: str
    verdict: str
    codes: str

    @property
    def name(self) -> str:
        """How the case is called."""
        return f"{self.release} {self.shape}: {self.damage}"

    @property
    def agreement(self) -> str:
        """``agree``, ``missed``, ``false alarm`` or ``unknown``."""
        if self.verdict == "unknown":
            return "unknown"
        if (self.verdict == "yes") == (self.spark == RIGHT):
            return "agree"
        return "missed" if self.verdict == "yes" else "false alarm"


def outcome(answer: dict[str, Any], control: dict[str, Any]) -> str:
    """Return what a restart of a damaged copy came to, by what the same restart of a whole one says. Pure."""
    for number, (start, right) in enumerate(zip(answer["starts"], control["starts"], strict=False), 1):
        if start["error"]:
            return f"failed at start {number}: {short(start['error'])}"
        if _sorted(start["rows"]) != _sorted(right["rows"]):
            return f"wrong at start {number}"
    return RIGHT if answer["same_id"] else "another query id"


def untrue(case: Case, answer: dict[str, Any]) -> str:
    """Return what is wrong with the answer to a control, by the rows that are computed without Spark; or nothing."""
    shape = BY_NAME[case.shape]
    known = list(case.old_files)
    for number, start in enumerate(answer["starts"]):
        if start["error"]:
            return f"start {number + 1} failed: {start['error']}"
        again = [known.pop()] if number == 0 and case.again and shape.kind not in _WHOLE else []
        if shape.files and _sorted(start["rows"]) != _sorted(_expected(shape, known, again, case.new_files(number))):
            return f"start {number + 1} says {start['rows']}"
        known += again + case.new_files(number)
    return ""


def _expected(shape: Shape, known: list[int], again: list[int], new: list[int]) -> list[dict[str, Any]]:
    """Return the rows of the batch that is executed again and of the new one."""
    if shape.kind == "processor" and again:
        return truth_of(shape, known, again) + truth_of(shape, [*known, *again], new)
    return truth_of(shape, known, again + new)


def short(error: str) -> str:
    """Return the beginning of an error, without what differs from run to run."""
    text = error.rpartition("terminated with exception: ")[2].partition("===")[0]
    text = text.partition(" SQLSTATE")[0]
    text = re.sub(r"file:\S*/scratch/\d+/", "", re.sub(r"An error occurred while calling \S+ : ", "", text))
    return textwrap.shorten(text.replace("|", "/"), 90, placeholder=" …")


def read(folder: Path = FOLDER) -> list[Line]:
    """Return every kept line."""
    return [
        Line(path.name.removesuffix(_SUFFIX), *line.split("\t"))
        for path in sorted(folder.glob(f"*{_SUFFIX}"))
        for line in lzma.decompress(path.read_bytes()).decode().splitlines()
    ]


def write(lines: Iterable[Line], folder: Path = FOLDER) -> None:
    """Keep *lines*, those of each release in a separate file."""
    folder.mkdir(parents=True, exist_ok=True)
    by_release: dict[str, list[str]] = {}
    for line in lines:
        told = f"{line.shape}\t{line.damage}\t{line.digest}\t{line.spark}\t{line.verdict}\t{line.codes}\n"
        by_release.setdefault(line.release, []).append(told)
    for release, told_lines in by_release.items():
        content = lzma.compress("".join(told_lines).encode(), preset=9)
        (folder / f"{release}{_SUFFIX}").write_bytes(content)


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)
