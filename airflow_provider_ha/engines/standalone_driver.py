"""The handle of a driver on a standalone cluster: written by the engine, completed by the driver's supervisor."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from pydantic import ValidationError

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.submissions import Handle, file_uri
from airflow_provider_ha.records import Model


STANDALONE = "standalone"  # name of the engine
_PAGE_VARIABLE = "SPARK_DRIVER_LOG_URL_STDERR"  # set by a worker: its page with the output of the driver's JVM


class StandaloneDriver(Model):
    """A driver of a standalone cluster.

    :param masters: REST servers of all masters, ``http://host:port``, separated by commas.
    :param driver: The master's id of the driver; empty at launch, before it has one.
    """

    masters: str
    driver: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        """REST servers of all masters."""
        return tuple(self.masters.split(","))

    def handle(self, *, log_uri: str = "", ui_uri: str = "") -> Handle:
        """Return the handle that refers to it."""
        name = self.driver or "the driver"
        printed = f"stderr of {name} on its worker, in SPARK_WORKER_DIR; the page of the active master links to it"
        return Handle(
            engine=STANDALONE,
            ref=self.model_dump(),
            log_uri=log_uri,
            ui_uri=ui_uri,
            printed="" if log_uri else printed,
        )

    @classmethod
    def of(cls, handle: Handle) -> StandaloneDriver:
        """Return the driver of a handle.

        :raises RecordCorruptError: It is not the handle of a driver of a standalone cluster.
        """
        try:
            if handle.engine == STANDALONE:
                return cls.model_validate(handle.ref)
        except ValidationError:
            pass
        raise RecordCorruptError(f"the handle {handle.ref} is not that of a driver of a standalone cluster")


def complete_handle(handle: Handle, driver_log: Path) -> Handle:
    """Return the handle of this process, with the facts that only its worker knows.

    :raises RecordCorruptError: As :meth:`StandaloneDriver.of`.
    """
    # A worker runs a driver in a directory named after the master's id of the driver.
    driver = StandaloneDriver.of(handle).model_copy(update={"driver": Path.cwd().name})
    log_uri = file_uri(socket.gethostname(), str(driver_log))
    return driver.handle(log_uri=log_uri, ui_uri=os.environ.get(_PAGE_VARIABLE, ""))
