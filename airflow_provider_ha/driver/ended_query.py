"""The handle of a query that is not started, where a script runs for other queries only: in a drill, and in a drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class EndedQuery:
    """The handle of a query that was not started: for the script it has ended already.

    :param wait: Called where the script waits for its end; returns when the script is to go on. Left out: at once.
    """

    def __init__(self, name: str | None, wait: Callable[[str], None] | None = None) -> None:
        self.name = name
        self.id = self.runId = ""
        self.isActive = False
        self.lastProgress = None
        self.recentProgress: list[Any] = []
        self.status = {"message": "not started", "isDataAvailable": False, "isTriggerActive": False}
        self._wait = wait

    def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802  # pyspark's name
        """Return at once, or not at all."""
        if self._wait is not None:
            self._wait(f"query {self.name!r}")
        return None if timeout is None else True

    def processAllAvailable(self) -> None:  # noqa: N802  # pyspark's name
        """Return at once."""

    def stop(self) -> None:
        """Do nothing."""

    def exception(self) -> None:
        """Nothing went wrong."""
