"""Parses the text of an error into its exceptions, from the outermost to the cause, with their frames.

Python and the JVM pass errors to each other as text: the message of a ``PythonException`` contains a worker's
traceback, and that of a ``Py4JJavaError`` the stack of the JVM. So text is their common form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace


LONGEST = 400_000  # characters that are parsed; the middle of a longer text is left out
TRACEBACK = "Traceback (most recent call last):"
_WORKER = re.compile(r"\bPythonException: |Python worker")
_FRAME = re.compile(r'\s+File "([^"]+)", line (\d+)(?:, in (.+))?$')
_PYTHON = re.compile(r"([A-Za-z_][\w.]*)(?::(?:\s(.*))?)?$")
_QUALIFIED = re.compile(
    r"(?:Caused by: |Suppressed: |: |Exception in thread \"[^\"]*\" )?((?:[a-z_]\w*\.)+[A-Z][\w$]*)(?::\s*(.*))?$"
)
_TASK = re.compile(r"\(TID \d+\) \(.*?\): (.*)$")  # "Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): ..."
_NAMED = re.compile(r"([A-Za-z_][\w.$]*)(?:\b[:( ](.*))?$")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]")


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a traceback of Python.

    :param path: File, as the traceback names it.
    :param function: Empty for a syntax error.
    """

    path: str
    line: int
    function: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One exception of a chain.

    :param name: Its class with its module; built-in classes, and the classes of the script itself, have no module.
    :param message: The first line of its message.
    :param frames: Of Python, outermost first.
    :param worker: Whether a Python worker raised it. Spark leaves its own frames out of such a traceback.
    """

    name: str
    message: str = ""
    frames: tuple[Frame, ...] = ()
    worker: bool = False

    @property
    def short(self) -> str:
        """The class without its module."""
        return re.split(r"[.$]", self.name.rstrip("$"))[-1]

    @property
    def condition(self) -> str:
        """Spark's condition at the beginning of the message; empty without one."""
        found = _CONDITION.match(self.message)
        return found[1] if found else ""


def links(text: str) -> tuple[Link, ...]:
    """Return the exceptions that *text* names, in their order. Pure; empty for an unknown form."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]}\n{text[-LONGEST // 2 :]}"
    found: list[Link] = []
    frames: list[Frame] | None = None  # of the traceback that is being read
    worker, before = False, ""
    for line in text.splitlines():
        if line.rstrip().endswith(TRACEBACK):
            worker = _WORKER.search(f"{before} {line}") is not None
            found.extend(_headers(line.rstrip().removesuffix(TRACEBACK).rstrip()))
            frames = []
        elif frames is not None:
            if frame := _FRAME.match(line):
                frames.append(Frame(frame[1], int(frame[2]), frame[3] or ""))
            elif line[:1].strip():
                if named := _PYTHON.match(line.rstrip()):
                    found.append(Link(named[1], (named[2] or "").strip(), tuple(frames), worker))
                frames = None
        elif found and not found[-1].message and _CONDITION.match(line):
            found[-1] = replace(found[-1], message=line.strip())  # a parse error begins with an empty line
        else:
            found.extend(_headers(line.rstrip()))
        before = line
    return tuple(found)


def _headers(line: str) -> Iterator[Link]:
    """Yield the exception whose header *line* is, and the exception of a task that its message names."""
    header = _QUALIFIED.match(line)
    if header is not None:
        yield Link(header[1], (header[2] or "").strip())
    if (task := _TASK.search(line)) is not None and (inner := _NAMED.match(task[1])) is not None:
        yield Link(inner[1], (inner[2] or "").strip())
