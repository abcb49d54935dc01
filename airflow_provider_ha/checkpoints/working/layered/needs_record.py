"""``_ha_needs``: what the collector has found a query directory to need, for the next takeover of it.

A takeover reads no state, so it can name all files that there are, and its base would grow from one takeover to the
next. What nothing needs once, nothing needs later: later batches are made of the last ones, and of nothing older.

Invariant: a file that is left out of a base is one that the collector would remove, were it a file of the directory.
A record that is absent, or is not what was written, leaves out nothing.
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
    """What a query directory needed when the collector looked at it.

    :param first: Lowest of the last batches.
    :param tables_before: Milliseconds since 1970: nothing is known of tables that are not older.
    :param names: What the last batches and the retained ones need, sorted, relative to the query directory.
    :param logged: Directory of a source's log -> the highest entry of it that is needed.
    """

    kind: ClassVar[str] = "needs"

    first: int
    tables_before: int
    names: tuple[str, ...]
    logged: dict[str, int]


@dataclass(frozen=True, slots=True)
class KnownNeeds:
    """What is known of a query directory.

    :param needs: Complete when they were looked at.
    :param tables_before: As in the record.
    """

    needs: Needs
    tables_before: int

    @classmethod
    def of(cls, needs: Needs, *, now: int, grace: timedelta) -> KnownNeeds:
        """Return what complete needs say.

        :param now: The storage's time, in milliseconds since 1970.
        :param grace: How old a table has to be: a task may have uploaded a younger one that no batch names yet.
        """
        return cls(needs, needs.judged_before(now, grace))

    def needless(self, entry: BaseEntry) -> bool:
        """Whether a file is needed by no batch that is there or is to come. Pure.

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
    """Return what is known of a query directory; ``None`` for nothing.

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
