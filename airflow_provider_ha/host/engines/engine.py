"""Interface to engines, which run drivers: as local processes, or on a cluster.

An observation concerns one submission. A submission that an engine does not find is ``UnknownSubmission``, which proves
nothing (design, contract 10). Only ``SubmissionExit``, or an engine that can inspect the place of the submission,
proves that it is gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.runs.submissions import DriverHandle


@dataclass(frozen=True, slots=True)
class PendingSubmission:
    """State of a submission that the engine has accepted without starting a process. Never overdue in this state.

    :param reason: For people: queued, pulling an image.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class RunningSubmission:
    """State of a submission with a running process.

    :param handle: Locates it later.
    """

    handle: DriverHandle


@dataclass(frozen=True, slots=True)
class GoneSubmission:
    """State of a submission whose processes that could write for the job are all gone.

    :param proof: Evidence, for people.
    """

    proof: str


@dataclass(frozen=True, slots=True)
class UnknownSubmission:
    """State of a submission that the engine cannot determine.

    :param reason: Cause, for people.
    """

    reason: str


Observation = PendingSubmission | RunningSubmission | GoneSubmission | UnknownSubmission


@dataclass(frozen=True, slots=True)
class SparkOfTarget:
    """Spark that runs a target's drivers, as far as it is known where the job is submitted.

    :param where: For people: ``in '/opt/spark'``, ``of spark://host:7077``.
    :param release: Numbers of the release; ``None`` if they are not known here.
    """

    where: str
    release: tuple[int, ...] | None


class Engine(Protocol):
    """Starter of drivers under their supervisor, which finds them by this package's submission id."""

    @property
    def name(self) -> str:
        """Name in the submission's record: ``"local"``."""

    @property
    def launch_seconds(self) -> float:
        """Seconds that a launch may take. A submission without a sign of life by then is given up."""

    @property
    def runs_here(self) -> bool:
        """Return whether a driver runs on the host that submits it, with its Java, Spark and disk."""

    def check_host(self) -> None:
        """Refuse to submit from this host if a driver would end together with the process that submits it.

        :raises ConfigurationError: The driver would end; names an alternative.
        """

    def host_warnings(self) -> tuple[str, ...]:
        """Return the events that may end a driver submitted from this host, one sentence each."""

    def spark_of(self, target: Target) -> SparkOfTarget:
        """Return the Spark that would run the drivers of a target.

        :raises ConfigurationError: The target or an option is wrong.
        """

    def check(self, target: Target) -> None:
        """Refuse a target that this engine cannot run.

        :raises ConfigurationError: The engine cannot run it; names the part that is wrong.
        """

    def launch(self, ticket: Ticket) -> DriverHandle:
        """Start a submission that carries its id where :meth:`observe` sees it. Return once the engine has accepted it.

        :raises ConfigurationError: The submission cannot be started on this host.
        :raises StorageUnavailableError: An outage prevents the start.
        """

    def observe(self, submission_id: str, handle: DriverHandle | None) -> Observation:
        """Observe one submission.

        :param handle: ``None`` if the answer to its launch was lost: the engine then searches for its id.
        """

    def terminate(self, handle: DriverHandle) -> None:
        """Request the end of a submission; :meth:`observe` reports it. A submission that is already gone is no error.

        :raises JobStateError: The submission cannot be reached from here; names its place.
        """
