"""What a supervisor starts from: a private file that an engine left on this host, or a ticket from another machine.

``supervisor.main SPEC_FILE``: the engine writes to this host's disk, and has left ticket and configuration there.
``supervisor.main --home DIRECTORY``: the ticket is in the environment, and says where the configuration is found. The
supervisor makes the home on its own disk and leaves the private file there, which the driver reads and removes.

Invariant: the driver and its Python workers inherit the environment of the supervisor. So neither the ticket nor the
configuration stays in it: they are removed before anything is started.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.driver_spec import DriverSpec
from airflow_provider_ha.jobs.ticket import ConfigSource, Ticket
from airflow_provider_ha.storage.durable import make_directories
from airflow_provider_ha.storage.outage import outages


HOME_OPTION = "--home"
TICKET_VARIABLE = "SPARK_HA_TICKET"
CONFIG_VARIABLE = "SPARK_HA_CONFIG"  # JSON of ``HaConfig.to_private_json``: a cluster manager sets it from a secret

Value = TypeVar("Value", bound=BaseModel)


def arrived(arguments: Sequence[str]) -> DriverSpec:
    """Return the submission that this process supervises.

    :param arguments: Of the program: a spec file, or ``--home`` and the directory of the submission on this disk.
    :raises ConfigurationError: Ticket or configuration is not there, or cannot be used; names the variable.
    :raises RecordCorruptError: The spec file is not what was written.
    :raises StorageUnavailableError: The home cannot be written.
    """
    if arguments[0] != HOME_OPTION:
        return DriverSpec.read(Path(arguments[0]))
    ticket = _taken(TICKET_VARIABLE, Ticket)
    if ticket.config is not ConfigSource.ENVIRONMENT:  # guard: configuration-elsewhere-is-refused
        raise ConfigurationError(
            f"the ticket finds its configuration in {ticket.config.value!r}, and its engine has left none there",
            next_step=f"An engine that starts a supervisor with {HOME_OPTION} uses {ConfigSource.ENVIRONMENT.value!r}",
        )
    spec = DriverSpec(config=_taken(CONFIG_VARIABLE, HaConfig), ticket=ticket, directory=Path(arguments[1]))
    with outages("made", spec.home.directory):
        make_directories(spec.home.directory)
        spec.write()
    return spec


def _taken(variable: str, kind: type[Value]) -> Value:
    """Return what a variable holds, and remove it from the environment. No message holds the content: it is secret."""
    try:
        # guard: secrets-leave-the-environment
        return kind.model_validate_json(os.environ.pop(variable, ""))
    except ValidationError:
        # guard: refused-variable-shows-no-content
        raise ConfigurationError(
            f"the variable {variable} of the supervisor does not hold what is expected ({kind.__name__})",
            next_step="Submit and run drivers with the same release of airflow-provider-ha",
        ) from None
