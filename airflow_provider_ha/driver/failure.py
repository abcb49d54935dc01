"""Why a driver ended, for the supervisor: one small file beside its log, written before the process ends.

A process that is about to end tells nobody anything over a network it may just have lost. The file is local, and the
supervisor reads it after the death is proven.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.redaction import public


FAILURE_FILE = "failure.json"
REASON_LIMIT = 2000  # characters: the reason ends up in a znode and in a task's log


def write_failure(directory: Path, code: ExitCode, reason: str) -> None:
    """Leave the reason without its secrets; the first one stays, because what follows a failure is only its echo."""
    reason = public(reason)
    try:
        with (directory / FAILURE_FILE).open("x", encoding="utf-8") as file:
            json.dump({"code": int(code), "reason": reason[:REASON_LIMIT]}, file)
    except FileExistsError:
        return
    except OSError as error:  # a full disk must not keep the process from ending
        print(f"spark-ha: the reason could not be written ({error}): {reason}", file=sys.stderr, flush=True)  # noqa: T201  # last words


def read_failure(directory: Path) -> str | None:
    """Return the reason that a driver left, or ``None``."""
    try:
        return str(json.loads((directory / FAILURE_FILE).read_bytes())["reason"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
