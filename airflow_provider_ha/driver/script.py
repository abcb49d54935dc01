"""Runs the user's script as ``python SCRIPT`` does: its own ``__main__``, arguments and path, and all of its threads.

A table in ``docs/how-to/run-a-job.md`` lists the differences to a plain Python, each with its reason.
"""

from __future__ import annotations

import builtins
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from airflow_provider_ha.driver.script_surroundings import (
    EndSignals,
    Environment,
    ExitFunctions,
    flush_files,
)
from airflow_provider_ha.driver.script_threads import ScriptThreads


EXIT_SECONDS = 60.0  # for the last actions of the script


class Script:
    """The script of a run. May be run more than once in a process: the drain does.

    :param path: The script.
    :param arguments: Its arguments, without its name.
    """

    def __init__(self, path: Path, arguments: Sequence[str]) -> None:
        self._path = path
        self._arguments = list(arguments)
        self._environment = Environment()
        self._of_threads: BaseException | None = None
        self._watching = False
        self.threads = ScriptThreads(path.parent)
        self.signals = EndSignals()
        self._exit_functions = ExitFunctions()
        self.error: BaseException | None = None
        """Exception of the last run, ``sys.exit`` with a failure included."""

    @property
    def name(self) -> str:
        """Its file name."""
        return self._path.name

    @property
    def directory(self) -> Path:
        """Directory of the script and its modules."""
        return self._path.parent

    def run(self, late: Callable[[str | None], None] | None = None) -> str | None:
        """Run it on this thread to the end of its last non-daemon thread, then its ``atexit``, as Python does.

        An exception in any such thread ends the script, once its main thread is over: in a plain Python the query of
        that thread would be gone, and the process would live on without it.

        :param late: Called on another thread, with the value to be returned, when the functions of ``atexit`` take more
            than :data:`EXIT_SECONDS`; this call may then never return.
        :returns: Why it failed, or ``None`` when it ended well (also with ``sys.exit(0)``).
        """
        failure = self.run_main()
        self.threads.end_main()
        while failure is None and self._of_threads is None and self.threads.left():
            self.threads.wait()
        if failure is None and self._of_threads is not None:
            self.error = self._of_threads
            failure = self._failure_of(self.error)
        timer = threading.Timer(EXIT_SECONDS, late or _nothing, [failure])
        timer.daemon = True
        timer.start()
        self._exit_functions.run()
        timer.cancel()
        return failure

    def run_main(self) -> str | None:
        """Run it on this thread, and do not wait for other threads; returns as :meth:`run`."""
        self.error = self._of_threads = None
        sys.argv = [str(self._path), *self._arguments]
        directory = str(self._path.parent)
        if sys.path[:1] != [directory]:
            sys.path.insert(0, directory)
        self._watch()
        self.threads.begin_main()
        process = os.getpid()
        failure, status = self._execute()
        if os.getpid() != process:
            self._end_fork(status)
        return failure

    def _execute(self) -> tuple[str | None, int]:
        """Execute it; return why it failed, and the exit status of a plain Python."""
        try:
            # It stays the main module: its threads, pickle and multiprocessing look for it there.
            sys.modules["__main__"] = module = self._main_module()
            exec(compile(self._path.read_bytes(), str(self._path), "exec", dont_inherit=True), vars(module))  # noqa: S102  # it is the user's program
        except SystemExit as error:
            return self._exited(error)
        except BaseException as error:  # noqa: BLE001  # any exception is a way for the script to end
            _tell(error)
            self.error = error
            return self._failure_of(error), 1
        return None, 0

    def _end_fork(self, status: int) -> NoReturn:
        """End a process that the script has forked, at the end of the script: only its parent concludes the run."""
        try:
            self.threads.end_main()
            while self.threads.left():
                self.threads.wait()
            self._exit_functions.run()
            flush_files()
        finally:
            os._exit(status)

    def _main_module(self) -> ModuleType:
        module = ModuleType("__main__")
        loader = SourceFileLoader("__main__", str(self._path))
        vars(module).update(__file__=str(self._path), __builtins__=builtins, __loader__=loader, __cached__=None)
        if sys.version_info < (3, 14):
            vars(module)["__annotations__"] = {}
        return module

    def _exited(self, error: SystemExit) -> tuple[str | None, int]:
        if error.code is None:
            return None, 0
        if not isinstance(error.code, int):
            print(error.code, file=sys.stderr, flush=True)  # noqa: T201  # Python does
        status = error.code & 0xFF if isinstance(error.code, int) else 1
        if status == 0:
            return None, 0
        self.error = error
        return self._advised(f"{self.name} ended with sys.exit({error.code!r})"), status

    def advice(self, text: str = "") -> str:
        """Return how to give the job the variables that its script missed; empty where that cannot be the reason.

        :param text: Known facts about the failure, in addition to the script's exception.
        """
        return self._environment.advice(self.error, text)

    def _failure_of(self, error: BaseException) -> str:
        return self._advised(f"{self.name} failed: {type(error).__name__}: {error}")

    def _advised(self, failure: str) -> str:
        advice = self.advice()
        return f"{failure}. {advice}" if advice else failure

    def _watch(self) -> None:
        if self._watching:
            return
        self._watching = True
        self.signals.watch()
        self.threads.watch()
        self._exit_functions.watch(self.threads.starts)
        self._environment.watch(self._path.parent)
        hook = threading.excepthook

        def note(failed: threading.ExceptHookArgs) -> None:
            ended = failed.exc_value
            if ended is not None and not isinstance(ended, SystemExit) and self.threads.holds(failed.thread):
                self._of_threads = self._of_threads or ended
            hook(failed)

        threading.excepthook = note


def _nothing(_: str | None) -> None:
    """Wait without a limit."""


def _tell(error: BaseException) -> None:
    """Show an exception as Python does, from the script's own first frame on; a script may have its own hook."""
    below = error.__traceback__.tb_next if error.__traceback__ is not None else None
    error.__traceback__ = below
    try:
        sys.excepthook(type(error), error, below)
    except BaseException as second:  # noqa: BLE001  # Python shows both, too
        print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201  # Python does
        second.__context__ = None
        traceback.print_exception(type(second), second, second.__traceback__ and second.__traceback__.tb_next)
        print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201  # the same
        traceback.print_exception(type(error), error, below)
    sys.stderr.flush()
