"""What a driver's supervisor is told, and where both of them put their files.

The file is the only way in which secrets (digest auth, S3 keys) reach the driver: readable by its owner alone, never on
a command line, never in an environment that the engine may publish. It is removed once it is read: the supervisor reads
it before it starts the driver, the driver reads it last and removes it. Where no driver came that far the supervisor
removes it with the proof of death, and where that died the next submission of the run does.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SessionCredentials
from airflow_provider_ha.errors import ConfigurationError, RecordCorruptError
from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.records import Model
from airflow_provider_ha.storage.keys import JobKeys


SPEC_VARIABLE = "SPARK_HA_DRIVER_SPEC"  # path of the spec file, in the environment of supervisor and driver
SUBMISSION_VARIABLE = "SPARK_HA_SUBMISSION_ID"  # our own id, so that a lost answer is found instead of resubmitted

SUPERVISOR_MODULE = "airflow_provider_ha.driver.supervisor"  # its program: ``python -m``

PYTHON_OPTION = "python"  # engine option: interpreter of the driver and of its Python workers
SPARK_HOME_OPTION = "spark_home"  # engine option: directory with ``bin/spark-submit``

SPEC_FILE = "driver.json"
LOG_FILE = "driver.log"
SECRETS_FILE = "script.secrets"
OWNER_ONLY = 0o600


class DriverSpec(Model):
    """One submission of one run, as the supervisor and the driver need it.

    :param config: How to reach the cluster.
    :param submission_id: Our own id of the submission.
    :param directory: The submission's own directory, absolute.
    :param graph: Blob of the job graph.
    :param python: Interpreter of the driver.
    :param spark_home: Where ``bin/spark-submit`` is; ``None`` for the one of the installed pyspark.
    """

    config: HaConfig
    job_id: str
    run: int
    attempt: int
    submission_id: str
    directory: Path
    graph: Blob
    python: str
    spark_home: str | None = None

    @property
    def path(self) -> Path:
        """The spec's own file."""
        return self.directory / SPEC_FILE

    @property
    def application_directory(self) -> Path:
        """Where the supervisor puts the application's files (``artifacts.fetch_application``)."""
        return self.directory / "app"

    @property
    def properties(self) -> Path:
        """Spark's properties file: conf never appears on a command line."""
        return self.directory / "spark.properties"

    @property
    def session(self) -> Path:
        """Where the driver leaves its ZooKeeper session, so that the supervisor can end it once the driver is dead."""
        return self.directory / "session"

    @property
    def driver_pid(self) -> Path:
        """Where the driver's Python leaves its process id.

        It removes the file again at an orderly end, when nothing of the job writes any more. While the file is there,
        the end of that process makes the supervisor kill everything at once.
        """
        return self.directory / "driver.pid"

    @property
    def driver_log(self) -> Path:
        """Everything that spark-submit, the JVM and the driver print."""
        return self.directory / LOG_FILE

    @property
    def running(self) -> Path:
        """An empty file that the driver leaves once its job is RUNNING: its loss is then no sign of a crash loop."""
        return self.directory / "running"

    @property
    def script_secrets(self) -> Path:
        """Secrets of the conf that the script made by itself, to be hidden from the log where it is shown.

        As private as the log, which holds them when the script prints them, and as long there.
        """
        return self.directory / SECRETS_FILE

    @property
    def supervisor_log(self) -> Path:
        """What the supervisor prints."""
        return self.directory / "supervisor.log"

    def of_next(self, attempt: int, submission_id: str) -> DriverSpec:
        """Return the spec of another submission of the same run on this host."""
        directory = self.config.work_path / JobKeys(self.job_id).application(self.run, attempt)
        return self.model_copy(
            update={"attempt": attempt, "submission_id": submission_id, "directory": directory},
        )

    def write(self) -> Path:
        """Write the spec to its file, complete or not at all, readable by its owner only. Returns the file."""
        content = self.model_dump(mode="json", exclude={"config"})
        content["config"] = json.loads(self.config.to_private_json())
        write_private(self.path, json.dumps(content).encode())
        return self.path

    def forget(self) -> None:
        """Remove the file: it holds secrets, and both of its readers have read it. A disk that fails keeps it."""
        with contextlib.suppress(OSError):
            self.path.unlink(missing_ok=True)

    def note_running(self) -> None:
        """Leave the file that says so. Without it, on a disk that fails, the next submission may come later."""
        with contextlib.suppress(OSError):
            write_private(self.running, b"")

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
    """Leave secrets for who shows the log. A disk that fails is no reason to end otherwise."""
    with contextlib.suppress(OSError):
        write_private(path, json.dumps(sorted(secrets)).encode())


def read_secrets(path: Path) -> set[str]:
    """Return what :func:`write_secrets` left; nothing when there is nothing that can be used."""
    try:
        return {str(secret) for secret in json.loads(path.read_bytes())}
    except (OSError, ValueError, TypeError):
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
