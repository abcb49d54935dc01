"""Directory of a submission on the host of its driver: files, ticket, and safe reads.

If the work root is shared, other hosts read the directory. A link could then show a file of the reading host to a user
who may only see the driver's log, and a pipe could block its reader without limit.

Invariant: symbolic links below the root are not followed, neither for files nor for directories, and opening never
blocks. The path to the root is the administrator's choice.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import LogMissingError
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.runs.submissions import StartTimes, StateRestore, StateRestores, Submission
from airflow_provider_ha.records import Model
from airflow_provider_ha.storage.keys import JobKeys


# Names with which a cluster manager passes a submission to its supervisor (``host.supervisor.arrival``).
HOME_OPTION = "--home"
TICKET_VARIABLE = "SPARK_HA_TICKET"
HANDLE_VARIABLE = "SPARK_HA_HANDLE"  # the engine's handle for the supervisor, as far as known before the launch
CONFIG_FILE_VARIABLE = "SPARK_HA_CONFIG_FILE"  # path of a private file on the machine


NO_ATTEMPT = 0


class ConfigSource(str, Enum):
    """Source of a machine's configuration for access to the cluster. A ticket never holds it, because it is secret.

    ``HOME``: the private file that the engine has written to the submission's home (``jobs.drivers.driver_spec``).
    ``ENVIRONMENT``: a variable of the supervisor, which the cluster manager sets from its secrets
    (``host.supervisor.arrival``). ``MACHINE``: the machine's own private file, or the environment of its services
    (``host.supervisor.arrival``).
    """

    HOME = "home"
    ENVIRONMENT = "environment"
    MACHINE = "machine"


class Ticket(Model):
    """A submission as passed by an engine to a machine, without paths, interpreters or secrets.

    :param attempt: Number of the submission in its run; 0 for a standby driver, which is none yet.
    :param submission_id: Unique id of the submission, or of the standby driver, which keeps it.
    :param graph: Blob of the job graph, which names all other inputs.
    :param config: Source of the machine's configuration.
    """

    job_id: str
    run: int
    attempt: int
    submission_id: str
    graph: Blob
    config: ConfigSource = ConfigSource.HOME

    def of_next(self, attempt: int, submission_id: str) -> Ticket:
        """Return the ticket of another submission of the same run."""
        return self.model_copy(update={"attempt": attempt, "submission_id": submission_id})

    @property
    def is_standby(self) -> bool:
        """Whether the driver waits for the loss of the job's leader."""
        return self.attempt == NO_ATTEMPT


_ENTER = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY  # needs no permission to list the directory
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_OTHERS = {errno.ELOOP, errno.ENOTDIR, errno.ENXIO}  # a link, no directory, a socket
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFDIR: "a directory",
    stat.S_IFREG: "a file",
}


@dataclass(frozen=True, slots=True)
class PlainFiles:
    """The regular files of a directory. Every result is of the moment.

    :param directory: The directory.
    :param root: The same directory or an ancestor, below which links are not followed.
    """

    directory: Path
    root: Path

    def found(self, pattern: re.Pattern[str]) -> dict[str, os.stat_result]:
        """Return the files whose names match.

        :raises OSError: The directory cannot be read.
        :raises LogMissingError: A link leads to the directory.
        """
        with self._entered() as at:
            listed = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=at)
            try:
                with os.scandir(listed) as entries:
                    names = [entry.name for entry in entries if pattern.fullmatch(entry.name)]
            finally:
                os.close(listed)
            there = {}
            for name in names:
                try:
                    status = os.lstat(name, dir_fd=at)
                except FileNotFoundError:  # just renamed
                    continue
                if stat.S_ISREG(status.st_mode):
                    there[name] = status
            return there

    def size(self, name: str) -> int:
        """Return the size of a file in bytes; raises as :meth:`opened`."""
        with self.opened(name) as file:
            return os.fstat(file.fileno()).st_size

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for the duration of the block.

        :raises OSError: The file is missing or unreadable.
        :raises LogMissingError: It is no regular file, or a link leads to it; the message has its type.
        """
        with self._entered() as at:
            descriptor = _open(name, _READ, at, self.directory / name)
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            os.close(descriptor)
            raise _refusal(self.directory / name, mode)
        with os.fdopen(descriptor, "rb") as file:
            yield file

    @contextmanager
    def _entered(self) -> Iterator[int]:
        """Open the directory step by step, so that a link created in between is not followed either."""
        at, path = os.open(self.root, _ENTER), self.root
        try:
            for name in self.directory.relative_to(self.root).parts:
                path /= name
                below = _open(name, _ENTER | os.O_NOFOLLOW, at, path)
                os.close(at)
                at = below
            yield at
        finally:
            os.close(at)


def _open(name: str, flags: int, at: int, path: Path) -> int:
    try:
        return os.open(name, flags, dir_fd=at)
    except OSError as error:
        if error.errno in _OTHERS:
            raise _refusal(path, os.lstat(name, dir_fd=at).st_mode) from None
        raise


def _refusal(path: Path, mode: int) -> LogMissingError:
    kind = _KINDS.get(stat.S_IFMT(mode), "a device")
    return LogMissingError(
        f"{path} is {kind}. It is not read, because the application may have created it",
        next_step="Check it on its host. A link may lead to the work root, but links below it are not followed",
    )


def submission_directory(keys: JobKeys, run: int, submission: Submission) -> str:
    """Return the key of a submission's directory; that of a promoted standby driver has the name of its id."""
    if submission.standby:
        return keys.standby(run, submission.submission_id)
    return keys.application(run, submission.attempt)


SPEC_FILE = "driver.json"
LOG_FILE = "driver.log"
SECRETS_FILE = "script.secrets"


@dataclass(frozen=True, slots=True)
class DriverHome:
    """Paths of a submission, which only its own host has.

    :param directory: The submission's own directory, absolute.
    """

    directory: Path

    @classmethod
    def of(cls, config: HaConfig, ticket: Ticket) -> DriverHome:
        """Return the home of a submission, or of a standby driver, below the work root."""
        keys = JobKeys(ticket.job_id)
        if ticket.is_standby:
            return cls(config.home_path / keys.standby(ticket.run, ticket.submission_id))
        return cls(config.home_path / keys.application(ticket.run, ticket.attempt))

    @property
    def spec(self) -> Path:
        """The private file with ticket and configuration (``jobs.drivers.driver_spec``)."""
        return self.directory / SPEC_FILE

    @property
    def application_directory(self) -> Path:
        """Directory of the application's files, filled by the supervisor (``jobs.application.artifacts``)."""
        return self.directory / "app"

    @property
    def properties(self) -> Path:
        """Spark's properties file: conf never appears on a command line. Written immediately before the launch."""
        return self.directory / "spark.properties"

    @property
    def session(self) -> Path:
        """File with the driver's ZooKeeper session, so that the supervisor can end it after the driver's death."""
        return self.directory / "session"

    @property
    def driver_pid(self) -> Path:
        """File with the process id of the driver's Python process.

        The driver removes the file at an orderly end, after the job's last write. While the file exists, the end of
        that process makes the supervisor kill all others immediately.
        """
        return self.directory / "driver.pid"

    @property
    def driver_log(self) -> Path:
        """Output of spark-submit, the JVM and the driver."""
        return self.directory / LOG_FILE

    @property
    def running(self) -> Path:
        """Empty file that the driver creates once its job is RUNNING: its loss is then no sign of a crash loop."""
        return self.directory / "running"

    @property
    def bound(self) -> Path:
        """Empty file that the driver creates once its working directory is current."""
        return self.directory / "bound"

    @property
    def started(self) -> Path:
        """Empty file that the driver creates once the script has started a query."""
        return self.directory / "started"

    @property
    def committed(self) -> Path:
        """Empty file that the driver creates once a query has committed a batch after its start."""
        return self.directory / "committed"

    @property
    def script_secrets(self) -> Path:
        """Secrets of a conf made by the script, to be redacted in the displayed log.

        As private as the log, which holds them if the script prints them, and kept as long.
        """
        return self.directory / SECRETS_FILE

    @property
    def supervisor_log(self) -> Path:
        """Output of the supervisor."""
        return self.directory / "supervisor.log"

    def start_times(self) -> StartTimes:
        """Return when the driver completed the phases of its start, by the times of its files."""
        return StartTimes(
            launched_at=_written_at(self.properties),
            bound_at=_written_at(self.bound),
            started_at=_written_at(self.started),
            committed_at=_written_at(self.committed),
        )

    @property
    def state_restores(self) -> Path:
        """File in which the driver notes how tasks have read the state of its queries."""
        return self.directory / "state-restores.json"

    def read_state_restores(self) -> dict[str, StateRestore]:
        """Return its content; empty for a driver without ``local_recovery``, or a damaged file."""
        try:
            return StateRestores.model_validate_json(self.state_restores.read_bytes()).queries
        except (OSError, ValidationError):
            return {}

    def forget_spec(self) -> None:
        """Remove the private file, whose readers have read it, because it holds secrets. A disk fault is ignored."""
        with contextlib.suppress(OSError):
            self.spec.unlink(missing_ok=True)


def _written_at(path: Path) -> datetime | None:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, timezone.utc)
    except OSError:
        return None
