"""Runs the user's script as Python would: its own name, its own arguments, its own directory first on the path."""

from __future__ import annotations

import logging
import runpy
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path


log = logging.getLogger(__name__)


class Script:
    """The script of one run. May be run more than once in a process: the drain does.

    :param path: The script.
    :param arguments: Its arguments, without its name.
    """

    def __init__(self, path: Path, arguments: Sequence[str]) -> None:
        self._path = path
        self._arguments = list(arguments)
        self.error: BaseException | None = None
        """What the last run raised, ``sys.exit`` with a failure included."""

    def run(self) -> str | None:
        """Run it on this thread; return why it failed, or ``None`` when it ended well (also with ``sys.exit(0)``)."""
        self.error = None
        sys.argv = [str(self._path), *self._arguments]
        directory = str(self._path.parent)
        if sys.path[:1] != [directory]:
            sys.path.insert(0, directory)
        try:
            runpy.run_path(str(self._path), run_name="__main__")
        except SystemExit as error:
            if error.code in (None, 0):
                return None
            self.error = error
            return f"{self._path.name} ended with sys.exit({error.code!r})"
        except BaseException as error:  # noqa: BLE001  # any exception is a way for the script to end
            self.error = error
            traceback.print_exc()
            return f"{self._path.name} failed: {type(error).__name__}: {error}"
        return None
