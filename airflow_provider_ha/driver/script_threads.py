"""The threads of a script that keep a plain Python alive when its main thread is over.

A thread is the script's when the script's code, or a library that it calls, starts it. Threads of Spark, py4j and this
package are excluded, even if they begin while the script runs.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Collection
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from types import FrameType


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
