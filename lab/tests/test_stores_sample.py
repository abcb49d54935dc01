"""Cells of ``make proof SUITE=stores``: a promise about files on each server, and each kind of thing built on them.

A cell runs its tests in a separate process, as the suite does: a test that is left out there counts as wrong.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.stores.counted import run
from lab.stores.promises import PROMISES, Server


pytestmark = [pytest.mark.hours, pytest.mark.timeout(1500)]

SAMPLE = (
    ("Exactly one of several simultaneous creations", Server.DIRECTORY),
    ("Exactly one of several simultaneous creations", Server.S3),
    ("A creation whose answer was lost", Server.S3),
    ("The collector removes only", Server.HDFS),
    ("A checkpoint that Spark alone wrote", Server.S3),
    ("What cannot hold working directories", Server.S3),
)


def shown_by(beginning: str, server: Server) -> tuple[str, ...]:
    """Return the tests of the one promise that begins so, on a server."""
    (promise,) = (each for each in PROMISES if each.text.startswith(beginning))
    return tuple(promise.shown[server])


@pytest.mark.parametrize(("promise", "server"), SAMPLE, ids=str)
def test_what_is_promised_holds_on_its_server(promise: str, server: Server, tmp_path: Path) -> None:
    count = run(shown_by(promise, server), tmp_path)

    assert count.wrong == []
    assert count.passed >= 1
