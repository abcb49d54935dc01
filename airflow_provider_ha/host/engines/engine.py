"""Protocol of the engines, which run drivers: as local processes, or on a cluster.

An observation concerns one submission. A submission that an engine does not find is ``UnknownSubmission``, which proves
nothing (design, contract 10). Only ``SubmissionExit``, or an engine that can inspect the place of the submission,
proves that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_graph import Target
from airflow_provider_ha.jobs.runs.submissions import DriverHandle


@dataclass(frozen=True, slots=True)
class PendingSubmission:
    """State of a submission that the engine has accepted without starting a process.

    :param reason: For people: queued, pulling an image.
    :param since: Start of this state; ``None`` if the cluster does not report it.
    :param final: Whether this state does not end by itself: an unknown queue, a missing image. Only then is the
        submission ever overdue.
    """

    reason: str
    since: datetime | None = None
    final: bool = False


@dataclass(frozen=True, slots=True)
class RunningSubmission:
    """State of a submission with a running process.

    :param handle: Locates it later.
    :param doubt: Contradicting report, for people; empty without one.
    :param host: Its host, if another launch may run on another one; empty if not.
    """

    handle: DriverHandle
    doubt: str = ""
    host: str = ""


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
class WantedSubmission:
    """A submission to observe.

    :param handle: Reserved handle, or that of the started driver. ``None`` if the answer to the launch was lost and
        nothing was reserved: the engine then searches for the id.
    """

    submission_id: str
    handle: DriverHandle | None


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """Constant properties of an engine.

    :param launch_seconds: Seconds that a launch may take. A submission without a sign of life by then is given up.
    :param poll_seconds: Pause between two observations of a submission that is about to start.
    :param runs_here: Whether a driver runs on the host that submits it, with its Java, Spark and disk.
    """

    launch_seconds: float
    poll_seconds: float
    runs_here: bool


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """Answer of a place that a target names.

    :param place: For people: ``in '/opt/spark'``, ``of http://host:6066``.
    :param answer: Its state, or the reason for being unusable, for people.
    :param usable: Whether it can run or accept a driver now.
    :param spark: Release of the Spark of its drivers; ``None`` if it is not known here.
    """

    place: str
    answer: str
    usable: bool
    spark: tuple[int, ...] | None = None


class Engine(Protocol):
    """Starter of drivers under their supervisor, which finds them by this package's submission id."""

    @property
    def name(self) -> str:
        """Name in the table of engines, and in the submission's record."""

    @property
    def facts(self) -> EngineFacts:
        """Constant properties."""

    def check_host(self) -> None:
        """Refuse to submit from this host if a driver would end together with the process that submits it.

        :raises ConfigurationError: The driver would end; names an alternative.
        """

    def check(self, target: Target) -> None:
        """Refuse a target that this engine cannot run. Reads no network.

        :raises ConfigurationError: The engine cannot run it; names the part that is wrong.
        """

    def probe(self, target: Target) -> Iterator[EngineCheck]:
        """Ask the places that a target names, one for each step of the iterator.

        :raises ConfigurationError: The target or an option is wrong.
        """

    def reserve(self, ticket: Ticket) -> DriverHandle | None:
        """Return the handle that the launch of a submission will have; ``None`` if only the launch determines it.

        The handle is recorded with the submission before :meth:`launch`, so that a submission whose answer was lost is
        observed by it.

        :raises ConfigurationError: The cluster refuses the submission.
        :raises EngineUnavailableError: The cluster does not answer.
        """

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        """Start a submission that carries its id where :meth:`observe` sees it. Return once the engine has accepted it.

        With a reserved handle, a repeated launch starts no second process.

        :raises ConfigurationError: The submission cannot be started with this target, or on this host.
        :raises EngineUnavailableError: The cluster accepts no driver now; none was started.
        :raises OutcomeUnknownError: The answer to the request was lost, so a driver may start.
        :raises StorageUnavailableError: The work root prevents the start.
        """

    def observe(self, wanted: Sequence[WantedSubmission]) -> Mapping[str, Observation]:
        """Observe submissions, with one request for all of them where the cluster offers that.

        :returns: Submission id -> observation, for each wanted one.
        """

    def terminate(self, handle: DriverHandle) -> None:
        """Request the end of a submission; :meth:`observe` reports it. A submission that is already gone is no error.

        :raises JobStateError: The submission cannot be reached from here; names its place.
        :raises EngineUnavailableError: The cluster does not answer.
        """

    def forget(self, handle: DriverHandle) -> None:
        """Remove the remains of an ended submission outside its home, or with a secret. Idempotent.

        :raises EngineUnavailableError: The cluster does not answer.
        """


def observe_one(engine: Engine, submission_id: str, handle: DriverHandle | None) -> Observation:
    """Observe one submission; as :meth:`Engine.observe`."""
    return engine.observe([WantedSubmission(submission_id, handle)])[submission_id]
