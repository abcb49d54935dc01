"""Which of our tests prove which cases of Flink: collected by pytest itself, from the ``flink`` markers.

Also a pytest plugin: ``-p tests.mutants.marked`` writes the marked tests of a collection to ``$MARKED_TESTS``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from tests.mutants.catalogue import ROOT


_FILE = "MARKED_TESTS"


class Marked(BaseModel):
    """One marker on one test.

    :param test: Node id without parameters.
    :param name: The case, as the marker names it.
    :param entry: Its number in the list of cases.
    :param mutant: Id of the mutant that the test is said to kill.
    """

    model_config = ConfigDict(frozen=True)

    test: str
    name: str
    entry: int
    mutant: str | None = None


def marked_tests(root: Path = ROOT) -> list[Marked]:
    """Collect the tests that carry the marker. Only files that mention it are imported: that takes seconds.

    :raises RuntimeError: pytest cannot collect one of them.
    """
    files = [str(file) for file in sorted((root / "tests").rglob("test_*.py")) if _mentions(file)]
    if not files:
        return []
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "marked.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", __name__, "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, *files],
            cwd=root,
            env=os.environ | {_FILE: str(told)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"pytest cannot collect the marked tests:\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        return [Marked.model_validate(found) for found in json.loads(told.read_text(encoding="utf-8"))]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Write down what was collected."""
    found = sorted(set(_markers(session.items)), key=lambda marked: (marked.entry, marked.test, marked.name))
    told = [marked.model_dump() for marked in found]
    Path(os.environ[_FILE]).write_text(json.dumps(told), encoding="utf-8")


def _markers(items: Iterable[pytest.Item]) -> Iterable[Marked]:
    for item in items:
        for marker in item.iter_markers("flink"):
            yield Marked(test=item.nodeid.partition("[")[0], name=marker.args[0], **marker.kwargs)


def _mentions(file: Path) -> bool:
    text = file.read_text(encoding="utf-8")
    return "mark.flink" in text or "@flink(" in text
