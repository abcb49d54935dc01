"""Identity of a supervisor that is a process of the submitting host.

A host name is not an identity: containers with the host's network share its name but not its processes, and so do a
host and its clone. So the boot id and the PID namespace identify a host.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
from pydantic import ValidationError

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.host.engines.table import LOCAL
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, file_uri
from airflow_provider_ha.records import Model


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_FIRST = Path("/proc/1")  # lives as long as the host, or the container


def boot_id() -> str:
    """Return the kernel's id of this boot; empty if it cannot be read."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def pid_namespace() -> str:
    """Return the name of this process's PID namespace, ``pid:[<inode>]``; empty if it cannot be read."""
    try:
        return str(_NAMESPACE.readlink())
    except OSError:
        return ""


def sees_processes_of_others() -> bool:
    """Return whether processes of other users are listed; a ``/proc`` mounted with ``hidepid=2`` leaves them out."""
    return os.geteuid() == 0 or _FIRST.exists()


class LocalProcess(Model):
    """A supervisor on a host: the target of a local submission's handle.

    Boot id and PID namespace identify the host; the host name is for users. Both are empty if they could not be read.

    :param process_started: Seconds since 1970.
    :param uid: User of the process.
    """

    host: str
    pid: int
    process_started: float
    uid: int
    boot: str = ""
    pid_namespace: str = ""

    @property
    def is_here(self) -> bool:
        """``True`` if the process belongs to this host, since its last boot, and to this PID namespace."""
        known = bool(self.boot and self.pid_namespace)
        # guard: one-host-name-is-one-host
        return known and (self.boot, self.pid_namespace) == (boot_id(), pid_namespace())

    @classmethod
    def of(cls, handle: DriverHandle) -> LocalProcess:
        """Return the process that a handle refers to.

        :raises RecordCorruptError: The handle does not refer to a local process.
        """
        try:
            return cls.model_validate(handle.ref)
        except ValidationError as error:
            raise RecordCorruptError(f"the handle {handle.ref} is not that of a local process ({error})") from error


def handle_here(process: psutil.Process, driver_log: Path) -> DriverHandle:
    """Return the handle of a submission whose supervisor is *process* on this host."""
    host = socket.gethostname()
    local = LocalProcess(
        host=host,
        pid=process.pid,
        process_started=process.create_time(),
        boot=boot_id(),
        pid_namespace=pid_namespace(),
        uid=process.uids().real,
    )
    return DriverHandle(engine=LOCAL.name, ref=local.model_dump(), log_uri=file_uri(host, str(driver_log)))


class LocalArrival:
    """Arrival of a supervisor on the submitting host, which outlives its starter. The starter records it."""

    reports_itself = False

    def own_handle(self, given: DriverHandle, driver_log: Path) -> DriverHandle:
        """Return the handle of this process."""
        del given
        return handle_here(psutil.Process(), driver_log)

    def bind(self) -> None:
        """Leave this process unbound."""

    def conf(self, graph: JobGraph) -> dict[str, str]:
        """Return no conf: the place is that of the submission."""
        del graph
        return {}
