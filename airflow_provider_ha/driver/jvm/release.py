"""Checks that driver and executors have the component, in this package's release."""

from __future__ import annotations

from typing import Any

from airflow_provider_ha._version import __version__
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.host.executors import is_local


_CALL = "java_method('io.github.sparkha.Component', 'version')"
_NEXT_STEP = (
    "Remove other releases of spark-ha-component from the images, the class paths and spark.jars of the cluster"
)


def check_driver(jvm: Any) -> None:
    """Refuse a driver without the component.

    :raises ConfigurationError: It is missing, or of another release.
    """
    try:
        found = str(jvm.io.github.sparkha.Component.version())
    except Exception as error:  # py4j shows a class that is missing as a package, and the call as a wrong type
        raise ConfigurationError(
            f"the driver's JVM does not have the component ({type(error).__name__})",
            next_step="Start it with the jar in spark.jars",
        ) from error
    _check("driver", {found})


def check_executors(session: Any) -> None:
    """Refuse executors without the component. One short job; it does not cover executors that come later.

    :raises ConfigurationError: It is missing, or of another release.
    """
    if is_local(session.sparkContext.master):
        return
    tasks = 2 * int(session.sparkContext.defaultParallelism)
    try:
        rows = session.range(0, tasks, 1, tasks).selectExpr(f"{_CALL} AS release").distinct().collect()
    except Exception as error:  # any error that Spark raises when a class is missing on an executor
        raise ConfigurationError(
            f"the executors do not have the component: {str(error)[:300]}",
            next_step="Let them fetch spark.jars from the driver, or put the jar into their image",
        ) from error
    _check("executors", {str(row.release) for row in rows})


def _check(who: str, found: set[str]) -> None:
    if found != {__version__}:
        raise ConfigurationError(
            f"the {who} of this application have the component of release {', '.join(sorted(found))}, "
            f"and airflow-provider-ha is {__version__}",
            next_step=_NEXT_STEP,
        )
