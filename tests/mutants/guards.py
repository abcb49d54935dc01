"""Guards: the statements that mutants change, marked by a comment ``guard: <id>`` at their line or on a line above.

A mutant names a guard and says what takes the place of what in that statement. So it stays where it is while other
lines, other statements like it and the file's name change. What is searched and changed is the text without these
comments: they may stand inside of what a mutant replaces.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path


PACKAGE = "airflow_provider_ha"
JAVA = ".java"

_COMMENT = re.compile(r"(?:^|(?<=\s))(?:#|//) guard: (?P<id>[a-z0-9]+(?:-[a-z0-9]+)*)$")
_WORD = "guard: "  # looked for first: the pattern is slow on the lines of the whole package


class GuardError(Exception):
    """Two statements have one guard."""


@dataclass(frozen=True, slots=True)
class Guard:
    """One marked statement.

    :param line: The marked line, from 1, in the text without the comments.
    """

    id: str
    line: int


@dataclass(frozen=True)
class Source:
    """A module without the comments that mark its guards.

    :param text: What a mutant changes.
    :param guards: In the order of the lines.
    :param java: Whether it is Java, where a statement is the line that is marked.
    """

    text: str
    guards: tuple[Guard, ...]
    java: bool = False

    @classmethod
    def read(cls, file: Path) -> Source:
        """Read a module."""
        return cls.of(file.read_text(encoding="utf-8"), java=file.suffix == JAVA)

    @classmethod
    def of(cls, text: str, *, java: bool = False) -> Source:
        """Take the comments out of a text."""
        lines, guards = list[str](), list[Guard]()
        for line in text.split("\n"):
            found = _COMMENT.search(line) if _WORD in line else None
            if found is None:
                lines.append(line)
                continue
            guards.append(Guard(found["id"], len(lines) + 1))
            if line[: found.start()].strip():
                lines.append(without_guard(line))
        return cls("\n".join(lines), tuple(guards), java)

    def places(self, old: str, guard: str) -> list[int]:
        """Return where a text begins in the statement of a guard."""
        found = [match.start() for match in re.finditer(f"(?={re.escape(old)})", self.text)]
        spans = [self._statement(one.line) for one in self.guards if one.id == guard]
        return [place for first, last in spans for place in found if first <= self._line(place) <= last]

    def _line(self, place: int) -> int:
        """The line of the first character at or after a place that is no line feed."""
        while self.text[place] == "\n":
            place += 1
        return self.text.count("\n", 0, place) + 1

    def _statement(self, line: int) -> tuple[int, int]:
        """First and last line of the statement; of one with a body its head. A line like ``else:`` is by itself."""
        around = [head for head in self._heads if head[0] <= line <= head[1]]
        return max(around, default=(line, line))

    @cached_property
    def _heads(self) -> list[tuple[int, int]]:
        if self.java:
            return []
        return [
            _head(node) for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.stmt | ast.ExceptHandler)
        ]


def without_guard(line: str) -> str:
    """Return a line without the comment that marks a guard."""
    return _COMMENT.sub("", line).rstrip() if _WORD in line and _COMMENT.search(line) else line


def guarded_files(root: Path) -> dict[str, str]:
    """Return guard -> file, as a path from the repository's root.

    :raises GuardError: An id marks two statements.
    """
    files = dict[str, str]()
    for guard, file in _all_guards(root):
        if guard in files:
            raise GuardError(f"two statements are marked as `{guard}`: in {files[guard]} and in {file}")
        files[guard] = file
    return files


def _all_guards(root: Path) -> Iterator[tuple[str, str]]:
    for file in (*sorted((root / PACKAGE).rglob("*.py")), *sorted((root / "java" / "src").rglob(f"*{JAVA}"))):
        for line in file.read_text(encoding="utf-8").split("\n"):
            if _WORD in line and (found := _COMMENT.search(line)) is not None:
                yield found["id"], file.relative_to(root).as_posix()


def _head(node: ast.stmt | ast.ExceptHandler) -> tuple[int, int]:
    first = _first_line(node)
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return first, node.end_lineno or node.lineno
    begins = body[0].pattern.lineno if isinstance(body[0], ast.match_case) else _first_line(body[0])
    return first, max(node.lineno, begins - 1)


def _first_line(node: ast.stmt | ast.ExceptHandler) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
