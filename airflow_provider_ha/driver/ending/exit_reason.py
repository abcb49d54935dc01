"""Exit code and reason of a driver's end, for the supervisor: a small file next to its log.

A process that is about to end sends no report over a network that it may just have lost. The file is local, and the
supervisor reads it after the death is proven.

A full disk is a frequent reason, so the space for the file is taken in advance: :func:`reserve`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from enum import IntEnum
from pathlib import Path

from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.drivers.driver_spec import OWNER_ONLY, write_private
from airflow_provider_ha.jobs.runs.submissions import MESSAGE_LIMIT, Failure, FailureKind
from airflow_provider_ha.redaction import public
from airflow_provider_ha.storage.outage import is_outage


class ExitCode(IntEnum):
    """Exit codes of a managed driver.

    Below 64, and not 1 or 2, which Python and shells use for themselves: a code in this list was set on purpose.
    """

    DONE = 0  # the run has a result
    FAILED = 10  # a query or the script failed; the restart strategy decides
    REFUSED = 11  # the run has the result FAILED: a restart cannot help
    NOT_ADMITTED = 12  # the run is over, or a newer submission leads
    LEADERSHIP_LOST = 13  # the lease ran out, or another epoch owns the job
    RESTART_WANTED = 14  # queries were stopped, but the stop could not be completed: start the run again
    JVM_GONE = 15  # the JVM has ended, so this process can no longer write for the job
    OUTAGE = 16  # storage or ZooKeeper did not answer before the script began: counts as no attempt
    DECISION_NEEDED = 18  # continuing may lose or repeat rows: the run waits for its user
    UNFIT = 19  # this host lacks something that another host had for the run: counts as no attempt
    HANDED_OVER = 20  # a standby driver continues; every query has ended at a batch boundary
    CANCELED = 17  # canceled: the supervisor writes the result once all processes are dead


FAILURE_FILE = "failure.json"
RESERVE_FILE = "failure.reserve"
REASON_LIMIT = 2000  # characters: the reason ends up in a znode and in a task's log
ROOM = 64 * 1024  # bytes: a character takes 12 at most in JSON, and the code a few

_first = threading.Lock()  # threads may fail at the same moment


def reserve(directory: Path) -> None:
    """Reserve space for a reason. Without it, a reason is only lost when the disk is full.

    Blocks that are only reserved (holes, delayed allocation) can be refused later: the bytes are written and flushed.
    """
    with contextlib.suppress(OSError):
        write_private(directory / RESERVE_FILE, b" " * ROOM)


def write_failure(directory: Path, code: ExitCode, reason: str, failure: Failure | None = None) -> None:
    """Write the reason without its secrets; the first one stays, because later failures are only its consequences.

    Never raises OSError.

    :param failure: The classified failure, if the driver knows it.
    """
    reason = public(reason)
    report = {"code": int(code), "reason": reason[:REASON_LIMIT]}
    if failure is not None:
        report["failure"] = failure.model_dump(mode="json")
    content = json.dumps(report).encode()
    try:
        with _first:
            if not (directory / FAILURE_FILE).exists():
                _write(directory, content)
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):  # stderr may be full, closed, or without a reader
            print(f"spark-ha: the reason could not be written ({error}): {reason}", file=sys.stderr, flush=True)  # noqa: T201  # last words


def _write(directory: Path, content: bytes) -> None:
    """Write into the reserved blocks if there are any; the file gets its name when it is complete."""
    reserved = directory / RESERVE_FILE
    descriptor = os.open(reserved, os.O_WRONLY | os.O_CREAT, OWNER_ONLY)
    try:
        if os.pwrite(descriptor, content, 0) == len(content):
            os.ftruncate(descriptor, len(content))
            reserved.rename(directory / FAILURE_FILE)
    finally:
        os.close(descriptor)


def read_failure(directory: Path) -> str | None:
    """Return the reason that a driver left, or ``None``."""
    try:
        return str(json.loads((directory / FAILURE_FILE).read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_code(directory: Path) -> int | None:
    """Return the exit code that a driver left with its reason, or ``None``."""
    try:
        return int(json.loads((directory / FAILURE_FILE).read_bytes())["code"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read_details(directory: Path) -> Failure | None:
    """Return the failure as the driver reported it; ``None`` without a report."""
    try:
        return Failure.model_validate(json.loads((directory / FAILURE_FILE).read_bytes())["failure"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def failure_of_driver(error: BaseException) -> Failure:
    """Return the failure of a part of the driver itself, never of the application."""
    retryable = error.retryable if isinstance(error, HaError) else is_outage(error)
    kind = FailureKind.OUTAGE if retryable else FailureKind.UNKNOWN
    try:
        message = str(error)
    except BaseException:  # noqa: BLE001  # an unprintable error must not keep the process alive
        message = ""
    return Failure(kind=kind, error_class=name_of(error), message=first_line(message, MESSAGE_LIMIT))


def name_of(error: BaseException | None) -> str:
    """Return the class of an error; empty without one."""
    return type(error).__name__ if error is not None else ""


def first_line(text: str, limit: int) -> str:
    """Return the first line of a text without secrets, cut at *limit* characters."""
    return public(text).strip().partition("\n")[0][:limit]
