"""A repository of tiny tests, on which ``make proof SUITE=tests`` is tried."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from lab.hours import HourTests
from lab.suite import Proof


_PROJECT = """
[tool.pytest.ini_options]
addopts = ["--strict-markers", "--import-mode=importlib"]
markers = ["hours: takes hours"]
"""
# The marker's name is put in: the suite would take a file that mentions it for one of those that it runs.
_HEAD = f"""
import os, pathlib, threading
import pytest

pytestmark = pytest.mark.{"hours"}
HERE = pathlib.Path(os.environ["HOURS_TEST"])

def ran(name):
    with (HERE / "ran").open("a") as counter:
        counter.write(name + " ")
"""


@dataclass
class Clone:
    """A repository of tiny tests, and the folder of its proof.

    :param told: What the suite has told.
    :param stop_at: Interrupts the proof when it tells of that file.
    """

    place: Path
    told: list[str] = field(default_factory=list)
    stop_at: str = "-"

    @classmethod
    def make(cls, place: Path) -> Clone:
        """Make a repository without a test. Its tests find *place* in the variable ``HOURS_TEST``."""
        made = cls(place)
        (made.root / "tests").mkdir(parents=True)
        (made.root / "lab").mkdir()
        made.folder.mkdir()
        (made.root / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
        (made.root / ".gitignore").write_text("__pycache__/\n", encoding="utf-8")
        made._git("init", "--quiet")
        made.commit()
        return made

    @property
    def root(self) -> Path:
        """The repository."""
        return self.place / "clone"

    @property
    def folder(self) -> Path:
        """What the proof keeps."""
        return self.place / "proof"

    def add(self, name: str, text: str) -> None:
        """Write a file of tests."""
        (self.root / "tests" / name).write_text(_HEAD + text, encoding="utf-8")

    def commit(self) -> str:
        """Commit everything and return the short id."""
        self._git("add", "--all")
        self._git("-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "-m", "Change tests")
        return self._git("rev-parse", "--short", "HEAD")

    def run(self) -> Proof:
        """Call the suite."""
        self.told.clear()
        return HourTests(self.root).run(self.folder, self._tell)

    def ran(self) -> list[str]:
        """Return which tests ran since the last question."""
        counter = self.place / "ran"
        names = counter.read_text().split() if counter.exists() else []
        counter.unlink(missing_ok=True)
        return names

    def _git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def _tell(self, line: str) -> None:
        self.told.append(line)
        if line.startswith(self.stop_at):
            raise KeyboardInterrupt
