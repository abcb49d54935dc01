"""docs/reference/proofs.md: one section a suite, replaced as a whole when its proof has come to its end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from lab.suite import Proof, Suite


_HEAD = """\
# Proofs

Tests of hours are not part of `make test` or `make test-long`. `make proof SUITE=name` runs them, continues after an
interruption, and writes the results here. `make proof SUITE=tests` runs the tests with the marker `hours`, one file
after the other, and shows the commit at which each file ran.
"""


def written(page: str, suite: Suite, proof: Proof, *, on: date, machine: str) -> str:
    """Return the page with the section of *suite* replaced, or added at its end. Pure.

    :param machine: Processors and memory, in words.
    """
    section = "\n\n".join(
        part
        for part in (
            f"## {suite.title}",
            suite.about,
            f"`make proof SUITE={suite.name}`, {on.isoformat()}, {machine}. {_verdict(proof)}",
            _table(proof.columns, proof.rows),
            proof.remark,
        )
        if part
    )
    block = f"<!-- {suite.name} -->\n\n{section}\n\n<!-- end of {suite.name} -->\n"
    old = re.compile(rf"<!-- {re.escape(suite.name)} -->.*<!-- end of {re.escape(suite.name)} -->\n", re.DOTALL)
    page = page or _HEAD
    return old.sub(lambda _: block, page) if old.search(page) else f"{page.rstrip()}\n\n{block}"


def write(file: Path, suite: Suite, proof: Proof, *, on: date, machine: str) -> None:
    """Write the page."""
    page = file.read_text(encoding="utf-8") if file.exists() else ""
    file.write_text(written(page, suite, proof, on=on, machine=machine), encoding="utf-8")


def _verdict(proof: Proof) -> str:
    if not proof.untrue:
        return "Everything that has to hold held."
    return "**Does not hold:** " + " ".join(proof.untrue)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
