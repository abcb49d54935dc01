"""Names of Airflow on each supported release.

Airflow moves names between ``airflow`` and ``airflow.sdk`` from one minor release to the next. So hooks, operators,
sensors and triggers take them from here: ``compat.sdk`` has what tasks and hooks need, ``compat.triggers`` what
triggers need, and this module says which release runs. The official providers share
``apache-airflow-providers-common-compat`` for that. It is no dependency of this package: the release of it that
Airflow's own constraints install beside 3.0 has no such module yet.

Importing any part of this folder refuses a release outside the range with a sentence. Without it, the author of a DAG
reads of a name that could not be imported.
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
    """Return the numbers of a supported release; ``3.3.0rc1`` has those of ``3.3.0``. Pure.

    :raises ConfigurationError: It is older or newer than what is supported.
    """
    major, minor, patch = map(int, [*re.findall(r"\d+", version), "0", "0", "0"][:3])
    if not OLDEST <= (major, minor) <= NEWEST:
        raise ConfigurationError(
            f"airflow-provider-ha {__version__} runs on Airflow {RANGE}; Airflow {version} is installed",
            next_step=f"Install apache-airflow>={OLDEST[0]}.{OLDEST[1]},<{NEWEST[0]}.{NEWEST[1] + 1} beside it",
        )
    return major, minor, patch


AIRFLOW = require_supported(airflow.__version__)

# Plugins with pages: ``fastapi_apps`` with ``external_views``.
AIRFLOW_V_3_1_PLUS: bool = AIRFLOW >= (3, 1)
# The connection form from metadata alone; exceptions in ``airflow.sdk``.
AIRFLOW_V_3_2_PLUS: bool = AIRFLOW >= (3, 2)
# ``BaseTrigger.on_kill``, and streams that event triggers share.
AIRFLOW_V_3_3_PLUS: bool = AIRFLOW >= (3, 3)
# Connections that an event loop can read, and mask, without a thread.
READS_CONNECTIONS_IN_LOOP: bool = AIRFLOW >= (3, 3, 2)
