"""The newest restore drills of jobs, read in a separate thread.

Drills lie in storage. One that does not answer holds a call for minutes, once for each job, and no thread can be ended:
in the threads of the hub such calls would keep the looks of all other triggers waiting.

Invariants: who asks never waits for storage; no two threads read at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_ha.jobs.history.drills import Drill, DrillStore


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """The newest drill of a job.

    :param looked: When storage was asked, successfully or not; on a clock that never goes back.
    :param newest: Key and record; ``None`` without one.
    """

    looked: float
    newest: tuple[str, Drill] | None


class NewestDrills:
    """The newest drill of each live job, as far as it is known by now. For any thread.

    :param interval: Seconds between two looks at the drills of a job: each lists a folder of the storage.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self._reading = False
        self._closed = False
        self._version = 0

    @property
    def version(self) -> int:
        """Another number whenever the newest drill of any job has become another one."""
        return self._version

    def of(self, job_id: str) -> Drill | None:
        """Return what is known; ``None`` for no drill, and before the first answer."""
        with self._lock:
            known = self._known.get(job_id)
        return known.newest[1] if known is not None and known.newest is not None else None

    def read(self, client: HaClient, jobs: Sequence[str]) -> None:
        """Begin to read the drills that are due, and return at once; does nothing while a thread still reads.

        :param jobs: All live ones: of every other job nothing is kept.
        """
        with self._lock:
            if self._reading or self._closed:
                return
            there, now = set(jobs), time.monotonic()
            self._known = {job_id: known for job_id, known in self._known.items() if job_id in there}
            due = [job_id for job_id in jobs if self._is_due(job_id, now)]
            self._reading = bool(due)
        if due:
            # A daemon: the end of the process does not wait for storage.
            threading.Thread(target=self._read, args=(client, due), name="spark-ha-drills", daemon=True).start()

    def close(self) -> None:
        """Have the thread that reads, if any, end after the job at which it is."""
        self._closed = True

    def _is_due(self, job_id: str, now: float) -> bool:
        known = self._known.get(job_id)
        return known is None or now - known.looked >= self._interval

    def _read(self, client: HaClient, jobs: Sequence[str]) -> None:
        try:
            for job_id in jobs:
                if self._closed:
                    return
                self._read_one(client, job_id)
        finally:
            with self._lock:
                self._reading = False

    def _read_one(self, client: HaClient, job_id: str) -> None:
        with self._lock:
            known = self._known.get(job_id)
        before = newest = known.newest if known is not None else None
        try:
            context = client.context(job_id)
            newest = DrillStore(context.store, context.keys).newest(before)
        except Exception as error:  # noqa: BLE001
            log.warning("the drills of job %r cannot be read now: %s", job_id, error)
        with self._lock:
            self._known[job_id] = _Known(time.monotonic(), newest)
            self._version += newest != before
