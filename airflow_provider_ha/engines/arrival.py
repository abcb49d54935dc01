"""The arrival side of the engines: a supervisor's additions to the handle that its engine launched it with.

A supervisor imports this module and no engine: hosts that only run drivers need no engine client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_provider_ha.engines import standalone_driver
from airflow_provider_ha.jobs.submissions import Handle


_COMPLETE: Mapping[str, Callable[[Handle, Path], Handle]] = {
    standalone_driver.STANDALONE: standalone_driver.complete_handle,
}


def own_handle(handle: Handle, driver_log: Path) -> Handle:
    """Return the handle of this process, completed by the rule of its engine; unchanged for an engine without one.

    :param handle: From the environment; the engine wrote it before it knew the process.
    :param driver_log: The driver's log on this host.
    :raises RecordCorruptError: The engine cannot parse it.
    """
    complete = _COMPLETE.get(handle.engine)
    return handle if complete is None else complete(handle, driver_log)
