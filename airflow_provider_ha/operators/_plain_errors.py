"""What an operator of this package refuses is one sentence in the task's log, without frames.

Airflow's task runner logs every exception of a task with its frames and those of its causes, and has no setting for
that. So each of our tasks puts a processor in front of the others in its process, before it executes. State, retries,
callbacks and listeners of the task are Airflow's own: only what is logged differs.

Invariant: frames are left out only where the exception was raised by this package, as one of Airflow's own. An
unexpected exception keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from types import TracebackType
from typing import Any

from airflow_provider_ha.compat.sdk import AirflowException


_PACKAGE = __name__.partition(".")[0] + "."


class PlainErrors:
    """Mixin of the operators and sensors: before they execute, the process learns to log their errors plainly."""

    def pre_execute(self, context: Any) -> None:  # noqa: ARG002  # Airflow's signature
        """Put the processor in place."""
        leave_out_frames()


def leave_out_frames() -> None:
    """Put :func:`one_sentence` before the processors of this process's log, once."""
    import structlog  # noqa: PLC0415  # not for the parser

    processors = structlog.get_config()["processors"]
    # In place: the task's logger exists already, and shares this list.
    if isinstance(processors, list) and one_sentence not in processors:
        processors.insert(0, one_sentence)


def one_sentence(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the frames of an error that an operator of this package has raised by its sentence."""
    given = event.get("exc_info")
    error = sys.exc_info()[1] if given is True else given
    if isinstance(error, AirflowException) and _origin(error.__traceback__).startswith(_PACKAGE):
        del event["exc_info"]
        event["event"] = str(error)
    return event


def _origin(traceback: TracebackType | None) -> str:
    """Return the module that raised; empty when that is not known."""
    module = ""
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", ""))
        traceback = traceback.tb_next
    return module
