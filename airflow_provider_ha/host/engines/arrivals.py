"""Supervisor's side of the engines: the part of an engine in the process that it starts, on the host of the driver.

A supervisor imports this module and no engine: hosts that only run drivers need no client of a cluster.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.local_arrival import LocalArrival
from airflow_provider_ha.host.engines.standalone_arrival import StandaloneArrival
from airflow_provider_ha.host.engines.table import LOCAL, STANDALONE
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.runs.submissions import DriverHandle


class EngineArrival(Protocol):
    """Facts and acts that only the place of a driver has."""

    @property
    def reports_itself(self) -> bool:
        """Whether the supervisor records its handle before it starts a driver, because its launcher may not know it."""

    def own_handle(self, given: DriverHandle, driver_log: Path) -> DriverHandle:
        """Return the handle of this process.

        :param given: Handle as far as the engine knew it before the launch, or that of an earlier attempt in place.
        :param driver_log: The driver's log on this host.
        :raises RecordCorruptError: The engine cannot parse the handle.
        """

    def bind(self) -> None:
        """Bind the end of this process to that of the process that started it, where the cluster needs that.

        Called by each program of the process, before it starts any other process.
        """

    def conf(self, graph: JobGraph) -> dict[str, str]:
        """Return the Spark conf that only this place knows. It counts below the job's own."""


_ARRIVALS: dict[str, EngineArrival] = {LOCAL.name: LocalArrival(), STANDALONE.name: StandaloneArrival()}


def arrival_of(handle: DriverHandle) -> EngineArrival:
    """Return the supervisor's side of a handle's engine.

    :raises ConfigurationError: This release does not have the engine.
    """
    if handle.engine not in _ARRIVALS:
        raise ConfigurationError(
            f"this host cannot run drivers of the engine {handle.engine!r}",
            next_step="Submit and run drivers with the same release of airflow-provider-ha",
        )
    return _ARRIVALS[handle.engine]
