"""Whether the disk of a submission has room for what a driver writes first.

A disk that is full to its last kilobytes takes the small files of a launch. The driver then leads, and Spark dies with
its first state file: that looks like a failure of the job, and is an outage.
"""

from __future__ import annotations

import os
from pathlib import Path

from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.driver_spec import OWNER_ONLY
from airflow_provider_ha.storage.outage import outages


ROOM = 1024 * 1024  # bytes


def require_room(directory: Path) -> None:
    """Write and remove a file of 1 MiB: free space that is only promised (quota, thin volume) can be refused later.

    :raises StorageUnavailableError: There is no room for it.
    """
    path = directory / f".room-{new_id()}.tmp"
    with outages(f"filled with {ROOM} bytes", path):
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
            with os.fdopen(descriptor, "wb") as file:
                file.write(bytes(ROOM))
                file.flush()
                os.fsync(descriptor)
        finally:
            path.unlink(missing_ok=True)
