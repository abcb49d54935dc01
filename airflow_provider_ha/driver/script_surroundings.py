"""What a script finds around it: logging, functions for its end, signals, variables of the environment."""

from __future__ import annotations

import atexit
import functools
import logging
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from pathlib import Path
from types import FrameType
from typing import Any

from airflow_provider_ha.query_names import shown


# Used in other threads of a driver: their lines at DEBUG and INFO are not those of the script alone.
_OF_THE_DRIVER_TOO = ("boto3", "botocore", "py4j", "s3transfer", "urllib3")
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_HANDLER = "_spark_ha_handler"
_PROGRAMMING = (AttributeError, KeyError, TypeError, ValueError)


def log_beside_the_script() -> None:
    """Let this package log to stderr, without a word to the root logger: that is the script's to set up.

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
    """The functions that a script gives to ``atexit``. Those of the driver and its libraries wait: it works on."""

    def __init__(self) -> None:
        self._given: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def watch(self, is_of_script: Callable[[FrameType], bool]) -> None:
        """Keep from now on what the script registers.

        :param is_of_script: Whether the script calls in this frame.
        """
        register, unregister = atexit.register, atexit.unregister

        def keep(function: Callable[..., Any], /, *values: Any, **named: Any) -> Callable[..., Any]:
            if not is_of_script(sys._getframe(1)):  # noqa: SLF001  # the public way reads the sources of every frame
                return register(function, *values, **named)
            self._given.append((function, values, named))
            return function

        def forget(function: Callable[..., Any], /) -> None:
            self._given[:] = [each for each in self._given if each[0] != function]
            unregister(function)

        for name, replaced in (("register", keep), ("unregister", forget)):
            setattr(atexit, name, functools.wraps(getattr(atexit, name))(replaced))

    def run(self) -> None:
        """Call them as Python does: the last one first, each of them also when another one fails."""
        while self._given:
            function, values, named = self._given.pop()
            try:
                function(*values, **named)
            except SystemExit:
                pass
            except BaseException:  # noqa: BLE001  # Python shows any
                traceback.print_exc()


class EndSignals:
    """The signals that ask a process to end, where the script handles them itself.

    A script that ends well after one has not come to the end of its work: something outside has ended it.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._watching = False

    def watch(self) -> None:
        """Note from now on which of them the script's handlers are given."""
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


class Environment:
    """The variables that a script asked for, and that are not set."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def watch(self, directory: Path) -> None:
        """Note from now on what code below *directory* asks for without a value to use instead."""
        missed, own = self.missed, str(directory)

        class Watched(os._Environ):  # type: ignore[type-arg]  # noqa: SLF001  # it has no public name
            def get(self, key: str, default: Any = None) -> Any:
                value = super().get(key, default)
                caller: Any = sys._getframe(1)  # noqa: SLF001  # the public way reads the sources of every frame
                if caller.f_code is os.getenv.__code__:
                    caller = caller.f_back
                asks = caller is not None and caller.f_code.co_filename.startswith(own)
                if value is None and default is None and asks and key not in missed:
                    missed.append(key)
                return value

        os.environ.__class__ = Watched


def unset_variables(error: BaseException, missed: Collection[str]) -> list[str]:
    """Return the names of variables that an exception of the script may come from.

    :param missed: What the script asked for with ``os.environ.get()`` or ``os.getenv()``, and did not get.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KeyError) and _is_of_environment(link):
            return [str(link.args[0])]
        link = link.__cause__ or link.__context__
    return list(missed) if isinstance(error, _PROGRAMMING) else []


def _is_of_environment(error: KeyError) -> bool:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_code is os._Environ.__getitem__.__code__  # noqa: SLF001  # as above
