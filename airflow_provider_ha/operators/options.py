"""From operator parameters to the job's options: what was not said keeps the default of the options themselves."""

from __future__ import annotations

from datetime import timedelta

from pydantic import ValidationError

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import HaOptions


def ha_options(**given: float | timedelta | str | dict[str, str] | None) -> HaOptions:
    """Return the options with what is not ``None`` in *given*; durations may be timedeltas.

    :raises ConfigurationError: A value is out of range; names it.
    """
    values = {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in given.items()
        if value is not None
    }
    try:
        return HaOptions.model_validate(values)
    except ValidationError as error:
        wrong = "; ".join(f"{item['loc'][0]}: {item['msg']}" for item in error.errors(include_url=False))
        raise ConfigurationError(
            f"the job's options cannot be used: {wrong}", next_step="Correct the parameter"
        ) from error
