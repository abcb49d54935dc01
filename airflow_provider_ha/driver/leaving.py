"""How the driver's process ends: at once, and with a reason on disk.

A process that lost its job must not write anything more: no ``finally``, no ``atexit``, no graceful end of Spark, which
would commit the batch in flight (design, contract 8).
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.failure import write_failure
from airflow_provider_ha.errors import LeadershipError


log = logging.getLogger(__name__)


class Exit:
    """The way out of one driver.

    :param directory: The submission's own directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._jvm: int | None = None

    def owns_jvm(self, pid: int) -> None:
        """Remember the JVM, so that it can be killed when the leadership is lost."""
        self._jvm = pid if pid == os.getppid() else None  # in client mode spark-submit's JVM is our parent

    def leave(self, code: ExitCode, reason: str = "") -> NoReturn:
        """End this process now."""
        if code is not ExitCode.DONE:
            write_failure(self._directory, code, reason)
            log.error("the driver ends with %s (%d): %s", code.name, code, reason)
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def leadership_lost(self, reason: str) -> NoReturn:
        """End this process and its JVM: what the JVM still does would be a zombie's work."""
        write_failure(self._directory, ExitCode.LEADERSHIP_LOST, reason)
        print(f"spark-ha: leadership lost: {reason}", file=sys.stderr, flush=True)  # noqa: T201  # the one line; logging may be blocked
        if self._jvm is not None and self._jvm == os.getppid():
            with contextlib.suppress(OSError):
                os.kill(self._jvm, signal.SIGKILL)
        os._exit(ExitCode.LEADERSHIP_LOST)

    def thread_failed(self, error: BaseException) -> None:
        """End this process because one of its threads cannot go on: half a driver would look like a whole one."""
        if isinstance(error, LeadershipError):
            self.leadership_lost(str(error))
        log.error("a thread of the driver failed", exc_info=error)
        self.leave(ExitCode.FAILED, f"{type(error).__name__}: {error}")
