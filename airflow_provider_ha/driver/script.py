"""Run of the user's script, as by ``python SCRIPT``: main module, arguments, path, threads, shared state.

A table in ``docs/how-to/run-a-job.md`` lists the differences to a plain Python, each with its reason.

A thread is the script's when the script's code, or a library that it calls, starts it. Threads of Spark, py4j and this
package are excluded, even if they begin while the script runs.

The script runs on the main thread and assumes that it is alone. A stop of its queries sets ``stopping`` first and
``ended`` last; a patched call that finds ``stopping`` set waits for ``ended``, so that the script can neither interrupt
another query nor close the session (SPARK: ``spark.stop()`` cancels the job of a half-written batch).
"""

from __future__ import annotations

import builtins
import functools
import gc
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import FrameType, ModuleType
from typing import NoReturn

from airflow_provider_ha.driver.script_environment import EndSignals, ExitFunctions, ScriptEnvironment, flush_files
from airflow_provider_ha.errors import HaError


_LOOK_SECONDS = 0.2
_PACKAGE = str(Path(__file__).parents[1])


class ScriptThreads:
    """The threads that a script starts.

    :param directory: Directory of the script and its modules.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._own: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        self._closed: set[threading.Thread] = set()
        self._main_is_over = threading.Event()

    def watch(self) -> None:
        """From now on, note which threads the script starts."""
        self._watch_main()
        original: Callable[[threading.Thread], None] = threading.Thread.start

        @functools.wraps(original)
        def start(thread: threading.Thread) -> None:
            if self.starts(sys._getframe(1)):  # noqa: SLF001  # the public function reads the source of each frame
                self._own.add(thread)
            original(thread)

        setattr(threading.Thread, "start", start)  # noqa: B010  # the type checker lets no method be replaced

    def _watch_main(self) -> None:
        """Report the main thread as alive to the script's threads until :meth:`end_main`, after which it continues."""
        is_over, main = self._main_is_over, threading.main_thread()

        class MainThread(type(main)):  # type: ignore[misc]  # its class has no public name
            def is_alive(self) -> bool:
                return not is_over.is_set()

            def join(self, timeout: float | None = None) -> None:
                if threading.current_thread() is self:
                    super().join(timeout)  # Python's own error
                is_over.wait(timeout)

        main.__class__ = MainThread

    def begin_main(self) -> None:
        """Report the main thread as alive."""
        self._main_is_over.clear()

    def end_main(self) -> None:
        """Report the main thread as over, as Python does before it waits for the other threads."""
        self._main_is_over.set()

    def holds(self, thread: threading.Thread | None) -> bool:
        """Return whether a thread is the script's, and no daemon."""
        return thread is not None and not thread.daemon and thread in self._own

    def left(self) -> list[threading.Thread]:
        """Return the live threads that are no daemons."""
        return [thread for thread in threading.enumerate() if self.holds(thread)]

    def wait(self) -> None:
        """Wait a moment for any of the threads.

        A pool that is left to the end of the interpreter is closed for new tasks, as Python then does: its threads end
        after their current tasks.
        """
        left = self.left()
        if new := set(left) - self._closed:
            self._closed |= new
            _close_pools(new)
        if left:
            left[0].join(_LOOK_SECONDS)

    def starts(self, frame: FrameType | None) -> bool:
        """Return whether a call in *frame* is the script's: made by its code, or by a library called from its code."""
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(self._directory):
                return True
            if file.startswith(_PACKAGE):
                return False
            frame = frame.f_back
        return threading.current_thread() in self._own


def _close_pools(threads: Collection[threading.Thread]) -> None:
    """Close the pools of these threads. Python's own end of all pools would also close the driver's."""
    for found in gc.get_objects():
        if issubclass(type(found), ThreadPoolExecutor):
            own = not found._threads.isdisjoint(threads)  # noqa: SLF001  # Python's own end has no public name either
        elif issubclass(type(found), ProcessPoolExecutor):
            own = found._executor_manager_thread in threads  # noqa: SLF001  # the same
        else:
            continue
        if own:
            found.shutdown(wait=False)


class Lifecycle:
    """Flags of the script's run."""

    def __init__(self) -> None:
        self.stopping = threading.Event()  # every query is being stopped together
        self.ended = threading.Event()  # and all queries have ended
        self.script_ended = threading.Event()
        self.leaving = threading.Event()  # the run has its result, the session is about to be closed
        self.refusal: HaError | None = None
        self._end_claimed = False
        self._lock = threading.Lock()
        self._starting = 0
        self._no_start = threading.Condition(self._lock)

    @contextmanager
    def start_of_a_query(self) -> Iterator[bool]:
        """Delay a stop while a query is being started; yields ``False`` when a stop is already under way."""
        with self._no_start:
            admitted = not self.stopping.is_set()
            self._starting += admitted
        try:
            yield admitted
        finally:
            with self._no_start:
                self._starting -= admitted
                self._no_start.notify_all()

    def begin_stop(self) -> None:
        """Prevent further starts of queries. A start in progress may still complete: :meth:`starts_are_over`."""
        with self._no_start:
            self.stopping.set()

    def starts_are_over(self, timeout: float) -> bool:
        """Wait until all starts in progress are over, at most *timeout* seconds; returns whether they are."""
        with self._no_start:
            return self._no_start.wait_for(lambda: self._starting == 0, timeout)

    def refuse(self, error: HaError) -> HaError:
        """Remember why the script cannot run, even if it swallows the error. Returns *error*; the first one stays."""
        with self._lock:
            self.refusal = self.refusal or error
        return error

    def claim_end(self) -> bool:
        """Return whether the caller ends the run: either a stop or the script, never both."""
        with self._lock:
            first, self._end_claimed = not self._end_claimed, True
        return first

    def give_end_back(self) -> None:
        """Undo :meth:`claim_end`, for a caller that finds that the run does not end."""
        with self._lock:
            self._end_claimed = False

    def wait_when_stopping(self) -> None:
        """Return when no stop is under way, or when the current one is over."""
        if self.stopping.is_set():
            self.ended.wait()


EXIT_SECONDS = 60.0  # for the last actions of the script


class Script:
    """The script of a run. May be run more than once in a process: the drain does.

    :param path: The script.
    :param arguments: Its arguments, without its name.
    """

    def __init__(self, path: Path, arguments: Sequence[str]) -> None:
        self._path = path
        self._arguments = list(arguments)
        self._environment = ScriptEnvironment()
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
            counts = ended is not None and not isinstance(ended, SystemExit) and self.threads.holds(failed.thread)
            try:
                hook(failed)  # first: once the failure is known, the process may end before the last line is written
            finally:
                self._of_threads = self._of_threads or (ended if counts else None)

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
