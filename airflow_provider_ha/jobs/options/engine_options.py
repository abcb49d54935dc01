"""Options of an engine: those of the connection hold for all jobs of a cluster, and those of a job win."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import Target


PYTHON_OPTION = "python"  # interpreter of the driver and of its Python workers
SPARK_HOME_OPTION = "spark_home"  # directory with ``bin/spark-submit``
HOST_OPTIONS = frozenset({PYTHON_OPTION, SPARK_HOME_OPTION})  # of the host that runs a driver, for each engine


def engine_options(config: HaConfig, target: Target) -> dict[str, str]:
    """Return the options that count for a job: its own, and those of the connection for what it leaves open.

    What neither names is as it was when the job was submitted: a client that recovers it at night may know only how to
    reach the cluster.
    """
    return {**target.cluster_options, **config.engines.get(target.engine, {}), **target.engine_options}


def check_options(engine: str, given: Mapping[str, str], known: frozenset[str]) -> None:
    """Refuse options that nothing reads.

    :raises ConfigurationError: Names them.
    """
    if unknown := sorted(set(given) - known):
        raise ConfigurationError(
            f"the engine {engine!r} has no options {unknown}", next_step=f"Use {sorted(known)}, or none"
        )


def named_spark_home(options: Mapping[str, str]) -> Path | None:
    """Return Spark's directory where the options or ``SPARK_HOME`` of this host name one."""
    named = options.get(SPARK_HOME_OPTION) or os.environ.get("SPARK_HOME")
    return Path(named) if named else None
