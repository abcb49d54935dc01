"""High availability for Spark Structured Streaming jobs, driven by Airflow.

Importing this package is cheap on purpose: every DAG file that uses an operator imports it while Airflow parses. So its
names are loaded when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow_provider_ha._version import __version__


if TYPE_CHECKING:
    from airflow_provider_ha.config import HaConfig
    from airflow_provider_ha.control.client import HaClient
    from airflow_provider_ha.control.job.spec import JobSpec, RestoreRequest, Start
    from airflow_provider_ha.control.move.outcome import MoveRequest
    from airflow_provider_ha.control.services import HaServices
    from airflow_provider_ha.jobs.options.ha_options import HaOptions
    from airflow_provider_ha.jobs.options.resources import Resources


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
    "HaClient": "control.client",
    "HaConfig": "config",
    "HaOptions": "jobs.options.ha_options",
    "HaServices": "control.services",
    "JobSpec": "control.job.spec",
    "Resources": "jobs.options.resources",
    "MoveRequest": "control.move.outcome",
    "RestoreRequest": "control.job.spec",
    "Start": "control.job.spec",
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
