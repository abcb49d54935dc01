"""Names of Airflow on each supported release.

Airflow moves names between ``airflow`` and ``airflow.sdk`` from one minor release to the next, so hooks, operators,
sensors and triggers import them from this folder: ``compat.sdk`` has the names for tasks, hooks and triggers, and this
module knows the installed release. The official providers share ``apache-airflow-providers-common-compat`` for the same
purpose. This package does not depend on it, because the release in the constraints of Airflow 3.0 lacks such a module.

Importing this folder on an unsupported release fails with an explanation. Otherwise the author of a DAG would read of a
name that cannot be imported.
"""

from __future__ import annotations

import re

import airflow

from airflow_provider_ha._version import __version__
from airflow_provider_ha.errors import ConfigurationError


OLDEST = (3, 0)
NEWEST = (3, 3)
RANGE = "3.0 to 3.3"


def require_supported(version: str) -> tuple[int, int, int]:
    """Return the numbers of a supported release; ``3.3.0rc1`` has the same numbers as ``3.3.0``. Pure.

    :raises ConfigurationError: The release is outside the supported range.
    """
    major, minor, patch = map(int, [*re.findall(r"\d+", version), "0", "0", "0"][:3])
    if not OLDEST <= (major, minor) <= NEWEST:
        raise ConfigurationError(
            f"airflow-provider-ha {__version__} runs on Airflow {RANGE}; Airflow {version} is installed",
            next_step=f"Install apache-airflow>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1} in the same "
            "environment",
        )
    return major, minor, patch


AIRFLOW = require_supported(airflow.__version__)

# Plugins with pages: ``fastapi_apps`` with ``external_views``.
AIRFLOW_V_3_1_PLUS: bool = AIRFLOW >= (3, 1)
# Connection form built only from metadata; exceptions in ``airflow.sdk``.
AIRFLOW_V_3_2_PLUS: bool = AIRFLOW >= (3, 2)
# ``BaseTrigger.on_kill``, and shared streams of event triggers.
AIRFLOW_V_3_3_PLUS: bool = AIRFLOW >= (3, 3)
# Connections that an event loop can read and mask without a thread.
READS_CONNECTIONS_IN_LOOP: bool = AIRFLOW >= (3, 3, 2)
