"""The environment of a script: logging, functions for its end, signals, environment variables, imports of its workers.

A function of a module next to the script is pickled by its name, so each Python worker has to import it. There are two
ways:

- On the driver's host a worker's path names the directory itself, with its data files and compiled modules. That is
  enough for a local master, whose executors are processes of this host, and for the workers that Spark starts on the
  driver's host under each master (the first batch of ``transformWithState``, Python data sources).
- Executors of other hosts get an archive, which Spark unpacks among the files of each executor.

The path is no variable of the driver's own environment: there it would hide modules that the driver needs.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import io
import logging
import os
import posixpath
import re
import signal
import sys
import sysconfig
import traceback
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from airflow_provider_ha.jobs.application.archives import UNPACKED_AS
from airflow_provider_ha.query_names import shown
from airflow_provider_ha.uris import list_item


# Used in other threads of a driver: their lines at DEBUG and INFO are not only the script's.
_OF_THE_DRIVER_TOO = ("boto3", "botocore", "py4j", "s3transfer", "urllib3")
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_HANDLER = "_spark_ha_handler"
_BUFFERED = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_LOOKUPS = frozenset(
    {
        __file__,
        os.getenv.__code__.co_filename,
        Mapping.__contains__.__code__.co_filename,
        posixpath.expandvars.__code__.co_filename,
    }
)
_STANDARD = ("<frozen ", f"{Path(sysconfig.get_path('stdlib')).resolve()}/", sysconfig.get_path("stdlib") + "/")
_READ = re.compile(r"""(?:os\.py|<frozen os>)", line \d+, in __getitem__\n(?:.*\n){0,3}?.*KeyError: '([^']+)'""")


def log_beside_the_script() -> None:
    """Make this package log to stderr, without touching the root logger: the script sets that up.

    Libraries that the driver uses in other threads would fill the log of a script that wants every DEBUG line.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in (__name__.partition(".")[0], "kazoo"):
        logger = logging.getLogger(name)
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False
    for name in _OF_THE_DRIVER_TOO:
        logging.getLogger(name).setLevel(logging.WARNING)


class _Formatter(logging.Formatter):
    """Names queries as the script does."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return shown(super().format(record))


class ExitFunctions:
    """The actions that a script registers for its end: ``atexit``, finalizers, an end of its child processes.

    Actions of the driver and its libraries wait: the driver continues.
    """

    def __init__(self) -> None:
        self._given: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._finalizers: list[weakref.finalize[..., Any]] = []

    def watch(self, is_of_script: Callable[[FrameType], bool]) -> None:
        """From now on, keep the registrations of the script.

        :param is_of_script: Whether the script calls in this frame.
        """
        register, unregister = atexit.register, atexit.unregister
        exit_of_all = weakref.finalize._exitfunc  # type: ignore[attr-defined]  # noqa: SLF001  # it runs the driver's, too

        def keep(function: Callable[..., Any], /, *values: Any, **named: Any) -> Callable[..., Any]:
            own = callable(function) and function != exit_of_all
            if not own or not is_of_script(sys._getframe(1)):  # noqa: SLF001  # the public function reads the source of each frame
                return register(function, *values, **named)
            self._given.append((function, values, named))
            return function

        def forget(function: Callable[..., Any], /) -> None:
            self._given[:] = [each for each in self._given if each[0] != function]
            unregister(function)

        for name, replaced in (("register", keep), ("unregister", forget)):
            setattr(atexit, name, functools.wraps(getattr(atexit, name))(replaced))
        self._watch_finalizers(is_of_script)

    def _watch_finalizers(self, is_of_script: Callable[[FrameType], bool]) -> None:
        """Keep the actions at the end of objects, such as a ``TemporaryDirectory``."""
        original = weakref.finalize.__init__

        @functools.wraps(original)
        def make(made: Any, *values: Any, **named: Any) -> None:
            original(made, *values, **named)
            if is_of_script(sys._getframe(1)):  # noqa: SLF001  # as above
                self._finalizers[:] = [*(each for each in self._finalizers if each.alive), made]

        setattr(weakref.finalize, "__init__", make)  # noqa: B010  # the type checker lets no method be replaced

    def run(self) -> None:
        """Call them as Python does: the last one first, each even if another one fails."""
        while self._given:
            function, values, named = self._given.pop()
            _call(function, *values, **named)
        while self._finalizers:
            finalizer = self._finalizers.pop()
            if finalizer.alive and finalizer.atexit:
                _call(finalizer)
        # If the driver or a library has imported it earlier, it is registered with their functions.
        if (util := sys.modules.get("multiprocessing.util")) is not None:
            _call(util._exit_function)  # noqa: SLF001  # Python's own end has no public name either
            util._exiting = False  # type: ignore[attr-defined]  # noqa: SLF001  # a drain runs the script once more


def flush_files() -> None:
    """Write the remaining buffers of open files, as the end of a Python does; stdout's first."""
    opened = (each for each in gc.get_objects() if issubclass(type(each), _BUFFERED))
    for file in (sys.stdout, *opened):
        with contextlib.suppress(Exception):  # a file that is closed, or has lost its reader
            file.flush()


def _call(function: Callable[..., Any], *values: Any, **named: Any) -> None:
    """Call a function for the end; show its exception as Python does."""
    try:
        function(*values, **named)
    except BaseException as error:  # noqa: BLE001  # Python shows any
        below = error.__traceback__.tb_next if error.__traceback__ is not None else None
        print(f"Exception ignored in atexit callback: {function!r}", file=sys.stderr)  # noqa: T201  # Python does
        traceback.print_exception(type(error), error, below)


class EndSignals:
    """The signals that request a process to end, where the script handles them itself.

    A script that ends well after such a signal has not completed its work: an external cause has ended it.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._watching = False

    def watch(self) -> None:
        """From now on, note which end signals the script's handlers receive."""
        if self._watching:
            return
        self._watching = True
        set_handler, handler_of = signal.signal, signal.getsignal

        def wrapped(handler: Any) -> Any:
            def handle(received: int, frame: Any) -> Any:
                self.received = received
                return handler(received, frame)

            setattr(handle, _HANDLER, handler)
            return handle

        def set_signal(number: int, handler: Any) -> Any:
            own = number in _END_SIGNALS and callable(handler)
            own = own and handler is not signal.default_int_handler
            return _unwrapped(set_handler(number, wrapped(handler) if own else handler))

        def get_signal(number: int) -> Any:
            return _unwrapped(handler_of(number))

        for name, replaced in (("signal", set_signal), ("getsignal", get_signal)):
            setattr(signal, name, functools.wraps(getattr(signal, name))(replaced))


def _unwrapped(handler: Any) -> Any:
    return getattr(handler, _HANDLER, handler)


class ScriptEnvironment:
    """The variables that a script requested, and that are not set."""

    def __init__(self) -> None:
        self._missed: list[str] = []  # by the script, without a value to use instead
        self._unset: set[str] = set()  # by the script or a library of it

    def watch(self, directory: Path) -> None:
        """From now on, note requested variables, and requests from code below *directory* without a default value."""
        missed, unset, own = self._missed, self._unset, str(directory)

        class Watched(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001  # it has no public name
            def get(self, key: str, default: Any = None) -> Any:
                value = super().get(key, default)
                asks = value is None and default is None and _asking(sys._getframe(1)).startswith(own)  # noqa: SLF001  # the public function reads the source of each frame
                if asks and key not in missed:
                    missed.append(key)
                return value

        class Variables(dict[Any, Any]):
            def __missing__(self, key: bytes) -> Any:
                if not _is_pythons(_asking(sys._getframe(1))):  # noqa: SLF001  # as above
                    unset.add(os.fsdecode(key))
                raise KeyError(key)

        os.environ.__class__ = Watched
        os.environ._data = os.environb._data = Variables(os.environ._data)  # type: ignore[attr-defined]  # noqa: SLF001  # as above

    def advice(self, error: BaseException | None, text: str = "") -> str:
        """Return how to give the job the variables without which it fails; empty where that cannot be the reason.

        :param error: The exception that ended the script; ``None`` when it ended normally.
        :param text: Additional known facts, such as those of an executor.
        """
        names = self._without(error, text)
        if not names:
            return ""
        return (
            f"The script reads {', '.join(names)} of its environment, and no such variable is set: a driver does not "
            "inherit the variables of the shell or task that submits its job. Give it with the job: "
            f"--env {names[0]}=..., env= of the operator"
        )

    def _without(self, error: BaseException | None, text: str) -> list[str]:
        link = error
        while link is not None:
            if isinstance(link, KeyError) and _is_of_environment(link):
                return [os.fsdecode(link.args[0])]
            text += f"\n{link}"
            link = link.__cause__ or link.__context__
        # Also of a process of an executor, whose variables are the driver's.
        named = {name for name in self._unset if re.search(rf"\b{re.escape(name)}\b", text)}
        if named or (named := set(_READ.findall(text))):
            return sorted(named)
        of_python = type(error).__module__ == "builtins" and not isinstance(error, OSError)
        return self._missed if of_python or (error is None and not text) else []


def _asking(frame: FrameType | None) -> str:
    """Return the file whose code requests a variable, behind Python's own modules for that."""
    while frame is not None and frame.f_code.co_filename in _LOOKUPS:
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else _STANDARD[0]


def _is_pythons(file: str) -> bool:
    return file.startswith(_STANDARD) and "-packages/" not in file


def _is_of_environment(error: KeyError) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is os._Environ.__getitem__.__code__  # noqa: SLF001  # as above


WORKER_PATH = "spark.executorEnv.PYTHONPATH"
ARCHIVES = "spark.archives"


def worker_path(conf: Mapping[str, str], directory: Path) -> str:
    """Return the value of :data:`WORKER_PATH`: *directory* (of the script), then the entries of *conf*."""
    return os.pathsep.join(filter(None, (str(directory), conf.get(WORKER_PATH))))


def archive_item(archive: Path) -> str:
    """Return the item of :data:`ARCHIVES` that lets Spark unpack *archive* on each executor."""
    return f"{list_item(archive)}#{UNPACKED_AS}"


def search_archive(original: Callable[..., None]) -> Callable[..., None]:
    """Wrap the start of a ``SparkContext``: its workers search the unpacked archive before everything else."""

    def initialize(context: Any, *arguments: Any, **keywords: Any) -> None:
        original(context, *arguments, **keywords)
        shipped = (context.getConf().get(ARCHIVES) or "").split(",")
        if any(item.endswith(f"#{UNPACKED_AS}") for item in shipped):
            context._python_includes.append(UNPACKED_AS)  # noqa: SLF001  # addPyFile takes no directory

    return initialize


def import_wheels(context_class: Any) -> None:
    """Let workers import wheels among the ``py_files``: Spark ships them, but searches zips, eggs and jars only."""
    context_class.PACKAGE_EXTENSIONS = (*context_class.PACKAGE_EXTENSIONS, ".whl")
