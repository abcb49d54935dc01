"""What a supervisor is launched with, on whichever machine it runs."""

from __future__ import annotations

from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.records import Model


class Ticket(Model):
    """One submission, as an engine hands it to a machine: no path, no interpreter, no secret.

    :param submission_id: Our own id of the submission.
    :param graph: Blob of the job graph, which names everything else.
    """

    job_id: str
    run: int
    attempt: int
    submission_id: str
    graph: Blob

    def of_next(self, attempt: int, submission_id: str) -> Ticket:
        """Return the ticket of another submission of the same run."""
        return self.model_copy(update={"attempt": attempt, "submission_id": submission_id})
