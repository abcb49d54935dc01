"""Parameters of a driver's supervisor, and the private files of a submission.

The spec file is the only way in which secrets (digest auth, S3 keys) reach the driver. Only its owner can read it, and
it appears neither on a command line nor in an environment that the engine may publish. The supervisor reads it before
it starts the driver; the driver reads it last and removes it. Without a driver, the supervisor removes it with the
proof of death, and if the supervisor died, the next submission of the run does.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SessionCredentials
from airflow_provider_ha.errors import ConfigurationError, LogMissingError, RecordCorruptError
from airflow_provider_ha.host.engines.table import DEFAULT_ENGINE
from airflow_provider_ha.jobs.drivers.driver_home import NO_ATTEMPT, DriverHome, PlainFiles, Ticket
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, StateRestore, StateRestores, file_uri
from airflow_provider_ha.records import Model
from airflow_provider_ha.storage.keys import STANDBY


# Variables that a driver needs from its host. The others are not passed on: an Airflow worker's environment holds
# connections, passwords and tokens, and Python workers inherit the driver's environment.
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


def host_environment() -> dict[str, str]:
    """Return the variables of this host's environment that a driver needs."""
    return {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}


SPEC_VARIABLE = "SPARK_HA_DRIVER_SPEC"  # path of the spec file, in the environment of supervisor and driver
# unique id, so that a lost response leads to the process instead of a second submission
SUBMISSION_VARIABLE = "SPARK_HA_SUBMISSION_ID"
ARCHIVE_VARIABLE = "SPARK_HA_CLASS_ARCHIVE"  # ARCHIVE_USED, or why the driver's JVM has no class archive
ARCHIVE_USED = "used"
ARCHIVES = "class-archives-"  # begin of the directory's name, below the drivers' home
NOT_MAPPED = "the JVM has refused the class archive"


def class_archive() -> str:
    """Return ``used``, or why the JVM of this driver has loaded its classes without an archive.

    A JVM that does not accept an archive says nothing and goes on, so what it has mapped decides.
    """
    found = os.environ.get(ARCHIVE_VARIABLE, "")
    if found != ARCHIVE_USED:
        return found
    try:
        maps = Path(f"/proc/{os.getppid()}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:  # no Linux
        return found
    return found if f"/{ARCHIVES}" in maps else NOT_MAPPED


SUPERVISOR_MODULE = "airflow_provider_ha.host.supervisor.main"  # for ``python -m``

OWNER_ONLY = 0o600
_MOST_SECRETS = 1 << 20  # bytes: the driver's script can write the file, and other processes read it


class DriverSpec(Model):
    """A submission as its supervisor and its driver have it on their host.

    :param config: Configuration for access to the cluster; holds secrets.
    :param directory: Directory of its :class:`DriverHome`.
    :param handle: The engine's handle for the supervisor: complete in the supervisor, and before its start as far as
        the engine knows it.
    """

    config: HaConfig
    ticket: Ticket
    directory: Path
    handle: DriverHandle = DriverHandle(engine=DEFAULT_ENGINE)

    @classmethod
    def of(cls, config: HaConfig, ticket: Ticket, *, engine: str) -> DriverSpec:
        """Return the spec of a submission with its home below the work root.

        :param engine: Name of the engine that starts the supervisor.
        """
        directory = DriverHome.of(config, ticket).directory
        return cls(config=config, ticket=ticket, directory=directory, handle=DriverHandle(engine=engine))

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
        """Unique id of the submission."""
        return self.ticket.submission_id

    def of_next(self, attempt: int, submission_id: str) -> DriverSpec:
        """Return the spec of another submission of the same run on this host, under the same supervisor."""
        return self._beside(str(attempt), self.ticket.of_next(attempt, submission_id))

    def of_standby(self, standby_id: str) -> DriverSpec:
        """Return the spec of a standby driver of the same run on this host, under the same supervisor."""
        return self._beside(f"{STANDBY}-{standby_id}", self.ticket.of_next(NO_ATTEMPT, standby_id))

    def promoted(self, attempt: int) -> DriverSpec:
        """Return the spec of the submission that a standby driver has become; its directory stays."""
        return self.model_copy(update={"ticket": self.ticket.of_next(attempt, self.submission_id)})

    def _beside(self, name: str, ticket: Ticket) -> DriverSpec:
        """Return a spec with the same configuration and a directory on the same disk."""
        own, marker = self.directory.name, f"-{STANDBY}-{self.submission_id}"
        prefix = own.removesuffix(marker) if own.endswith(marker) else own.removesuffix(f"-{self.attempt}")
        home = DriverHome(self.directory.with_name(f"{prefix}-{name}"))
        return DriverSpec(
            config=self.config,
            ticket=ticket,
            directory=home.directory,
            handle=self.handle.model_copy(update={"log_uri": file_uri(self.handle.log_host, str(home.driver_log))}),
        )

    def write(self) -> Path:
        """Write the spec to its file, complete or not at all, readable only by its owner. Returns the file."""
        content = self.model_dump(mode="json", exclude={"config"})
        content["config"] = json.loads(self.config.to_private_json())
        write_private(self.home.spec, json.dumps(content).encode())
        return self.home.spec

    def forget(self) -> None:
        """Remove the private file (:meth:`DriverHome.forget_spec`)."""
        self.home.forget_spec()

    def note_running(self) -> None:
        """Create the marker file for a running job. If a disk fault prevents it, the next submission may come later."""
        _note(self.home.running)

    def note_bound(self) -> None:
        """Create the marker file for a current working directory."""
        _note(self.home.bound)

    def note_started(self) -> None:
        """Create the marker file for a started query."""
        _note(self.home.started)

    def note_committed(self) -> None:
        """Create the marker file for a committed batch."""
        _note(self.home.committed)

    def note_state_restores(self, restores: Mapping[str, StateRestore]) -> None:
        """Note how tasks have read the state, for the supervisor's report of the end. A disk fault is ignored."""
        with contextlib.suppress(OSError):
            write_private(self.home.state_restores, StateRestores(queries=dict(restores)).model_dump_json().encode())

    @classmethod
    def read(cls, path: Path) -> DriverSpec:
        """Read a spec.

        :raises ConfigurationError: The file is missing or unreadable.
        :raises RecordCorruptError: The file is damaged. The message never has the content, which is secret.
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
    """Create a marker once: its time is that of the event."""
    with contextlib.suppress(OSError):
        if not path.exists():
            write_private(path, b"")


def write_session(path: Path, credentials: SessionCredentials) -> None:
    """Write the credentials of the driver's ZooKeeper session for its supervisor."""
    content = {"session_id": f"{credentials.session_id:x}", "password": credentials.password.hex()}
    write_private(path, json.dumps(content).encode())


def read_session(path: Path) -> SessionCredentials | None:
    """Return the credentials that :func:`write_session` wrote; ``None`` if they are missing or damaged."""
    try:
        content = json.loads(path.read_bytes())
        return SessionCredentials(int(content["session_id"], 16), bytes.fromhex(content["password"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_secrets(path: Path, secrets: Iterable[str]) -> None:
    """Write secrets for the readers of the log, which redact them. A disk fault is ignored."""
    with contextlib.suppress(OSError):
        write_private(path, json.dumps(sorted(secrets)).encode())


def read_secrets(path: Path, *, root: Path | None = None) -> set[str]:
    """Return the secrets that :func:`write_secrets` wrote; empty if they are missing or damaged.

    :param root: Ancestor directory below which links are not followed; by default the parent directory.
    """
    try:
        with PlainFiles(path.parent, path.parent if root is None else root).opened(path.name) as file:
            return {str(secret) for secret in json.loads(file.read(_MOST_SECRETS))}
    except (OSError, ValueError, TypeError, RecursionError, LogMissingError):
        return set()


def write_private(path: Path, data: bytes) -> None:
    """Write *data* to *path*, complete or not at all, in a file that only its owner can read from the first byte on."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    aside.unlink(missing_ok=True)
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
