"""End of the driver's process: an immediate exit, with or without JVM and leadership.

A process that lost its job must not write: no ``finally``, no ``atexit``, no graceful end of Spark, which would commit
the batch in flight (design, contract 8).

Invariant: no error and no blocked call keeps the process alive. A full disk, a pipe without a reader, an unresponsive
network mount, a lock of ``logging`` or of ``sys.stdout`` held by another thread: all occur on the way out, and often
together. So the JVM is killed first, each message has its own thread, all messages share a few seconds, and
``os._exit`` comes in a ``finally``.

The kernel kills the JVM with its supervisor (PDEATHSIG), but not the driver's Python: a sleeping script never talks to
the JVM again, and its heartbeats would hold the lock of an idle job. In client mode the JVM is our parent, so a changed
parent means that the JVM has ended.

The heartbeats log and talk to ZooKeeper; both can block. The thread that watches the parent does neither: it compares
numbers, and ends the process.
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

from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, failure_of_driver, write_failure
from airflow_provider_ha.driver.script_environment import flush_files
from airflow_provider_ha.errors import ApplicationRefusedError, LeadershipError
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind


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
            if code in _ECHOES and self.has_lost_jvm(failure):
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

    def crash(self) -> NoReturn:
        """Kill the JVM and this process, without a word: what a person rehearses."""
        self._kill_jvm()
        while True:
            os.kill(os.getpid(), signal.SIGKILL)

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

    def has_lost_jvm(self, failure: Failure | None = None) -> bool:
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
        return f"its text could not be created ({type(second).__name__})"


LOOK_SECONDS = 0.5
_JUST_AFTER = 0.01  # seconds: a check at the very end of the lease could still find it alive


class Watchdog:
    """Watches over a driver in its own thread, which ends with the process.

    Made before the driver opens any connection: its parent at that moment is the JVM. If the JVM has died even earlier,
    the driver cannot connect to it once it leads, and ends for that reason.

    :param way_out: The end of the driver.
    """

    def __init__(self, way_out: ProcessTerminator) -> None:
        self._way_out = way_out
        self._jvm = os.getppid()
        self._leadership: Leadership | None = None
        self._followed = threading.Event()

    def start(self) -> None:
        """Begin to watch."""
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def follow(self, leadership: Leadership) -> None:
        """From now on, also watch over this leadership."""
        self._leadership = leadership
        self._followed.set()

    def _watch(self) -> None:
        try:
            while True:
                self._look()
                self._followed.wait(self._pause())
                self._followed.clear()
        except BaseException as error:  # noqa: BLE001  # a driver without its watchdog could outlive its JVM
            self._way_out.thread_failed(error)

    def _look(self) -> None:
        if os.getppid() != self._jvm:
            self._way_out.jvm_gone(f"the JVM (pid {self._jvm}) is gone")
        doubt = self._leadership.doubt() if self._leadership is not None else ""  # guard: lease-ends-unwatched
        if doubt:
            self._way_out.leadership_lost(doubt)

    def _pause(self) -> float:
        """Return the seconds until the next check: no later than just after the end of the lease."""
        left = self._leadership.lease_left() if self._leadership is not None else 0.0
        return min(LOOK_SECONDS, left + _JUST_AFTER) if left > 0 else LOOK_SECONDS
