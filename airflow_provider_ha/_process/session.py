"""End every process that a child started in its session, including reparented ones."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from contextlib import suppress

import psutil


log = logging.getLogger(__name__)


_KILL_INTERVAL = 0.02


KILL_SECONDS = 30.0


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill every process that the child started: the JVM and its workers stay in its session, under any parent."""
    end = time.monotonic() + KILL_SECONDS
    while members := _members(process.pid):
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        if time.monotonic() > end:
            log.warning("processes of a proof are still dying: %s", [member.pid for member in members])
            break
        process.poll()
        time.sleep(_KILL_INTERVAL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _members(session: int) -> list[psutil.Process]:
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == session and (member := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                found.append(member)
    return found
