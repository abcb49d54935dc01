"""Process trees and sessions: start a tree that dies with this process, limit its log, and kill it completely.

Invariant: after :meth:`ProcessTree.kill` all processes that this one started, directly or indirectly, are gone, however
they detached themselves. This is the meaning of "proof of death" (design, contract 10).

spark-submit, the JVM, its Python and their children write to one inherited descriptor, opened for appending. It cannot
be replaced under them. A process between them and the file is no alternative: it would block the driver when it is
stopped, and break the driver's output when it dies. So the log is copied and then truncated, and its writers continue
at the new end (logrotate's ``copytruncate``). Invariants of the rotation:

- It never holds, delays or ends a driver. One thread of the supervisor works on files alone, and when the supervisor
  dies the driver dies with it.
- The log is truncated even if a full disk prevents keeping it: then only its end is kept. A log that fills the disk
  would end the driver.
- ``driver.log.1`` is the newest kept file. A kept file never changes, except for its number; it gets its name after the
  log is truncated, so a reader never finds the same lines in both (``jobs.drivers.driver_log``).
- Output written between the last read and the truncation is lost: microseconds, more on an overloaded machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import BinaryIO

import psutil

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.drivers.driver_spec import OWNER_ONLY
from airflow_provider_ha.jobs.options.job_options import HaOptions


log = logging.getLogger(__name__)


_KILL_INTERVAL = 0.02


KILL_SECONDS = 30.0


def kill_session(process: subprocess.Popen[bytes]) -> None:
    """Kill every process that the child started: the JVM and its workers stay in its session, under any parent."""
    end = time.monotonic() + KILL_SECONDS
    while members := _members(process.pid):
        for member in members:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        if time.monotonic() > end:
            log.warning("processes of a proof are still dying: %s", [member.pid for member in members])
            break
        process.poll()
        time.sleep(_KILL_INTERVAL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _members(session: int) -> list[psutil.Process]:
    found = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.NoSuchProcess):
            if os.getsid(pid) == session and (member := psutil.Process(pid)).status() != psutil.STATUS_ZOMBIE:
                found.append(member)
    return found


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded before any fork: the child may not load libraries

END_SIGNALS = (signal.SIGTERM, signal.SIGINT)  # requests to a supervisor to end, obeyed after its work
_SHELL = 128  # offset that an exit status adds to the number of a signal
_MEANINGS: Mapping[int, str] = {
    signal.SIGKILL: "unless a person sent it, the host was out of memory",
    signal.SIGTERM: "its host or process manager requested its end",
    signal.SIGINT: "its host or process manager requested its end",
}

_REMIND_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Death:
    """End of a submission's processes, all dead.

    :param code: Exit code of the JVM, negative for a signal.
    :param pids: Every process ever seen.
    :param reason: First end of a process.
    :param outage: Storage or ZooKeeper prevented the start of the driver.
    :param refused: The job itself prevented the start, as it would on every host.
    :param unfit: This host prevented the start, because it lacks a file or program.
    :param jvm: Exit code of the JVM if it ended before this process killed any other, negative for a signal.
    """

    code: int
    pids: tuple[int, ...]
    reason: str
    outage: bool = False
    refused: bool = False
    unfit: bool = False
    jvm: int | None = None

    @property
    def signal(self) -> int | None:
        """Signal that ended the JVM, from outside or by a crash; ``None`` for another end."""
        return None if self.jvm is None else signal_of(self.jvm)


def signal_of(code: int) -> int | None:
    """Return the signal in an exit code: negative, or above 128 in the convention of shells and the JVM."""
    number = -code if code < 0 else code - _SHELL
    return number if 0 < number < signal.NSIG else None


def end_of_jvm(pid: int, code: int) -> str:
    """Return a sentence on the end of a JVM that this process has not killed."""
    number = signal_of(code)
    if number is None:
        return f"the JVM (pid {pid}) ended with exit status {code}"
    try:
        name = signal.Signals(number).name
    except ValueError:  # a signal without a name
        name = "no name"
    meaning = _MEANINGS.get(number, "the JVM crashed, or another process sent the signal: its log has details")
    return f"the JVM was killed by signal {number} ({name}); {meaning} (pid {pid}, exit status {_SHELL + number})"


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that a detached process is still found and reaped.

    :raises ConfigurationError: The system does not support it (not Linux).
    """
    if _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise ConfigurationError(
            f"this process cannot become a subreaper (errno {ctypes.get_errno()})",
            next_step="Run drivers on Linux; without a subreaper their death cannot be proven",
        )


def _die_with(parent: int) -> None:
    """Request, in the child before exec, SIGKILL when the thread that started it ends. Survives exec, not a fork."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # guard: jvm-outlives-its-supervisor
    if os.getppid() != parent:  # it died before the request was made
        os._exit(1)


class ProcessTree:
    """Child process and all its descendants.

    The caller must be a subreaper and start the tree from its main thread, because PDEATHSIG follows the thread.

    :param command: Program and its arguments.
    :param env: Complete environment of the child.
    :param directory: Working directory of the child.
    :param log_file: File to which the output is appended.
    """

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], directory: Path, log_file: Path) -> None:
        parent = os.getpid()
        with log_file.open("ab") as output:
            self._child = subprocess.Popen(
                list(command),
                env=dict(env),
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=lambda: _die_with(parent),  # noqa: PLW1509  # one-threaded caller; there is no other way to set it
            )
        self.pid = self._child.pid
        self.seen: set[int] = {self.pid}
        self._code: int | None = None

    @property
    def code(self) -> int | None:
        """Exit code of the child, negative for a signal; ``None`` while it lives."""
        self.reap()
        return self._code

    def reap(self) -> None:
        """Collect every dead child, because an adopted orphan would otherwise stay a zombie and look alive."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self.seen.add(pid)
            if pid == self.pid:
                self._code = os.waitstatus_to_exitcode(status)
                self._child.returncode = self._code

    def kill(self) -> tuple[int, ...]:
        """Kill all descendants, repeatedly, until all are gone. Return every process id ever seen.

        There is no timeout: as long as a process lives (in uninterruptible sleep, or under another user, whom only root
        may kill), the death is not proven.
        """
        remind = time.monotonic() + _REMIND_SECONDS
        denied: set[int] = set()
        while True:
            self.reap()
            alive = psutil.Process().children(recursive=True)
            if not alive:
                # The kernel's answer "no child at all" also covers a child that was born after the list was made.
                if self._has_no_child():
                    return tuple(sorted(self.seen))
                continue
            for process in alive:
                self.seen.add(process.pid)
                try:
                    process.kill()
                except psutil.NoSuchProcess:
                    continue
                except psutil.AccessDenied:
                    if process.pid not in denied:
                        log.warning("process %d may not be killed by this user: waiting for its end", process.pid)
                    denied.add(process.pid)
            if time.monotonic() > remind:
                log.warning("still waiting for the death of %s", [process.pid for process in alive])
                remind = time.monotonic() + _REMIND_SECONDS
            time.sleep(_KILL_INTERVAL)

    @staticmethod
    def _has_no_child() -> bool:
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return True
        return False


class DeathWatch:
    """Watch for the end of a process that is not a child of this one, even before its parent reaps it.

    A pidfd always refers to the same process: another process that reuses the id is not mistaken for it.

    :param pid: Id of the process.
    :raises ProcessLookupError: The process is already gone.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def dead(self) -> bool:
        """Return whether the process has ended."""
        readable, _, _ = select.select([self._descriptor], [], [], 0)
        return bool(readable)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self._descriptor)


LOOK_SECONDS = 0.5
_MOST_KEPT = 1024 * 1024  # bytes kept of a log that cannot be kept as a whole
_ROUNDS = 100  # seconds of catching up with a writer before the log is cut anyway
_COPY = ".driver.log.copy"


def rotate_log(path: Path, options: HaOptions) -> None:
    """Keep the log of a driver within the limits of its job, for the lifetime of this process."""
    LogRotation(path, size=options.driver_log_mb * 1_000_000, files=options.driver_log_files).start()


class LogRotation:
    """Rotation of a log.

    :param path: Path of the log; its writers append.
    :param size: Bytes; a larger log is rotated.
    :param files: Maximum number of files, the log itself included.
    """

    def __init__(self, path: Path, *, size: int, files: int) -> None:
        self._path = path
        self._size = size
        self._files = files
        self._complained = False
        # Only for the standard library's naming; it never opens the log itself.
        self._names = RotatingFileHandler(path, backupCount=files - 1, delay=True)

    def start(self) -> None:
        """Check the log from time to time, for the lifetime of this process."""
        threading.Thread(target=self._look_for_ever, name="log-rotation", daemon=True).start()

    def look(self) -> None:
        """Rotate the log if it is large enough.

        :raises OSError: The log could not be read or truncated.
        """
        if self._path.stat().st_size < self._size:
            return
        with self._path.open("r+b") as source:
            try:
                kept = self._files > 1 and self._keep(source)
            except OSError as error:
                log.warning("%s cannot be kept as a whole, its end stays: %s", self._path, error)
                kept = False
            if not kept:
                self._cut_to_its_end(source)

    def _look_for_ever(self) -> None:
        while True:
            try:
                self.look()
            except Exception as error:  # noqa: BLE001  # a log that cannot be rotated is no reason to end a supervisor
                if not self._complained:
                    log.warning("%s is not rotated: %s", self._path, error)
                self._complained = True
            time.sleep(LOOK_SECONDS)

    def _keep(self, source: BinaryIO) -> bool:
        """Move the content of the log into the first kept file.

        :raises OSError: The content could not be copied; the log is unchanged.
        """
        aside = self._path.with_name(_COPY)
        try:
            with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "wb") as copy:
                _catch_up(source, copy)  # first the slow part, which may not fit on the disk
                self._names.rotator = lambda _, kept: self._cut_and_name(source, copy, aside, kept)
                self._names.doRollover()
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        return True

    @staticmethod
    def _cut_and_name(source: BinaryIO, copy: BinaryIO, aside: Path, kept: str) -> None:
        for _ in range(_ROUNDS):
            _catch_up(source, copy)
            if os.fstat(source.fileno()).st_size == source.tell():
                break
        os.ftruncate(source.fileno(), 0)
        aside.replace(kept)

    def _cut_to_its_end(self, source: BinaryIO) -> None:
        descriptor = source.fileno()
        size, most = os.fstat(descriptor).st_size, min(_MOST_KEPT, self._size // 4)
        end = os.pread(descriptor, most, size - most).partition(b"\n")[2]
        os.ftruncate(descriptor, 0)
        note = f"spark-ha: {size - len(end)} bytes of this log were removed: they could not be kept\n"
        with contextlib.suppress(OSError), self._path.open("ab") as sink:  # the disk has no room for the end either
            sink.write(note.encode() + end)


def _catch_up(source: BinaryIO, copy: BinaryIO) -> None:
    shutil.copyfileobj(source, copy, 1024 * 1024)
    copy.flush()
