"""Asks Spark: one program of the release answers many cases, and each answer is kept as soon as it is given.

A RocksDB that was given bad files may take the whole JVM down. The case that did it is answered with that, and the rest
is asked of a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from airflow_provider_ha.errors import HaError
from lab.verdicts.cases import Case
from lab.verdicts.restoring import given
from lab.verdicts.steps import NothingToDamageError
from tests.support.releases import installed
from tests.support.releases.corpus import task
from tests.support.releases.installed import BY_VERSION, environment, python
from tests.support.releases.shapes import BY_NAME


PROGRAM = installed.PROGRAM.with_name("restarts.py")
_AT_ONCE = 200  # copies on the disk
_SILENCE = 420.0  # seconds without any answer, after which a program is ended


def ask(release: str, cases: Sequence[Case], scratch: Path, keep: Callable[[Case, dict[str, Any]], None]) -> None:
    """Ask *release* about its cases.

    :param scratch: A directory that may be emptied.
    :param keep: Called with each case and ``{"starts": [...]}``; ``{"nothing": reason}`` where there is no such file.
    """
    for some in _together(cases):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        tasks: dict[str, tuple[Case, dict[str, Any]]] = {}
        for number, case in enumerate(some):
            copy = scratch / str(number)
            try:
                restored = given(case, copy)
            except NothingToDamageError as nothing:
                keep(case, {"nothing": str(nothing)})
                continue
            except HaError as error:
                failed = {"error": f"it is not restored: {error.message}", "rows": []}
                keep(case, {"starts": [failed], "same_id": True, "restored": True})
                continue
            about = task(BY_NAME[case.shape], case.place, copy)
            about |= {"case": str(number), "alone": _alone(case), "inputs": case.inputs(), "restored": restored}
            tasks[str(number)] = case, about
        before = {name: _query_id(scratch / name) for name in tasks}
        for name, answer in _answers(release, [about for _, about in tasks.values()], scratch):
            same = before[name] == _query_id(scratch / name)
            case, about = tasks[name]
            keep(case, answer | {"same_id": same, "restored": about["restored"]})
        shutil.rmtree(scratch)


def _together(cases: Sequence[Case]) -> Iterator[Sequence[Case]]:
    """Return what one JVM is asked: never both checkpoint formats."""
    for by_id in (False, True):
        some = [case for case in cases if BY_NAME[case.shape].by_id is by_id]
        yield from (some[at : at + _AT_ONCE] for at in range(0, len(some), _AT_ONCE))


def _alone(case: Case) -> str:
    """Name what has one query id: a recording, and two of them where a damage writes the id."""
    return "hdfs" if case.shape == "stateless" else case.shape


def _query_id(checkpoint: Path) -> str:
    path = checkpoint / "metadata"
    return path.read_text() if path.exists() else ""


def _answers(release: str, tasks: list[dict[str, Any]], scratch: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    left = {told["case"]: told for told in tasks}
    while left:
        begun: set[str] = set()
        for line in _lines(release, list(left.values()), scratch):
            if "begun" in line:
                begun.add(line["begun"])
            else:
                begun.discard(line["case"])
                del left[line["case"]]
                yield line["case"], line
        if not left:
            return
        assert begun, f"Spark {release} answered nothing: {(scratch / 'log').read_text(errors='replace')[-2000:]}"
        if len(left) == 1 or len(begun) == 1:
            # The only one that ran when the program ended.
            guilty = begun.pop()
            yield guilty, {"starts": [{"error": "the JVM ended", "rows": []}]}
            del left[guilty]
            continue
        # Several ran: each is asked alone.
        for case in sorted(begun):
            answered = [line for line in _lines(release, [left[case]], scratch) if "case" in line]
            yield case, answered[0] if answered else {"starts": [{"error": "the JVM ended", "rows": []}]}
            del left[case]


def _lines(release: str, tasks: list[dict[str, Any]], scratch: Path) -> Iterator[dict[str, Any]]:
    spark = BY_VERSION[release]
    request = scratch / "tasks.json"
    request.write_text(json.dumps(tasks))
    command = [str(python(spark)), str(PROGRAM), str(request)]
    with (scratch / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            env=environment(spark),
            cwd=scratch,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,  # its JVM and its workers end with it
        )
        try:
            yield from _read(process)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _read(process: subprocess.Popen[bytes]) -> Iterator[dict[str, Any]]:
    assert process.stdout is not None
    rest, heard = b"", time.monotonic()
    while time.monotonic() - heard < _SILENCE:
        ready, _, _ = select.select([process.stdout], [], [], 1.0)
        if not ready:
            continue
        read = os.read(process.stdout.fileno(), 1 << 16)
        if not read:
            return
        heard = time.monotonic()
        *lines, rest = (rest + read).split(b"\n")
        yield from (json.loads(line) for line in lines if line.startswith((b'{"case"', b'{"begun"')))
