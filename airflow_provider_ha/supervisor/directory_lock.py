"""The lock of a submission's directory: a submission has only one supervisor, ever.

A second supervisor would start a second driver, close the session of the first one, and write an exit while the first
still lives. Started after the first has ended, it would start a driver whose death is already on record.
"""

from __future__ import annotations

import errno
import fcntl
import os

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.host.driver_spec import OWNER_ONLY, DriverSpec
from airflow_provider_ha.storage.outage import unavailable


LOCK_FILE = "supervisor.lock"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def lock_directory(spec: DriverSpec) -> int:
    """Lock the submission's directory for this supervisor; returns the descriptor that holds the lock.

    The descriptor may stay open: the kernel frees the lock with the process, and children do not inherit it.

    :raises ConfigurationError: Another supervisor has it or had it, or it cannot be locked.
    :raises StorageUnavailableError: There is no room for the lock file, so this is the first supervisor here.
    """
    path = spec.home.directory / LOCK_FILE
    next_step = "Let the job be recovered (spark-ha recover): each attempt is a separate submission"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, OWNER_ONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: two-supervisors-of-one-driver
    except BlockingIOError:
        raise ConfigurationError(
            f"another supervisor works in {str(spec.home.directory)!r}", next_step=next_step
        ) from None
    except OSError as error:
        if error.errno in _NO_ROOM:  # an existing file opens on a full disk
            raise unavailable(f"{path} could not be written", error) from error
        raise ConfigurationError(
            f"{str(path)!r} cannot be locked ({error.strerror}), so this may be a second supervisor of the same driver",
            next_step="Make the work root writable, on a file system with locks",
        ) from error
    if spec.home.driver_log.exists():  # guard: supervisor-runs-a-dead-driver-again
        raise ConfigurationError(f"the driver of {str(spec.home.directory)!r} was started before", next_step=next_step)
    return descriptor
