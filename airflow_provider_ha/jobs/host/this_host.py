"""Which host this is, as far as its processes are concerned: a name alone may be that of several.

Two containers with the network of their host share its name and not its processes; so do a host and its clone.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
from pydantic import ValidationError

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.submissions import Handle, file_uri
from airflow_provider_ha.records import Model


# What a driver needs of its host. Everything else stays here: an Airflow worker's environment holds connections,
# passwords and tokens, and the Python workers inherit all that the driver inherits.
_INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "JAVA_HOME", "PYTHONPATH"}
    | {"VIRTUAL_ENV", "LD_LIBRARY_PATH", "HADOOP_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SSL_CERT_FILE"}
    | {
        "SPARK_HOME",
        "SPARK_CONF_DIR",
        "SPARK_LOCAL_IP",
        "SPARK_LOCAL_DIRS",
        "SPARK_DIST_CLASSPATH",
        "KRB5CCNAME",
        "KRB5_CONFIG",
    }
)


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


class LocalProcess(Model):
    """A supervisor on a host: what the handle of a local submission refers to.

    Boot id and PID namespace say which host it is; the name is for people. They are empty in a handle that a release
    without them has written.

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
        """Whether this host, since its last boot, and this PID namespace are those of the process."""
        known = bool(self.boot and self.pid_namespace)
        # guard: one-host-name-is-one-host
        return known and (self.boot, self.pid_namespace) == (boot_id(), pid_namespace())

    @classmethod
    def of(cls, handle: Handle) -> LocalProcess:
        """Return what a handle refers to.

        :raises RecordCorruptError: It is not the handle of a local process.
        """
        try:
            return cls.model_validate(handle.ref)
        except ValidationError as error:
            raise RecordCorruptError(f"the handle {handle.ref} is not that of a local process ({error})") from error


def handle_here(process: psutil.Process, driver_log: Path, *, engine: str) -> Handle:
    """Return the handle of a submission whose supervisor is *process* of this host."""
    host = socket.gethostname()
    local = LocalProcess(
        host=host,
        pid=process.pid,
        process_started=process.create_time(),
        boot=boot_id(),
        pid_namespace=pid_namespace(),
        uid=process.uids().real,
    )
    return Handle(engine=engine, ref=local.model_dump(), log_uri=file_uri(host, str(driver_log)))


def host_environment() -> dict[str, str]:
    """Return what a driver needs of this host's environment, and nothing else of it."""
    return {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
