"""Options of an engine: those of the connection hold for all jobs of a cluster, and those of a job win."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import Target


LOCAL = "local"  # name of the engine of this host
PYTHON_OPTION = "python"  # interpreter of the driver and of its Python workers
SPARK_HOME_OPTION = "spark_home"  # directory with ``bin/spark-submit``

REST_PORT_OPTION = "rest_port"  # of the masters' REST servers; 6066 when left out
REST_SCHEME_OPTION = "rest_scheme"  # of these: http or https
REST_MASTERS_OPTION = "rest_masters"  # their addresses, host:port,host:port, where these are not those of the masters
CONFIG_FILE_OPTION = "config_file"  # path on every worker of the private file that says how to reach the cluster

LOCAL_OPTIONS = frozenset({PYTHON_OPTION, SPARK_HOME_OPTION})
STANDALONE_OPTIONS = LOCAL_OPTIONS | {REST_PORT_OPTION, REST_SCHEME_OPTION, REST_MASTERS_OPTION, CONFIG_FILE_OPTION}


def engine_options(config: HaConfig, target: Target) -> dict[str, str]:
    """Return the options that count for a job: its own, and those of the connection for what it leaves open.

    What neither names is as it was when the job was submitted: a client that recovers it at night may know only how to
    reach the cluster.
    """
    # guard: options-of-the-job-win
    return {**target.cluster_options, **config.engines.get(target.engine, {}), **target.engine_options}


def cluster_options(config: HaConfig, engine: str) -> dict[str, str]:
    """Return what a job graph keeps of a connection's options: none of the local engine, whose paths differ by host."""
    # guard: graphs-keep-no-path-of-a-host
    return {} if engine == LOCAL else dict(config.engines.get(engine, {}))


def check_options(engine: str, given: Mapping[str, str], known: frozenset[str]) -> None:
    """Refuse options that nothing reads.

    :raises ConfigurationError: Names them.
    """
    if unknown := sorted(set(given) - known):  # guard: unread-options-are-refused
        raise ConfigurationError(
            f"the engine {engine!r} has no options {unknown}", next_step=f"Use {sorted(known)}, or none"
        )


def named_spark_home(options: Mapping[str, str]) -> Path | None:
    """Return Spark's directory where the options or ``SPARK_HOME`` of this host name one."""
    # guard: option-wins-over-the-host
    named = options.get(SPARK_HOME_OPTION) or os.environ.get("SPARK_HOME")
    return Path(named) if named else None
