"""The seam to what runs drivers: a local process today, a cluster manager later.

An engine that does not find a submission has proven nothing (design, contract 10): only ``SubmissionExit``, or an
engine that can look at the very host, says that a submission is dead.
"""

from __future__ import annotations

from typing import Protocol

from airflow_provider_ha.jobs.driver_spec import DriverSpec
from airflow_provider_ha.jobs.model import SubmissionStarted


class Engine(Protocol):
    """Starts drivers under their supervisor, and finds them again by our own submission id."""

    @property
    def name(self) -> str:
        """Name in the submission's record: ``"local"``."""

    @property
    def launch_seconds(self) -> float:
        """How long a launch may take. A submission that is not started after it was given up by who made it."""

    def launch(self, spec: DriverSpec) -> SubmissionStarted:
        """Start a submission that carries its id where :meth:`find` sees it. Returns once its process is up.

        :param spec: What the supervisor is told. The job's own environment it reads from the graph.
        :raises ConfigurationError: It cannot be started on this host.
        """

    def find(self, submission_id: str) -> SubmissionStarted | None:
        """Return the submission when it is found running; ``None`` proves nothing."""

    def is_gone(self, submission_id: str, started: SubmissionStarted) -> bool:
        """Whether every process of a started submission is proven to be gone; ``False`` when that cannot be known."""
