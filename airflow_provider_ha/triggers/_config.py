"""The connection of a trigger, read once for all that start within some seconds.

A triggerer that starts makes thousands of triggers of one connection, and reading it costs each of them a request to
Airflow and the making of a configuration.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.hooks.spark_ha import SparkHaHook


_SHARED_SECONDS = 5.0  # a connection that was edited is read again after them


@dataclass(frozen=True, slots=True)
class _Lookup:
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[HaConfig]
    since: float

    def holds(self) -> bool:
        """Whether another trigger of the same loop may have its answer."""
        if self.loop is not asyncio.get_running_loop() or time.monotonic() - self.since > _SHARED_SECONDS:
            return False
        return not self.task.done() or not (self.task.cancelled() or self.task.exception())


_lookups: dict[str, _Lookup] = {}


async def config_of(spark_ha_conn_id: str) -> HaConfig:
    """Return the configuration of a connection; errors as :meth:`SparkHaHook.aget_config` has them."""
    lookup = _lookups.get(spark_ha_conn_id)
    if lookup is None or not lookup.holds():
        task = asyncio.ensure_future(SparkHaHook(spark_ha_conn_id).aget_config())
        lookup = _lookups[spark_ha_conn_id] = _Lookup(asyncio.get_running_loop(), task, time.monotonic())
    if lookup.task.done():
        return lookup.task.result()
    # Shielded: a trigger that is cancelled must not take the answer away from the others.
    return await asyncio.shield(lookup.task)
