"""What a handle of the standalone engine refers to: written by the engine, completed by the driver's supervisor."""

from __future__ import annotations

from pydantic import ValidationError

from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.submissions import Handle
from airflow_provider_ha.records import Model


STANDALONE = "standalone"  # name of the engine


class StandaloneDriver(Model):
    """A driver of a standalone cluster.

    :param masters: REST servers of all masters, ``http://host:port``, separated by commas.
    :param driver: The master's id of the driver; empty in what a driver is launched with, before there is one.
    """

    masters: str
    driver: str = ""

    @property
    def urls(self) -> tuple[str, ...]:
        """REST servers of all masters."""
        return tuple(self.masters.split(","))

    def handle(self, *, log_uri: str = "", ui_uri: str = "") -> Handle:
        """Return the handle that refers to it."""
        return Handle(engine=STANDALONE, ref=self.model_dump(), log_uri=log_uri, ui_uri=ui_uri)

    @classmethod
    def of(cls, handle: Handle) -> StandaloneDriver:
        """Return what a handle refers to.

        :raises RecordCorruptError: It is not the handle of a driver of a standalone cluster.
        """
        try:
            if handle.engine == STANDALONE:
                return cls.model_validate(handle.ref)
        except ValidationError:
            pass
        raise RecordCorruptError(f"the handle {handle.ref} is not that of a driver of a standalone cluster")
