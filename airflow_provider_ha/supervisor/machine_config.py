"""A machine's access to ZooKeeper and storage: set up once per machine, by its operator.

A cluster manager shows the programs that it runs: to its users on a page, and to users of the machine on command lines.
So secrets do not travel with a submission. They are on the machine, in a file that only the user of its workers can
read, or in the environment of its workers.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from airflow_provider_ha.config import VARIABLES, HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.host.ticket import CONFIG_FILE_VARIABLE


def _next_step(file: str, error: ConfigurationError) -> str:
    if not file:
        return (
            "Give every worker a private file and name it in the engine option 'config_file', or set the variables "
            "SPARK_HA_* of the workers"
        )
    return error.next_step or (
        f"Write {file} on this worker, for the user of the worker (uid {os.getuid()}) and with mode 600, or correct "
        "the engine option 'config_file'"
    )


def config_of_machine() -> HaConfig:
    """Return this machine's access to the cluster, and remove it from the environment, which the driver inherits.

    :raises ConfigurationError: Neither file nor variables contain it, or their content is unusable.
    """
    file = os.environ.pop(CONFIG_FILE_VARIABLE, "")
    try:
        return HaConfig.from_file(Path(file)) if file else HaConfig.from_env()
    except ConfigurationError as error:
        raise ConfigurationError(
            f"worker {socket.gethostname()} has no access to the cluster configured: {error.message}",
            next_step=_next_step(file, error),
        ) from error
    finally:
        for name in VARIABLES:
            os.environ.pop(name, None)
