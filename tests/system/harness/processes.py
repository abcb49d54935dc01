"""The processes of one demo: found by what only they have, and ended.

Servers carry a marker in their environment, which everything that they start inherits, workers in other sessions
included. Two kinds do not show it: drivers get a clean environment and carry a submission id instead, and Airflow's
components overwrite theirs with their title. Both are known by their working directory below the demo's home; the shell
of a user who looks around there is not, because it has an environment. So a demo that was itself killed is cleaned up
by the next one.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from airflow_provider_ha.jobs.drivers.driver_spec import SUBMISSION_VARIABLE


MARKER = "SPARK_HA_DEMO_HOME"

_GRACE_SECONDS = 10.0


def start(command: Sequence[str], *, home: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a server that outlives this process, marked as one of *home*.

    :param env: Added to our own environment.
    :param log: File that gets everything it says.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            list(command),
            cwd=home,
            env={**os.environ, **env, MARKER: str(home)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def of_home(home: Path) -> list[psutil.Process]:
    """Return every process of the demo in *home*, but never this one."""
    return [process for process in psutil.process_iter() if process.pid != os.getpid() and belongs(process, home)]


def end_all(home: Path) -> list[int]:
    """End every process of the demo in *home*: asked first, then killed. Returns those that had to be killed.

    Drivers first: their supervisors still want to write down the end, and need ZooKeeper for it. Asks again until none
    is left, because a server that ends may still start something.
    """
    _ask([process for process in of_home(home) if is_of_a_driver(process)])
    _ask(of_home(home))
    killed: list[int] = []
    while remaining := of_home(home):
        for process in remaining:
            with suppress(psutil.NoSuchProcess):
                process.kill()
                killed.append(process.pid)
        psutil.wait_procs(remaining, timeout=_GRACE_SECONDS)
    return killed


def _ask(asked: Sequence[psutil.Process]) -> None:
    for process in asked:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGCONT)
            process.terminate()
    psutil.wait_procs(asked, timeout=_GRACE_SECONDS)


def is_of_a_driver(process: psutil.Process) -> bool:
    """Whether a process belongs to a submission: its supervisor, its JVM, or its Python."""
    try:
        return SUBMISSION_VARIABLE in process.environ()
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False


def belongs(process: psutil.Process, home: Path) -> bool:
    """Whether a process runs for the demo in *home*; one that is gone, or another user's, does not."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        environment = process.environ()
        if environment.get(MARKER) == str(home):
            return True
        ours = SUBMISSION_VARIABLE in environment or not any(environment)
        return ours and Path(process.cwd()).is_relative_to(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
        return False  # gone, or another user's
