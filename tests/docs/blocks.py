"""The fenced code blocks of a Markdown file, in order."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


_FENCE = re.compile(r"^```(?P<language>\w+)?(?P<attributes>[^\n]*)\n(?P<text>.*?)^```\s*$", re.DOTALL | re.MULTILINE)
_TITLE = re.compile(r'title="(?P<title>[^"]+)"')


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    :param title: File that it is to be saved as, when the text names one.
    :param line: Line of its first line of code, from 1.
    """

    language: str
    title: str | None
    text: str
    line: int


def blocks_of(path: Path) -> list[Block]:
    """Return the fenced blocks of *path*."""
    content = path.read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(content):
        title = _TITLE.search(match["attributes"])
        line = content.count("\n", 0, match.start()) + 2
        found.append(Block(match["language"] or "", title["title"] if title else None, match["text"], line))
    return found
