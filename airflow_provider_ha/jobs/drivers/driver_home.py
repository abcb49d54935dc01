"""Directory of a submission on the host of its driver: files, ticket, and safe reads.

Where the work root is shared, other hosts read it: a link would show a file of such a host to who may see
the driver's log. A pipe would hold up its reader without limit.

Invariant: no symbolic link below the root is followed, none in the place of a directory either, and opening never
blocks. What leads to the root is the choice of its administrator.
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
from enum import Enum
from pathlib import Path
from typing import BinaryIO

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import LogMissingError
from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.records import Model
from airflow_provider_ha.storage.keys import JobKeys


# How a cluster manager hands a submission to the supervisor that it starts (``supervisor.arrival``).
HOME_OPTION = "--home"
TICKET_VARIABLE = "SPARK_HA_TICKET"
HANDLE_VARIABLE = (
    "SPARK_HA_HANDLE"  # how the engine finds the supervisor again, as far as it is known before the launch
)
CONFIG_FILE_VARIABLE = "SPARK_HA_CONFIG_FILE"  # path of a private file on the machine


class ConfigSource(str, Enum):
    """Where the machine that runs a submission finds how to reach the cluster. A ticket never holds that: it is secret.

    ``HOME``: in the private file that the engine has left in the submission's home (``jobs.host.driver_spec``).
    ``ENVIRONMENT``: in one variable of the supervisor, which the cluster manager sets from its secrets
    (``supervisor.arrival``).
    ``MACHINE``: with the machine, in a private file or in the environment of its services
    (``supervisor.machine_config``).
    """

    HOME = "home"
    ENVIRONMENT = "environment"
    MACHINE = "machine"


class Ticket(Model):
    """One submission, as an engine hands it to a machine: no path, no interpreter, no secret.

    :param submission_id: Our own id of the submission.
    :param graph: Blob of the job graph, which names everything else.
    :param config: Where the machine finds how to reach the cluster.
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


_ENTER = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY  # needs no permission to list it
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
    """The regular files of one directory. Every answer is of the moment.

    :param directory: Where they lie.
    :param root: The same directory or one above it, below which no link is followed.
    """

    directory: Path
    root: Path

    def found(self, pattern: re.Pattern[str]) -> dict[str, os.stat_result]:
        """Return the files whose names match.

        :raises OSError: The directory cannot be read.
        :raises LogMissingError: It is not reached without a link.
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
                except FileNotFoundError:  # it has just got another name
                    continue
                if stat.S_ISREG(status.st_mode):
                    there[name] = status
            return there

    def size(self, name: str) -> int:
        """Return the bytes of a file; raises as :meth:`opened` does."""
        with self.opened(name) as file:
            return os.fstat(file.fileno()).st_size

    @contextmanager
    def opened(self, name: str) -> Iterator[BinaryIO]:
        """Open a file for as long as the block runs.

        :raises OSError: It is not there, or cannot be read.
        :raises LogMissingError: It is no regular file, or not reached without a link; says what it is.
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
        """Open the directory, one step after the other: a link that comes in between is not followed either."""
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
        f"{path} is {kind}. It is not read, because what the driver runs may have put it there",
        next_step="Look at it on its host. A link may lead to the work root, and none may lie below it",
    )


SPEC_FILE = "driver.json"
LOG_FILE = "driver.log"
SECRETS_FILE = "script.secrets"


@dataclass(frozen=True, slots=True)
class DriverHome:
    """Paths of one submission. Only its own host has them.

    :param directory: The submission's own directory, absolute.
    """

    directory: Path

    @classmethod
    def of(cls, config: HaConfig, ticket: Ticket) -> DriverHome:
        """Return the home of a submission below the work root."""
        return cls(config.home_path / JobKeys(ticket.job_id).application(ticket.run, ticket.attempt))

    @property
    def spec(self) -> Path:
        """The private file with ticket and configuration (``jobs.host.driver_spec``)."""
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
    def started(self) -> Path:
        """An empty file that the driver leaves once the script has started a query."""
        return self.directory / "started"

    @property
    def committed(self) -> Path:
        """An empty file that the driver leaves once a query has committed a batch after its start."""
        return self.directory / "committed"

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

    def forget_spec(self) -> None:
        """Remove the private file: it holds secrets, and its readers have read it. A disk that fails keeps it."""
        with contextlib.suppress(OSError):
            self.spec.unlink(missing_ok=True)
