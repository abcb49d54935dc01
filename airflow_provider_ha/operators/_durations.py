"""Durations as people give them to operators: a timedelta, seconds, or a template that rendered to seconds."""

from __future__ import annotations

import math
from datetime import timedelta

from airflow_provider_ha.errors import ConfigurationError


def seconds_of(given: timedelta | float | str | None, name: str) -> float | None:
    """Return a duration in seconds; ``None`` for a template that rendered to nothing.

    :param name: Of the parameter, for the error.
    :raises ConfigurationError: It is not a duration above zero.
    """
    if isinstance(given, timedelta):
        value = given.total_seconds()
    elif given is None or str(given).strip() in {"", "None"}:
        return None
    else:
        try:
            value = float(given)
        except ValueError:
            value = math.nan
    if not 0 < value < math.inf:
        raise ConfigurationError(f"{name}={given!r} is not a duration", next_step="Use a timedelta, or seconds above 0")
    return value
