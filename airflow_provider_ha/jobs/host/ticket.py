"""What a supervisor is launched with, on whichever machine it runs."""

from __future__ import annotations

from enum import Enum

from airflow_provider_ha.jobs.model import Blob
from airflow_provider_ha.records import Model


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
