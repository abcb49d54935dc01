"""Give a driver's conf the parent and the transport of OpenLineage, as Airflow's Spark provider does.

Invariant: nothing of it can keep a job from starting, and nothing secret gets into the graph of a job, which outlives
each key. What is injected comes from the OpenLineage provider; without it nothing is, and the log says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_ha.compat.sdk import conf as airflow_conf
from airflow_provider_ha.jobs.options.lineage_conf import counted, secrets_in
from airflow_provider_ha.operators._lineage import reason_of


Inject = Callable[[dict[str, str], Any], dict[str, str]]
_SECTION = "openlineage"
_SETTINGS = {"parent_job": "spark_inject_parent_job_info", "transport": "spark_inject_transport_info"}


def lineage_conf(operator: Any, context: Any, conf: Mapping[str, str] | None) -> dict[str, str]:
    """Return the conf that names the task to OpenLineage's listener in Spark.

    Airflow's ``[openlineage] spark_inject_parent_job_info`` and ``spark_inject_transport_info`` enable it.

    :param conf: The user's conf; a parent or a transport in it stays.
    """
    try:
        return _lineage_conf(operator, context, conf)
    except Exception as error:  # noqa: BLE001
        operator.log.warning("OpenLineage information could not be injected: %s", reason_of(error))
        return {}


def _lineage_conf(operator: Any, context: Any, conf: Mapping[str, str] | None) -> dict[str, str]:
    wanted = [name for name, setting in _SETTINGS.items() if _is_enabled(operator, setting)]
    if not wanted:
        return {}
    try:
        injectors = _injectors()
    except ImportError:
        operator.log.warning(
            "OpenLineage information is to be injected into the Spark conf, but the OpenLineage provider is not "
            "installed, so the job runs without it. Install airflow-provider-ha[openlineage]."
        )
        return {}
    given = dict(conf or {})
    found: dict[str, str] = {}
    for name in wanted:
        try:
            injected = injectors[name](given, context)
        except Exception as error:  # noqa: BLE001  # a lineage that fails must not keep a stream from starting
            operator.log.warning("OpenLineage information (%s) could not be injected: %s", name, reason_of(error))
            continue
        found |= {key: str(value) for key, value in injected.items() if key not in given}
    if secret := secrets_in(found):
        operator.log.warning(
            "The OpenLineage transport is not injected, because it has what may be a secret (%s), which would stay in "
            "the job's graph after the key was replaced. Configure it on the hosts of the drivers, in "
            "spark-defaults.conf or openlineage.yml.",
            ", ".join(secret),
        )
        found = counted(found, secret)
    return found


def _is_enabled(operator: Any, option: str) -> bool:
    try:
        return airflow_conf.getboolean(_SECTION, option, fallback=False)
    except Exception as error:  # noqa: BLE001
        operator.log.warning(
            "[%s] %s in Airflow's configuration counts as False, because it cannot be read: %s",
            _SECTION,
            option,
            reason_of(error),
        )
        return False


def _injectors() -> dict[str, Inject]:
    """Return what the provider injects with; its public name is that of common-compat, which it brings along.

    :raises ImportError: The provider is not installed.
    """
    import airflow.providers.openlineage  # noqa: F401, PLC0415  # without it the following only warns
    from airflow.providers.common.compat.openlineage.utils.spark import (  # noqa: PLC0415  # optional
        inject_parent_job_information_into_spark_properties,
        inject_transport_information_into_spark_properties,
    )

    return {
        "parent_job": inject_parent_job_information_into_spark_properties,
        "transport": inject_transport_information_into_spark_properties,
    }
