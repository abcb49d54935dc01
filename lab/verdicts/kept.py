"""The answers of Spark that are kept between two calls: a file for each release, to which every answer is added."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lab.verdicts.cases import Case


class Kept:
    """The answers of one release.

    :param file: One JSON line each; the last one of a case counts.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._answers: dict[tuple[str, str, str], dict[str, Any]] = {}
        for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else []:
            told = json.loads(line)
            self._answers[told["shape"], told["damage"], told["digest"]] = told["answer"]

    def get(self, case: Case) -> dict[str, Any] | None:
        """Return the answer to a case; ``None`` when its recording or its damage is another one now."""
        return self._answers.get((case.shape, case.damage.name, case.digest))

    def forget(self, case: Case) -> None:
        """Let a case count as not answered."""
        self._answers.pop((case.shape, case.damage.name, case.digest), None)

    def keep(self, case: Case, answer: dict[str, Any]) -> None:
        """Keep an answer."""
        self._answers[case.shape, case.damage.name, case.digest] = answer
        told = {"shape": case.shape, "damage": case.damage.name, "digest": case.digest, "answer": answer}
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(told, separators=(",", ":")) + "\n")
