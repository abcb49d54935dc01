"""Counts the live drivers of a home, several times a second: at no moment may there be two."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType

import psutil
from typing_extensions import Self

from tests.system.harness import processes


_INTERVAL = 0.25  # seconds


class LiveDrivers:
    """A thread that counts the JVMs of drivers.

    :ivar most: Most that were seen at once since :meth:`forget`.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._count, name="live-drivers", daemon=True)
        self.most = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def forget(self) -> None:
        """Begin a new count."""
        self.most = 0

    def watch_for(self, seconds: float) -> None:
        """Let that many seconds pass, counting."""
        self._over.wait(seconds)

    def _count(self) -> None:
        while not self._over.wait(_INTERVAL):
            self.most = max(self.most, sum(_is_driver(process, self._home) for process in psutil.process_iter()))


def _is_driver(process: psutil.Process, home: Path) -> bool:
    try:
        return process.name() == "java" and processes.is_of_a_driver(process) and processes.belongs(process, home)
    except psutil.Error:
        return False
