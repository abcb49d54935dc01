"""Reports of how tasks have read the state of each query, with the option ``local_recovery``.

The executors count their reads, and the component brings the figures to the driver's JVM with each finished task. What
has arrived at the first commit of a query is its restore: later reads belong to partitions that have moved.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_ha.driver.spark_conf import FORMAT_VERSION, PROVIDER, ROCKSDB
from airflow_provider_ha.jobs.runs.submissions import StateRestore
from airflow_provider_ha.redaction import public


log = logging.getLogger(__name__)
_MICROSECONDS = 1_000_000
_STABLE_FORMAT = "2"
_PARTITIONS = "spark.sql.shuffle.partitions"


def why_off(provider: str | None, state_format: str | None) -> str:
    """Return why the state of a query has no copies; empty when it has. Pure.

    :param provider: Class of its state store.
    :param state_format: Version of the format of its checkpoint.
    """
    if provider == ROCKSDB and state_format == _STABLE_FORMAT:
        return ""
    store = "RocksDB" if provider == ROCKSDB else str(provider).rpartition(".")[2]
    return f"its state has names that change ({store}, format {state_format or 1})"


@dataclass(frozen=True, slots=True)
class CopyCost:
    """What tasks have spent on copies of state, since the driver started.

    :param size: Bytes of the copies.
    :param seconds: Time of all tasks together.
    """

    size: int
    seconds: float


class StateRestoreReports:
    """The restores of this driver's queries. Thread-safe.

    :param jvm: The JVM of this driver, through py4j.
    :param note: Receives all reports when one of them is final.
    """

    def __init__(self, jvm: Any, note: Callable[[Mapping[str, StateRestore]], None]) -> None:
        self._jvm = jvm
        self._note = note
        self._places: dict[str, str] = {}
        self._off: dict[str, str] = {}
        self._final: dict[str, StateRestore] = {}
        self._lock = threading.Lock()

    def begin(self, query: str, location: str, session: Any) -> None:
        """Note a query that is started; of one that the script has stopped and starts again, the first report stays.

        :param location: Its directory, as Spark sees it.
        :param session: The session with which it is started.
        """
        off = why_off(session.conf.get(PROVIDER, None), session.conf.get(FORMAT_VERSION, None))
        if off:
            log.warning("local recovery is off for query %s: %s", query, off)
        else:
            self._expect(query, location, session)
        with self._lock:
            self._places[query], self._off[query] = location, off

    def _expect(self, query: str, location: str, session: Any) -> None:
        manager = session._jsparkSession.streams()  # noqa: SLF001  # pyspark has no public way to it
        partitions = int(session.conf.get(_PARTITIONS))
        try:
            self._jvm.io.github.sparkha.StatePlacement.expect(manager, query, location, partitions)
        except Exception as error:  # noqa: BLE001  # Spark places its tasks alone
            log.debug("the tasks of query %s are not placed where their copies are: %s", query, error)

    def figures(self, query: str, *, committed: bool) -> Mapping[str, Any]:
        """Return the field of a ``QueryStatus`` with the report of a query; empty before its start.

        :param committed: Whether it has committed a batch after its start: the report is final.
        """
        with self._lock:
            place, known = self._places.get(query), self._final.get(query)
            if place is None:
                return {}
            report = known or self._read(place, self._off[query])
            if report is None:
                return {}
            if known is None and committed:
                self._final[query] = report
                self._note(self._final)
        return {"state_restore": report}

    def all(self) -> dict[str, StateRestore]:
        """Return the reports of all queries that are known, by the queries' names."""
        with self._lock:
            known = {
                query: self._final.get(query) or self._read(place, self._off[query])
                for query, place in self._places.items()
            }
        return {query: report for query, report in known.items() if report is not None}

    def copies(self) -> CopyCost | None:
        """Return what the copies have cost since the driver started; ``None`` if its JVM does not answer."""
        try:
            size, micros = map(int, str(self._jvm.io.github.sparkha.StateReads.made()).split())
        except Exception as error:  # noqa: BLE001  # a JVM that does not answer has ended
            log.debug("the cost of copies is not known: %s", error)
            return None
        return CopyCost(size, micros / _MICROSECONDS)

    def _read(self, place: str, off: str) -> StateRestore | None:
        reads = self._jvm.io.github.sparkha.StateReads
        try:
            copies, copy_bytes, files, size, micros, placed = map(int, str(reads.of(place)).split())
            refused = str(reads.refusals())
        except Exception as error:  # noqa: BLE001  # a JVM that does not answer has ended, and its job with it
            log.debug("the restore of the state is not known: %s", error)
            return None
        return StateRestore(
            copy_files=copies,
            copy_bytes=copy_bytes,
            store_files=files,
            store_bytes=size,
            seconds=round(micros / _MICROSECONDS, 3),
            placed=placed,
            off=off or public(refused),
        )
