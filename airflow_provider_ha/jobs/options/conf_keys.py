"""Which keys a Spark conf may have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from airflow_provider_ha.errors import ConfigurationError


_KEY = re.compile(r"spark\.\S+")


def check_keys(keys: Iterable[str]) -> None:
    """Refuse keys that spark-submit would drop without an error.

    :raises ConfigurationError: A key is not one of Spark's.
    """
    for key in keys:
        if not _KEY.fullmatch(key):
            raise ConfigurationError(
                f"{key!r} is not a Spark conf key", next_step="Spark reads only keys that begin with 'spark.'"
            )
