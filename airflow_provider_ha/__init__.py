"""High availability for Spark Structured Streaming jobs, driven by Airflow.

Importing this package is cheap on purpose: every DAG file that uses an operator imports it while Airflow parses. So its
names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_provider_ha._version import __version__


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.api.ha_services import HaServices
    from airflow_provider_ha.config import HaConfig
    from airflow_provider_ha.jobs.move.move_records import MoveRequest
    from airflow_provider_ha.jobs.options.job_options import HaOptions, Resources
    from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest, Start


__all__ = [
    "HaClient",
    "HaConfig",
    "HaOptions",
    "HaServices",
    "JobSpec",
    "MoveRequest",
    "Resources",
    "RestoreRequest",
    "Start",
    "__version__",
]
_PLACES = {
    "HaClient": "api.ha_client",
    "HaConfig": "config",
    "HaOptions": "jobs.options.job_options",
    "HaServices": "api.ha_services",
    "JobSpec": "jobs.options.job_spec",
    "Resources": "jobs.options.job_options",
    "MoveRequest": "jobs.move.move_records",
    "RestoreRequest": "jobs.options.job_spec",
    "Start": "jobs.options.job_spec",
}


def __getattr__(name: str) -> Any:
    """Load a name of the public API."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{place}"), name)


def __dir__() -> list[str]:
    """Return the names of the public API, in addition to the loaded ones."""
    return sorted({*globals(), *__all__})
