"""Exit codes: 0 done or true, 1 no, 2 unknown, 64 wrong call, 130 Ctrl-C came before the answer.

Only 2 is worth a retry: a wrong call or wrong settings fail again in the same way.

A script that calls ``spark-ha job leader`` must be able to distinguish "the job has no leader" from "ZooKeeper did not
answer": only the first is a reason to act.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer
from typer.core import TyperGroup

from airflow_provider_ha import errors


class Exit(IntEnum):
    """Exit code of a command."""

    YES = 0
    NO = 1
    UNKNOWN = 2
    WRONG_CALL = 64  # EX_USAGE of sysexits.h: an argument, option, setting or file of the call
    INTERRUPTED = 130


_SAYS_DEFAULT = re.compile(r"(?i)\bdefault\b|without it|in place of|\[env: ")
# Older releases of typer use click's, newer ones bundle it.
_USAGE_ERROR: Any = typer.BadParameter.__bases__[0]

# The server or storage answered no. Every other error leaves the question open.
_ANSWERED_NO = (
    errors.JobError,
    errors.CheckpointMissingError,
    errors.CheckpointCorruptError,
    errors.RestoreRefusedError,
    errors.NodeMissingError,
    errors.LeadershipUnavailableError,
)


def exit_code(error: errors.HaError) -> Exit:
    """Return the exit code of an error."""
    if isinstance(error, errors.ConfigurationError):
        return Exit.WRONG_CALL
    return Exit.NO if isinstance(error, _ANSWERED_NO) else Exit.UNKNOWN


class RootGroup(TyperGroup):
    """The command with all its verbs. A wrong option or argument exits with :attr:`Exit.WRONG_CALL`."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        _complete_help(self)

    def make_context(self, *args: Any, **extra: Any) -> Any:
        """Parse the options before the verb."""
        with _wrong_call():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Parse and run the verb."""
        with _wrong_call():
            return super().invoke(ctx)


@contextmanager
def _wrong_call() -> Iterator[None]:
    try:
        yield
    except _USAGE_ERROR as error:
        error.exit_code = Exit.WRONG_CALL
        raise


# The last word of an option -> the placeholder of its value; other words are their own placeholder.
_PLACEHOLDERS = {
    **dict.fromkeys(("wait", "delay", "max", "period", "timeout", "interval"), "SECONDS"),
    **dict.fromkeys(("attempts", "failures", "checkpoints", "cores", "executors", "runs", "run", "lines"), "N"),
    **dict.fromkeys(("attempt", "processes", "batch", "mb"), "N"),
    **dict.fromkeys(("files", "jars", "archives"), "FILE"),
    **dict.fromkeys(("packages", "package"), "GROUP:NAME:VERSION"),
    "from": "START",
    "path": "PATHS",
    "repositories": "URLS",
    "scratch": "DIRECTORY",
}


def _complete_help(command: Any) -> None:
    """Complete the help of each option with its placeholder and default.

    A flag has no placeholder, and a choice lists its words; typer would name a Python type.
    """
    for inner in getattr(command, "commands", {}).values():
        _complete_help(inner)
    for option in command.params:
        told = getattr(option, "help", None)
        if option.param_type_name == "option" and option.metavar is None:
            option.metavar = "" if option.is_flag else None if _chooses(option) else _placeholder(option)
        without = option.param_type_name == "option" and not option.required and not option.is_flag
        if told and without and option.default in (None, (), []) and not _SAYS_DEFAULT.search(told):
            option.help = f"{told} Default: none."


def _placeholder(option: Any) -> str:
    longest = max(option.opts, key=len).lstrip("-")
    last = longest.rpartition("-")[2]
    return "N" if longest == "driver-log-files" else _PLACEHOLDERS.get(last, last.upper())


def _chooses(option: Any) -> bool:
    """Whether it takes one of several words. Older releases of typer have types of click, newer ones descriptors."""
    if hasattr(option, "type_descriptor"):
        return bool(option.type_descriptor.is_choice)
    return hasattr(option.type, "choices")
