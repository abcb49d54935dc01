"""The handle of a query that is not started, in a script that runs for other queries only: in a drill or a drain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class EndedQuery:
    """The handle of a query that was not started: to the script it has already ended.

    :param wait: Called when the script waits for its end; returns when the script is to continue. By default
        immediately.
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
        """Return immediately, or never."""
        if self._wait is not None:
            self._wait(f"query {self.name!r}")
        return None if timeout is None else True

    def processAllAvailable(self) -> None:  # noqa: N802  # pyspark's name
        """Return immediately."""

    def stop(self) -> None:
        """Do nothing."""

    def exception(self) -> None:
        """Report no error."""
