"""The reason for a driver's end, for the supervisor: one small file next to its log, written before the process ends.

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
from pathlib import Path

from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.jobs.failures import Failure
from airflow_provider_ha.jobs.host.driver_spec import OWNER_ONLY, write_private
from airflow_provider_ha.redaction import public


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
