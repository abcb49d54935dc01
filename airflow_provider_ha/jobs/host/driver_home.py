"""The directory of one submission on the host of its driver: every file that supervisor and driver share."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.host.ticket import Ticket
from airflow_provider_ha.storage.keys import JobKeys


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
