"""Which host this is, as far as its processes are concerned: a name alone may be that of several.

Two containers with the network of their host share its name and not its processes; so do a host and its clone.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil

from airflow_provider_ha.jobs.model import SubmissionStarted


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_FIRST = Path("/proc/1")  # it lives as long as the host, or the container


def boot_id() -> str:
    """Return the id that the kernel got when it was booted; empty where it cannot be read."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Return the name of this process's PID namespace, ``pid:[<inode>]``; empty where it cannot be read."""
    try:
        return str(_NAMESPACE.readlink())
    except OSError:
        return ""


def sees_processes_of_others() -> bool:
    """Whether processes of other users are listed; a ``/proc`` that is mounted with ``hidepid=2`` leaves them out."""
    return os.geteuid() == 0 or _FIRST.exists()


def started_here(process: psutil.Process, driver_log: Path) -> SubmissionStarted:
    """Return the record of a submission whose supervisor is *process* of this host."""
    return SubmissionStarted(
        host=socket.gethostname(),
        pid=process.pid,
        process_started=process.create_time(),
        log=str(driver_log),
        boot=boot_id(),
        pid_namespace=pid_namespace(),
        uid=process.uids().real,
    )
