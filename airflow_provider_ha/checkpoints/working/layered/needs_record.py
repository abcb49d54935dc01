"""``_ha_needs``: the collector's finding about the needs of a query directory, for its next takeover.

A takeover reads no state, so it could name all existing files, and bases would grow from takeover to takeover. A file
that is unneeded once stays unneeded: later batches build on the last ones only.

Invariant: a file omitted from a base is a file that the collector would remove if the directory owned it. A missing or
damaged record omits no file.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar

from airflow_provider_ha.checkpoints.working.layered.base import BaseEntry
from airflow_provider_ha.checkpoints.working.layered.purging import Needs, is_table
from airflow_provider_ha.checkpoints.working.layered.tree import NEEDS
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.file_store import FileStore


log = logging.getLogger(__name__)


class NeedsRecord(Record):
    """Needs of a query directory at the collector's last visit.

    :param first: Lowest of the last batches.
    :param tables_before: Milliseconds since 1970: younger tables were not judged.
    :param names: Files of the last and the retained batches, sorted, relative to the query directory.
    :param logged: Directory of a source's log -> its highest needed entry.
    """

    kind: ClassVar[str] = "needs"

    first: int
    tables_before: int
    names: tuple[str, ...]
    logged: dict[str, int]


@dataclass(frozen=True, slots=True)
class KnownNeeds:
    """Known needs of a query directory.

    :param needs: Complete at the last visit.
    :param tables_before: As in the record.
    """

    needs: Needs
    tables_before: int

    @classmethod
    def of(cls, needs: Needs, *, now: int, grace: timedelta) -> KnownNeeds:
        """Return the known needs from complete needs.

        :param now: The storage's time, in milliseconds since 1970.
        :param grace: Minimum age of a judged table: a task may have uploaded a younger one that no batch names yet.
        """
        return cls(needs, needs.judged_before(now, grace))

    def needless(self, entry: BaseEntry) -> bool:
        """Whether no existing or future batch needs a file. Pure.

        :param entry: Its name is relative to the query directory.
        """
        if is_table(entry.name) and entry.mtime >= self.tables_before:
            return False
        return self.needs.would_purge(entry.name)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        names = tuple(sorted(self.needs.names))
        record = NeedsRecord(
            first=self.needs.first, tables_before=self.tables_before, names=names, logged=self.needs.logged
        )
        return record.to_bytes()


def read_needs(files: FileStore, directory: str) -> KnownNeeds | None:
    """Return the known needs of a query directory; ``None`` if unknown.

    :param directory: Its key.
    :raises StorageUnavailableError: It could not be read.
    """
    source = f"{directory}/{NEEDS}"
    try:
        record = NeedsRecord.from_bytes(files.read(source), source=source)
    except ObjectMissingError:
        return None
    except RecordCorruptError as error:
        log.warning("the base names all files of %s: %s", directory, error)
        return None
    needs = Needs(record.first, names=set(record.names), logged=dict(record.logged))
    return KnownNeeds(needs, record.tables_before)
