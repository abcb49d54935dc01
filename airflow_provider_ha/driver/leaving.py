"""The end of the driver's process: immediate, with a reason on disk if time allows.

A process that lost its job must not write: no ``finally``, no ``atexit``, no graceful end of Spark, which would commit
the batch in flight (design, contract 8).

Invariant: no error and no blocked call keeps the process alive. A full disk, a pipe without a reader, an unresponsive
network mount, a lock of ``logging`` or of ``sys.stdout`` held by another thread: all occur on the way out, and often
together. So the JVM is killed first, each message has its own thread, all messages share a few seconds, and
``os._exit`` comes in a ``finally``.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from airflow_provider_ha.driver.evidence import failure_of_driver
from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.failure import write_failure
from airflow_provider_ha.driver.script_surroundings import flush_files
from airflow_provider_ha.errors import ApplicationRefusedError, LeadershipError
from airflow_provider_ha.jobs.failures import Failure, FailureKind


log = logging.getLogger(__name__)

WORDS_SECONDS = 5.0  # for the messages of a driver that leads until it ends
REPARENT_SECONDS = 0.5
_ECHOES = (ExitCode.FAILED, ExitCode.RESTART_WANTED)
LAST_WORDS_SECONDS = 0.5  # without the leadership: its Python may be in the middle of a foreachBatch function


class ProcessTerminator:
    """The way out of a driver.

    :param directory: The submission's own directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._jvm: int | None = None

    def owns_jvm(self, pid: int) -> None:
        """Remember the JVM, so that it can be killed when the leadership is lost."""
        self._jvm = pid if pid == os.getppid() else None  # in client mode spark-submit's JVM is our parent

    def leave(
        self,
        code: ExitCode,
        reason: str = "",
        *,
        error: BaseException | None = None,
        failure: Failure | None = None,
    ) -> NoReturn:
        """End this process now; output that can be flushed is flushed.

        :param reason: Why, for the supervisor and the log; not reported with ``DONE``.
        :param error: Logged with its traceback.
        :param failure: The classified failure, for the restart strategy.
        """

        def tell_log() -> None:
            if code is not ExitCode.DONE:
                log.error("the driver ends with %s (%d): %s", code.name, code, reason, exc_info=error)
            logging.shutdown()
            sys.stderr.flush()

        def leave_reason() -> None:
            if code is not ExitCode.DONE:
                write_failure(self._directory, code, reason, failure)

        def flush_output() -> None:
            flush_files()

        try:
            if code in _ECHOES and self._has_lost_jvm(failure):
                self.jvm_gone(f"the JVM (pid {self._jvm}) is gone")
            _say([leave_reason, tell_log, flush_output], WORDS_SECONDS)
        finally:
            os._exit(code)

    def leadership_lost(self, reason: str) -> NoReturn:
        """End this process and its JVM, which must not act without the leadership."""
        try:
            self._kill_jvm()
            self._say_last(ExitCode.LEADERSHIP_LOST, f"leadership lost: {reason}", reason)
        finally:  # guard: interrupted-loss-lives-on
            os._exit(ExitCode.LEADERSHIP_LOST)

    def jvm_gone(self, reason: str) -> NoReturn:
        """End this process because its JVM has ended: the job can no longer be written for."""
        try:
            self._say_last(ExitCode.JVM_GONE, reason, reason)
        finally:
            os._exit(ExitCode.JVM_GONE)

    def thread_failed(self, error: BaseException) -> NoReturn:
        """End this process because one of its threads cannot continue: a partial driver would look complete."""
        if isinstance(error, LeadershipError):
            self.leadership_lost(_text(error))
        if isinstance(error, ApplicationRefusedError):  # its thread has ended the run
            self.leave(ExitCode.REFUSED, _text(error))
        try:
            reason = f"{type(error).__name__}: {_text(error)}"
            self.leave(ExitCode.FAILED, reason, error=error, failure=failure_of_driver(error))
        finally:
            os._exit(ExitCode.FAILED)

    def _has_lost_jvm(self, failure: Failure | None) -> bool:
        """Return whether the JVM has ended: a thread then meets an error of py4j before the watchdog sees the end.

        Its sockets are closed some moments before the kernel gives its children to another parent.
        """
        if self._jvm is None:
            return False
        certain = failure is not None and failure.kind is FailureKind.APPLICATION
        end = time.monotonic() + (0.0 if certain else REPARENT_SECONDS)
        while os.getppid() == self._jvm and time.monotonic() < end:
            time.sleep(0.02)
        return os.getppid() != self._jvm

    def _kill_jvm(self) -> None:
        if self._jvm is not None and self._jvm == os.getppid():
            with contextlib.suppress(OSError):
                os.kill(self._jvm, signal.SIGKILL)

    def _say_last(self, code: ExitCode, line: str, reason: str) -> None:
        # Without logging: a thread that waits for a reader of stderr may hold its lock.
        _say(
            [
                lambda: write_failure(self._directory, code, reason),
                lambda: print(f"spark-ha: {line}", file=sys.stderr, flush=True),  # noqa: T201  # see above
            ],
            LAST_WORDS_SECONDS,
        )


def _say(words: Sequence[Callable[[], None]], seconds: float) -> None:
    """Call each of *words* in its own thread, where it may fail; return when all are done, or after *seconds*."""
    end = time.monotonic() + seconds
    speakers = []
    for word in words:
        speaker = threading.Thread(target=word, name="last-words", daemon=True)
        with contextlib.suppress(RuntimeError):  # the system has no thread left: that message is lost
            speaker.start()
            speakers.append(speaker)
    for speaker in speakers:
        speaker.join(max(0.0, end - time.monotonic()))


def _text(error: BaseException) -> str:
    """Return the text of an error; an unprintable error must not keep the process alive."""
    try:
        return str(error)
    except BaseException as second:  # noqa: BLE001  # see above
        return f"its text could not be made ({type(second).__name__})"
