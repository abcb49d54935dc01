"""The newest batch of every query, as Spark has reported it; the job's status shows it next to the directories."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from airflow_provider_ha.driver.trigger_figures import Trigger


class ReportedTriggers:
    """The newest batch of every query. Thread-safe.

    A trigger without data is not kept: an idle job then has constant figures, and writes no status.
    """

    def __init__(self) -> None:
        self._newest: dict[str, Trigger] = {}
        self._lock = threading.Lock()

    def note(self, query: str, trigger: Trigger) -> None:
        """Note a report of a query."""
        if not trigger.executed:
            return
        with self._lock:
            self._newest[query] = trigger

    def newest(self, query: str) -> Trigger | None:
        """Return the newest batch of a query; ``None`` before the first one in this epoch."""
        with self._lock:
            return self._newest.get(query)

    def all(self) -> Mapping[str, Trigger]:
        """Return query -> its newest batch, without queries that have none."""
        with self._lock:
            return dict(self._newest)

    def batches(self) -> Mapping[str, int]:
        """Return query -> its newest batch."""
        with self._lock:
            return {query: trigger.batch for query, trigger in self._newest.items()}

    def figures(self, query: str) -> Mapping[str, Any]:
        """Return the fields of a ``QueryStatus`` that the newest batch of a query gives; empty before the first one."""
        newest = self.newest(query)
        if newest is None:
            return {}
        return {
            "batch_at": newest.at,
            "batch_seconds": newest.seconds,
            "input_rows": newest.input_rows,
            "input_rate": newest.input_rate,
            "processed_rate": newest.processed_rate,
            "lag": newest.lag,
            "committed_at": newest.ended_at,
        }
