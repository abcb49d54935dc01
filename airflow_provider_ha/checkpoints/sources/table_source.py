"""Delta and Iceberg tables as sources: the offset names a version, and the table shows whether it continues from there.

An offset does not contain the place of its table: the driver notes it (``QuerySources.tables``). Only the log or the
metadata of a table is read, never the data: if ``VACUUM`` has removed a data file of an existing version, Spark fails
and loses no row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from airflow_provider_ha.checkpoints.plan_model import SourceInput, Verdict
from airflow_provider_ha.checkpoints.sinks.sink_type import RestoreFindings
from airflow_provider_ha.checkpoints.sinks.table_sinks import DeltaLog, IcebergMetadata
from airflow_provider_ha.checkpoints.sources.source_type import SourceReading, SourceType, TableHistory
from airflow_provider_ha.checkpoints.spark.places import StorageAccess


_NOTHING_READ = -1  # the snapshot of an Iceberg offset before the table had one


class TableSource(SourceType):
    """Table whose offsets contain a version.

    :cvar kind: Name of the kind, in a sentence.
    """

    kind: ClassVar[str]
    unit: ClassVar[str]
    silence = "`unknown`: the place of the table is not recorded, only its catalog knows its state, or it is not read"

    def takes(self, reading: SourceReading) -> bool:
        """Match an offset of this type."""
        return self.offset(reading.end) is not None

    def offset(self, offset: str | None) -> Mapping[str, Any] | None:
        """Return an offset of this type; ``None`` for another one."""
        raise NotImplementedError

    def history(self, place: str, reach: StorageAccess) -> TableHistory:
        """Return the history of the table at *place*.

        :raises HaError: It is unknown.
        """
        raise NotImplementedError

    def input(self, reading: SourceReading) -> SourceInput:
        """Return whether the table has the rows after the cut; unknown where its location is not recorded."""
        history = reading.facts.tables.get(reading.name)
        if history is None:
            return SourceInput(source=reading.name)
        end = self.offset(reading.end) or {}
        start = self.offset(reading.before) if reading.is_replayed else end
        lost = history.lost(start, end)
        return SourceInput(source=reading.name, unit=self.unit, gone=0 if lost == "" else None, lost=lost or "")

    def judges(self, source: SourceInput) -> bool:
        """Match tables with lost rows; unknown tables are reported elsewhere."""
        return source.unit == self.unit and bool(source.lost)

    def judge(self, source: SourceInput, findings: RestoreFindings) -> None:
        """Note that the table does not continue from the cut."""
        findings.add(
            Verdict.LOSS_POSSIBLE,  # guard: tables-go-on-from-any-cut
            f"source {source.source}: {source.lost}",
            "restore the table to a state that has it",
            "read the table with a new query, and start it fresh",
            "accept LOSS_POSSIBLE by name; unless the reader allows for it, Spark fails instead of continuing",
        )


class DeltaSource(TableSource):
    """Delta tables."""

    kind = "Delta table"
    unit = "versions"
    label = "Delta tables"
    asked = "the id of the table, and whether its log has every version from that of the cut"

    def offset(self, offset: str | None) -> Mapping[str, Any] | None:
        """Parse an offset with the id and the version of a table."""
        found = _object(offset)
        return found if "reservoirId" in found and isinstance(found.get("reservoirVersion"), int) else None

    def history(self, place: str, reach: StorageAccess) -> TableHistory:
        """Return the versions of its log."""
        log = DeltaLog(place, reach)
        if not log.exists():
            return _Gone(self.kind, place)
        return _DeltaHistory(place, log.table_id(), *log.versions())


class IcebergSource(TableSource):
    """Iceberg tables."""

    kind = "Iceberg table"
    unit = "snapshots"
    label = "Iceberg tables"
    asked = "whether the snapshot of the cut is there, and the current one comes from it without a gap"

    def offset(self, offset: str | None) -> Mapping[str, Any] | None:
        """Parse an offset with the id of a snapshot, and a position in it."""
        found = _object(offset)
        return found if isinstance(found.get("snapshot_id"), int) and "position" in found else None

    def history(self, place: str, reach: StorageAccess) -> TableHistory:
        """Return the ancestors of the current snapshot."""
        metadata = IcebergMetadata(place, reach)
        if not metadata.exists():
            return _Gone(self.kind, place)
        return _IcebergHistory(place, *metadata.ancestors())


TABLE_SOURCES: tuple[TableSource, ...] = (DeltaSource(), IcebergSource())


def table_source(offset: str | None) -> TableSource | None:
    """Return the table type of an offset; ``None`` for other sources' offsets."""
    return next((kind for kind in TABLE_SOURCES if kind.offset(offset) is not None), None)


@dataclass(frozen=True, slots=True)
class UnknownHistory:
    """History of a table that could not be read; the reason is reported elsewhere."""

    def lost(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> str | None:  # noqa: ARG002  # unknown
        """Return ``None``."""
        return None


@dataclass(frozen=True, slots=True)
class _Gone:
    kind: str
    place: str

    def lost(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> str | None:  # noqa: ARG002  # the whole table is gone
        return f"{self.kind} {self.place} is gone"


@dataclass(frozen=True, slots=True)
class _DeltaHistory:
    """The log of a Delta table.

    :param whole: Versions with a complete checkpoint of the log.
    """

    place: str
    table_id: str
    commits: frozenset[int]
    whole: frozenset[int]

    def lost(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> str | None:
        """Return the missing part after *start*; without *start*, the query begins with the whole table."""
        table = f"Delta table {self.place}"
        if end["reservoirId"] != self.table_id:
            return f"{table} was recreated: its id is {self.table_id}, and {end['reservoirId']} was read"
        newest = max((*self.commits, *self.whole), default=-1)
        for offset in (end, start or end):
            # An index of a file means that the version is being read; without one it is the next version.
            if offset["reservoirVersion"] > newest + (offset.get("index", -1) < 0):
                return f"{table} ends at version {newest}, and was read up to version {offset['reservoirVersion']}"
        version = (start or end)["reservoirVersion"]
        if start is None and not _is_whole(end):
            version = max(0, version - 1)  # the initial version of the query
        if start is None or _is_whole(start):
            if not self._can_be_built(version):
                return f"{table} can no longer be read at version {version}: its log was removed"
            version += 1
        missing = next((each for each in range(version, newest + 1) if each not in self.commits), None)
        return "" if missing is None else f"version {missing} of {table} was removed from its log"

    def _can_be_built(self, version: int) -> bool:
        while version in self.commits and version not in self.whole:
            version -= 1
        return version < 0 or version in self.whole


@dataclass(frozen=True, slots=True)
class _IcebergHistory:
    """Snapshots of an Iceberg table.

    :param ancestors: The current snapshot and its ancestors, newest first.
    :param expired: An expired ancestor; ``None`` when all exist.
    """

    place: str
    ancestors: tuple[int, ...]
    expired: int | None

    def lost(self, start: Mapping[str, Any] | None, end: Mapping[str, Any]) -> str | None:
        """Return the missing part after *start*; without *start*, the table's whole history is needed."""
        table = f"Iceberg table {self.place}"
        for at in (_NOTHING_READ if start is None else start["snapshot_id"], end["snapshot_id"]):
            if at == _NOTHING_READ and self.expired is not None:
                return f"snapshot {self.expired} of {table} has expired, and its rows were not read"
            if at not in {_NOTHING_READ, *self.ancestors}:  # guard: snapshots-of-another-past-are-there
                return f"{table} does not come from snapshot {at}, which was read: it has expired or was undone"
        return ""


def _is_whole(offset: Mapping[str, Any]) -> bool:
    """Return whether a Delta offset is a position in the initial snapshot, not in its changes."""
    return bool(offset.get("isStartingVersion", offset.get("isInitialSnapshot")))


def _object(offset: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(offset or "null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
