"""Options of a job as a task or the command line gives them: text, numbers and durations, and nothing for a default."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from pydantic import ValidationError

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.options.resources import Resources


_OF_JAVA = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
_OF_SPARK = re.compile(r"[1-9]\d*(?:b|[kmgtp]b?)?", re.IGNORECASE)  # megabytes without a unit


def check_memory(size: str, parameter: str) -> None:
    """Refuse a size of memory that Java does not take, or of an executor that Spark does not take.

    :param parameter: Its name.
    :raises ConfigurationError: It is none.
    """
    known = _OF_SPARK if parameter == "executor_memory" else _OF_JAVA
    if not known.fullmatch(str(size)):
        raise ConfigurationError(f"{parameter}={size!r} is not an amount of memory", next_step="Write it as 512m or 4g")


def resources(**given: int | str | None) -> Resources:
    """Return what is given; a template may render a number as text.

    :raises ConfigurationError: A number is none.
    """
    values: dict[str, Any] = {name: value for name, value in given.items() if value not in (None, "", "None")}
    for name in ("executor_cores", "total_executor_cores", "num_executors"):
        if name in values and not str(values[name]).isdigit():
            raise ConfigurationError(f"{name} is {values[name]!r}", next_step="Write a whole number")
    if "executor_memory" in values:
        check_memory(values["executor_memory"], "executor_memory")
    return Resources(**values)


def ha_options(**given: float | timedelta | str | dict[str, str] | tuple[str, ...] | None) -> HaOptions:
    """Return the options with what is not ``None`` in *given*; durations may be timedeltas.

    :raises ConfigurationError: A value is out of range; names it.
    """
    values = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in given.items()
        if value is not None and value not in ("", "None")
    }
    try:
        return HaOptions.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors(include_url=False))
        raise ConfigurationError(
            f"the job's options cannot be used: {wrong}", next_step="Correct the parameter"
        ) from error
