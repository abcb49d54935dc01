"""Parameters of a driver's supervisor, and the identity of its host and process.

The file is the only way in which secrets (digest auth, S3 keys) reach the driver: readable by its owner alone, never on
a command line, never in an environment that the engine may publish. It is removed once it is read: the supervisor reads
it before it starts the driver, the driver reads it last and removes it. Where no driver came that far the supervisor
removes it with the proof of death, and where that died the next submission of the run does.

Two containers with the network of their host share its name and not its processes; so do a host and its clone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Iterable
from pathlib import Path

import psutil
from pydantic import ValidationError

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SessionCredentials
from airflow_provider_ha.errors import ConfigurationError, LogMissingError, RecordCorruptError
from airflow_provider_ha.jobs.drivers.driver_home import DriverHome, PlainFiles, Ticket
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, file_uri
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
    def of(cls, handle: DriverHandle) -> LocalProcess:
        """Return what a handle refers to.

        :raises RecordCorruptError: It is not the handle of a local process.
        """
        try:
            return cls.model_validate(handle.ref)
        except ValidationError as error:
            raise RecordCorruptError(f"the handle {handle.ref} is not that of a local process ({error})") from error


def handle_here(process: psutil.Process, driver_log: Path, *, engine: str) -> DriverHandle:
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
    return DriverHandle(engine=engine, ref=local.model_dump(), log_uri=file_uri(host, str(driver_log)))


def host_environment() -> dict[str, str]:
    """Return what a driver needs of this host's environment, and nothing else of it."""
    return {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}


SPEC_VARIABLE = "SPARK_HA_DRIVER_SPEC"  # path of the spec file, in the environment of supervisor and driver
SUBMISSION_VARIABLE = "SPARK_HA_SUBMISSION_ID"  # our own id, so that a lost answer is found instead of resubmitted

SUPERVISOR_MODULE = "airflow_provider_ha.host.supervisor.main"  # its program: ``python -m``

OWNER_ONLY = 0o600
_MOST_SECRETS = 1 << 20  # bytes: the driver's script can write the file, and others read it


class DriverSpec(Model):
    """One submission of one run, as its supervisor and its driver have it on their host.

    :param config: How to reach the cluster; holds secrets.
    :param directory: Directory of its :class:`DriverHome`.
    :param handle: How its engine finds the supervisor; ``None`` for a process of the submitting host.
    """

    config: HaConfig
    ticket: Ticket
    directory: Path
    handle: DriverHandle | None = None

    @classmethod
    def of(cls, config: HaConfig, ticket: Ticket) -> DriverSpec:
        """Return the spec of a submission whose home lies below the work root."""
        return cls(config=config, ticket=ticket, directory=DriverHome.of(config, ticket).directory)

    @property
    def home(self) -> DriverHome:
        """The submission's files on this host."""
        return DriverHome(self.directory)

    @property
    def job_id(self) -> str:
        """The job."""
        return self.ticket.job_id

    @property
    def run(self) -> int:
        """Number of the run."""
        return self.ticket.run

    @property
    def attempt(self) -> int:
        """Number of the submission in its run."""
        return self.ticket.attempt

    @property
    def submission_id(self) -> str:
        """Our own id of the submission."""
        return self.ticket.submission_id

    def of_next(self, attempt: int, submission_id: str) -> DriverSpec:
        """Return the spec of another submission of the same run on this host, under the same supervisor."""
        ticket = self.ticket.of_next(attempt, submission_id)
        if self.handle is None:
            return DriverSpec.of(self.config, ticket)
        home = DriverHome(self.directory.with_name(f"attempt-{attempt}"))  # beside this one, on the same disk
        handle = self.handle.model_copy(update={"log_uri": file_uri(self.handle.log_host, str(home.driver_log))})
        return DriverSpec(config=self.config, ticket=ticket, directory=home.directory, handle=handle)

    def write(self) -> Path:
        """Write the spec to its file, complete or not at all, readable by its owner only. Returns the file."""
        content = self.model_dump(mode="json", exclude={"config"})
        content["config"] = json.loads(self.config.to_private_json())
        write_private(self.home.spec, json.dumps(content).encode())
        return self.home.spec

    def forget(self) -> None:
        """Remove the private file (:meth:`DriverHome.forget_spec`)."""
        self.home.forget_spec()

    def note_running(self) -> None:
        """Leave the file that says so. Without it, on a disk that fails, the next submission may come later."""
        _note(self.home.running)

    def note_started(self) -> None:
        """Leave the file that says so."""
        _note(self.home.started)

    def note_committed(self) -> None:
        """Leave the file that says so."""
        _note(self.home.committed)

    @classmethod
    def read(cls, path: Path) -> DriverSpec:
        """Read a spec.

        :raises ConfigurationError: The file is not there.
        :raises RecordCorruptError: It is not what was written. The message never holds the content: it is secret.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ConfigurationError(
                f"the driver's spec file {str(path)!r} cannot be read ({error.strerror})"
            ) from error
        except ValidationError:
            raise RecordCorruptError(f"{path} does not hold a driver spec") from None


def _note(path: Path) -> None:
    with contextlib.suppress(OSError):
        write_private(path, b"")


def write_session(path: Path, credentials: SessionCredentials) -> None:
    """Leave the credentials of the driver's ZooKeeper session for its supervisor."""
    content = {"session_id": f"{credentials.session_id:x}", "password": credentials.password.hex()}
    write_private(path, json.dumps(content).encode())


def read_session(path: Path) -> SessionCredentials | None:
    """Return what :func:`write_session` left, or ``None`` when there is nothing that can be used."""
    try:
        content = json.loads(path.read_bytes())
        return SessionCredentials(int(content["session_id"], 16), bytes.fromhex(content["password"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_secrets(path: Path, secrets: Iterable[str]) -> None:
    """Leave secrets for the readers of the log, which redact them. A disk that fails does not change the ending."""
    with contextlib.suppress(OSError):
        write_private(path, json.dumps(sorted(secrets)).encode())


def read_secrets(path: Path, *, root: Path | None = None) -> set[str]:
    """Return what :func:`write_secrets` left; nothing when there is nothing that can be used.

    :param root: Directory above it below which no link is followed; left out: its own.
    """
    try:
        with PlainFiles(path.parent, path.parent if root is None else root).opened(path.name) as file:
            return {str(secret) for secret in json.loads(file.read(_MOST_SECRETS))}
    except (OSError, ValueError, TypeError, RecursionError, LogMissingError):
        return set()


def write_private(path: Path, data: bytes) -> None:
    """Write *data* to *path*, complete or not at all, in a file that only its owner can read from its first byte on."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
