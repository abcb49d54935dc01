"""Input of the zombie matrix, and what one batch over all of it gives."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any


KEYS = ("a", "b", "c", "d", "e")
SPAN = 3  # minutes that a file has rows of: its own, and those before
_FIRST = 60  # minutes after 1970, where a watermark begins: what is not later is late


@dataclass
class Stream:
    """Files of one minute each: every row twice, and some of the minutes before.

    :param files: How many there are.
    """

    source: Path
    files: int = 0

    def feed(self, count: int) -> None:
        """Add files."""
        self.source.mkdir(parents=True, exist_ok=True)
        for number in range(self.files, self.files + count):
            rows = [
                {"ts": _time(minute), "key": key, "row": f"{number}-{minute}-{key}"}
                for minute in range(max(0, number - SPAN + 1), number + 1)
                for key in KEYS
                for _ in range(2)
            ]
            aside = self.source.with_name(f"{self.source.name}-next")
            aside.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
            os.utime(aside, (1_700_000_000 + number,) * 2)  # Spark reads them in this order
            aside.rename(self.source / f"{number:06d}.json")
        self.files += count

    def rows(self) -> set[str]:
        """Return all distinct rows."""
        return {
            f"{number}-{minute}-{key}"
            for number in range(self.files)
            for minute in range(max(0, number - SPAN + 1), number + 1)
            for key in KEYS
        }

    def counts(self) -> dict[tuple[int, str], int]:
        """Return how many distinct rows there are of each minute (in seconds since 1970) and key."""
        parts = (row.split("-") for row in self.rows())
        return dict(Counter(((_FIRST + int(minute)) * 60, key) for _, minute, key in parts))

    def wrong(self, found: dict[str, Any]) -> list[str]:
        """Return what is wrong with output and state, one sentence each.

        Each count is in the output or still in the state, and in one of them only.
        """
        sentences = []
        output, waiting = (Counter(map(tuple, found[name])) for name in ("output", "waiting"))
        truth = Counter((start, key, count) for (start, key), count in self.counts().items())
        if output + waiting != truth:
            lost, more = truth - (output + waiting), (output + waiting) - truth
            sentences.append(f"Output and state lack {sorted(lost.elements())} and have {sorted(more.elements())}.")
        if not output or not waiting:
            sentences.append("Output or state is empty.")
        if Counter(found["rows"]) != Counter(self.rows()):
            sentences.append(
                f"The state of the duplicates has {len(found['rows'])} rows instead of {len(self.rows())}."
            )
        return sentences


def _time(minute: int) -> str:
    return datetime.fromtimestamp((_FIRST + minute) * 60, timezone.utc).isoformat()
