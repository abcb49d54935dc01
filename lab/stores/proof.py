"""``make proof SUITE=stores``: what a store must guarantee, and what is built on it, on every server that is here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from lab import sitting
from lab.sitting import Sitting, commits, untrue
from lab.stores.counted import Count, run
from lab.stores.promises import PROMISES, Promise, Server
from lab.suite import Proof
from tests.support.hdfs.hdfs_server import HADOOP
from tests.support.s3.versitygw import VERSION


SITTING_SECONDS = 50 * 60.0  # after which no cell is begun: the next call goes on
_NOT_NEEDED = "\u2013"
_OPEN = (
    "versitygw is not AWS: its conditional `PUT` is atomic as AWS documents its own, by another implementation, over a"
    " file system of one host. It leaves open AWS's behaviour under load from many hosts (503, 409 in the middle of a"
    " conditional write), copies inside the service, roles and KMS, lifecycle rules (asked of moto), replication, and"
    " objects whose key is a prefix of another key. Of HDFS, Kerberos, encryption zones, erasure coding and a lost data"
    " node are left open."
)

Done = sitting.Done[Count]
Progress = sitting.Progress[Count]


class Stores:
    """The suite.

    :param promises: What is shown.
    :param sitting: Seconds after which no cell is begun.
    """

    name = "stores"
    title = "What a store guarantees, on each server"

    def __init__(self, promises: Sequence[Promise] = PROMISES, sitting: float = SITTING_SECONDS) -> None:
        self._promises, self._sitting = promises, sitting

    @property
    def about(self) -> str:
        """What is done and what has to hold."""
        return (
            "Tests on a real server show each promise; the table counts the tests that held. An omitted test counts as"
            " failed; a dash means that the server does not need the promise, or cannot be asked."
        )

    def run(self, folder: Path, tell: Callable[[str], None]) -> Proof:
        """Run the cells that are left, and again those in which something did not hold."""
        now = Sitting(folder, Progress, Done, self._sitting, tell)
        tests = {name: each for promise in self._promises for name, each in promise.cells.items()}
        for name, each in tests.items():
            if name not in now:
                now.attempt(name, partial(run, each, folder))
        cells = now.cells(tests)
        lines = [row(promise, cells) for promise in self._promises]
        columns = ("what holds", *(server.value for server in Server))
        return Proof(columns, lines, untrue(cells, now.failed), remark(self._promises, cells))


def row(promise: Promise, cells: Mapping[str, Done]) -> tuple[str, ...]:
    """Return the line of a promise. Pure."""
    shown = dict(zip(promise.shown, promise.cells, strict=True))
    return (promise.text, *(_cell(shown.get(server), cells) for server in Server))


def remark(promises: Sequence[Promise], cells: Mapping[str, Done]) -> str:
    """Return what a reader has to know beside the table. Pure."""
    rest = [name for promise in promises for name in promise.cells if name not in cells]
    return (
        f"Commit {commits(cells)}. Spark {version('pyspark')}, versitygw {VERSION} on a disk, HDFS {HADOOP} (one name"
        f" node and one data node; two name nodes where one is killed). {_OPEN}"
        + (f" **Not run yet:** {'; '.join(rest)}." if rest else "")
    )


def _cell(name: str | None, cells: Mapping[str, Done]) -> str:
    if name is None:
        return _NOT_NEEDED
    if name not in cells:
        return "not run yet"
    count = cells[name].outcome
    return f"{count.passed} of {count.passed + len(count.wrong)}"
