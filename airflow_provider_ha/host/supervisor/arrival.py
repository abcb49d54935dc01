"""Input of a supervisor: private file or ticket of a submission, and the lock of its directory.

``supervisor.main SPEC_FILE``: the engine writes to this host's disk, and has left ticket and configuration there.
``supervisor.main --home DIRECTORY``: the ticket is in the environment and names the place of the configuration. The
supervisor creates the home on its own disk and leaves the private file there, which the driver reads and removes.

Either way the submission carries the engine's handle, as far as the engine knows it before the launch, and the
engine's arrival completes it (``host.engines.arrivals``).

A cluster manager shows the programs that it runs: to its users on a page, and to users of the machine on command lines.
So secrets do not travel with a submission. They are on the machine, in a file that only the user of its workers can
read, or in the environment of its workers.

Invariants:

- Ticket and configuration are removed from the environment before any process is started, because the driver and its
  Python workers inherit the environment of the supervisor.
- A submission has one supervisor, ever: it locks the submission's directory. A second supervisor would start a second
  driver, close the session of the first one, and write an exit while the first driver still lives. Started after the
  end of the first, it would start a driver whose death is already on record.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from airflow_provider_ha.config import VARIABLES, HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.arrivals import arrival_of
from airflow_provider_ha.jobs.drivers.driver_home import (
    CONFIG_FILE_VARIABLE,
    HANDLE_VARIABLE,
    HOME_OPTION,
    TICKET_VARIABLE,
    ConfigSource,
    Ticket,
)
from airflow_provider_ha.jobs.drivers.driver_spec import OWNER_ONLY, DriverSpec
from airflow_provider_ha.jobs.runs.submissions import DriverHandle
from airflow_provider_ha.storage.durable import make_directories
from airflow_provider_ha.storage.outage import outages, unavailable


LOCK_FILE = "supervisor.lock"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def lock_directory(spec: DriverSpec) -> int:
    """Lock the submission's directory for this supervisor; return the descriptor that holds the lock.

    The descriptor may stay open: the kernel frees the lock with the process, and children do not inherit it.

    :raises ConfigurationError: Another supervisor holds or held the lock, or the directory cannot be locked.
    :raises StorageUnavailableError: The disk has no room for the lock file, so this is the first supervisor here.
    """
    path = spec.home.directory / LOCK_FILE
    next_step = "Let the job be recovered (spark-ha cluster recover): each attempt is a separate submission"
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


CONFIG_VARIABLE = "SPARK_HA_CONFIG"  # JSON of ``HaConfig.to_private_json``: a cluster manager sets it from a secret

Value = TypeVar("Value", bound=BaseModel)


def arrived(arguments: Sequence[str]) -> DriverSpec:
    """Return the submission that this process supervises.

    :param arguments: Arguments of the program: a spec file, or ``--home`` and the directory of the submission on this
        disk.
    :raises ConfigurationError: Ticket or configuration is missing or unusable; names the variable.
    :raises RecordCorruptError: The spec file differs from the written one.
    :raises StorageUnavailableError: The home cannot be written.
    """
    if arguments[0] != HOME_OPTION:
        spec = _completed(DriverSpec.read(Path(arguments[0])))
        if spec.ticket.is_standby:  # its driver records the handle when it is promoted
            spec.write()
        return spec
    ticket, handle = _taken(TICKET_VARIABLE, Ticket), _taken(HANDLE_VARIABLE, DriverHandle)
    home = Path(arguments[1]).absolute()
    spec = _completed(DriverSpec(config=_config(ticket), ticket=ticket, directory=home, handle=handle))
    with outages("made", spec.home.directory):
        make_directories(spec.home.directory)
        spec.write()
    return spec


def _completed(spec: DriverSpec) -> DriverSpec:
    """Return the spec with the handle of this process."""
    handle = arrival_of(spec.handle).own_handle(spec.handle, spec.home.driver_log)
    return spec.model_copy(update={"handle": handle})


def _config(ticket: Ticket) -> HaConfig:
    source = ticket.config
    if source is ConfigSource.MACHINE:
        try:
            return config_of_machine()
        except ConfigurationError as error:
            # Without it the supervisor cannot report, so this line in the worker's log is the only trace of the start.
            raise ConfigurationError(
                f"attempt {ticket.attempt} of run {ticket.run} of job {ticket.job_id!r} is not started, and ZooKeeper "
                f"has no record of this: {error.message}",
                next_step=error.next_step,
            ) from error
    if source is ConfigSource.ENVIRONMENT:
        return _taken(CONFIG_VARIABLE, HaConfig)
    raise ConfigurationError(
        f"the ticket finds its configuration in {source.value!r}, and its engine has left none there",
        next_step=f"An engine that starts a supervisor with {HOME_OPTION} uses {ConfigSource.ENVIRONMENT.value!r} or "
        f"{ConfigSource.MACHINE.value!r}",
    )


def _taken(variable: str, kind: type[Value]) -> Value:
    """Return the value of a variable, and remove it from the environment. The content is secret: messages omit it."""
    try:
        return kind.model_validate_json(os.environ.pop(variable, ""))
    except ValidationError:
        raise ConfigurationError(
            f"the variable {variable} of the supervisor does not hold a valid {kind.__name__}",
            next_step="Submit and run drivers with the same release of airflow-provider-ha",
        ) from None


def _next_step(file: str, error: ConfigurationError) -> str:
    if not file:
        return (
            "Give every worker a private file and name it in the engine option 'config_file', or set the variables "
            "SPARK_HA_* of the workers"
        )
    return error.next_step or (
        f"Write {file} on this worker, for the user of the worker (uid {os.getuid()}) and with mode 600, or correct "
        "the engine option 'config_file'"
    )


def config_of_machine() -> HaConfig:
    """Return this machine's access to the cluster, and remove it from the environment, which the driver inherits.

    :raises ConfigurationError: Neither file nor variables contain it, or their content is unusable.
    """
    file = os.environ.pop(CONFIG_FILE_VARIABLE, "")
    try:
        return HaConfig.from_file(Path(file)) if file else HaConfig.from_env()
    except ConfigurationError as error:
        raise ConfigurationError(
            f"worker {socket.gethostname()} has no access to the cluster configured: {error.message}",
            next_step=_next_step(file, error),
        ) from error
    finally:
        for name in VARIABLES:
            os.environ.pop(name, None)
