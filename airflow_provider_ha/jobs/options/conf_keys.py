"""Which keys a Spark conf may have."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from airflow_provider_ha.errors import ConfigurationError


_KEY = re.compile(r"spark\.\S+")
OWNED_CONF = {
    "spark.master": "master",
    "spark.submit.deployMode": "engine, which knows how it deploys a driver,",
    "spark.app.name": "name",
    "spark.driver.supervise": "restart_in_place, or one of restart_*: a cluster would restart behind them, so",
}


def check_conf(conf: Mapping[str, str]) -> None:
    """Refuse conf that has a parameter, or that spark-submit drops: nothing would say so.

    :raises ConfigurationError: It holds such a key; names it, and the parameter.
    """
    check_keys(conf)
    for key, parameter in OWNED_CONF.items():
        if key in conf:
            raise ConfigurationError(
                f"conf sets {key}={conf[key]!r}, which a managed job sets by a parameter",
                next_step=f"Remove it from conf, and use the parameter {parameter} instead",
            )


def check_keys(keys: Iterable[str]) -> None:
    """Refuse keys that spark-submit would drop without an error.

    :raises ConfigurationError: A key is not one of Spark's.
    """
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigurationError(
                f"{key!r} is not a Spark conf key", next_step="Spark reads only keys that begin with 'spark.'"
            )
