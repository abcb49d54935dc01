"""The thread that removes old checkpoints, so that the removal of many files never delays the next checkpoint.

Invariant: incomplete removals stay on the deletion list in ZooKeeper, for the next turn or for the next leader. A
failed removal is logged and disturbs no other work (C3); a lost leadership ends the driver.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from airflow_provider_ha.errors import HaError, LeadershipError


log = logging.getLogger(__name__)
RETRY_SECONDS = 30.0


Clean = Callable[[Callable[[], bool]], bool]
"""Removes superfluous objects while its argument returns true; returns whether it is done for now."""


class RemovalLoop:
    """Cleans up when woken, and again every half a minute; immediately while work is left.

    :param clean: Removes superfluous objects. It should return when the loop is woken or stopped.
    :param failed: Called with the error of a thread that cannot continue.
    """

    def __init__(self, clean: Clean, failed: Callable[[BaseException], None]) -> None:
        self._clean = clean
        self._failed = failed
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="removal", daemon=True)

    def start(self) -> None:
        """Start the thread; its first turn continues the work of an earlier leader."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """Clean up soon. Does not block."""
        self._wake.set()

    def stop(self) -> None:
        """End the thread after a last turn."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            done = True
            while True:
                if done:
                    self._wake.wait(RETRY_SECONDS)
                self._wake.clear()
                last = self._stopping.is_set()
                done = self._turn()
                if last:
                    return
        except BaseException as error:  # noqa: BLE001  # a deposed leader must notice
            self._failed(error)

    def _undisturbed(self) -> bool:
        return not (self._wake.is_set() or self._stopping.is_set())

    def _turn(self) -> bool:
        try:
            return self._clean(self._undisturbed)
        except LeadershipError:
            raise
        except (HaError, OSError) as error:
            log.warning("old checkpoints could not be removed; they stay on the list: %s", error)
            return True
