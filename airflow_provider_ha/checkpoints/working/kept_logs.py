"""The sinks' logs of the cut that a run was restored from, kept in its working directories.

Invariant: what a query needs to be started, or to be cut while it lies at rest, lies in the working directory. The pin
that it was restored from goes with the checkpoints of the job that owns it, perhaps before the script comes to it.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from airflow_provider_ha.checkpoints.working.pins import SINKS


KEPT = ".restored"  # hidden: no query can have this name


def kept_in(working: Path) -> Path | None:
    """Return where a working directory keeps them, as a pin does; ``None`` when it keeps none."""
    kept = working / KEPT
    return kept if kept.is_dir() else None


def keep_sink_logs(source: Path, working: Path) -> None:
    """Copy the logs of the pin, savepoint or earlier copy *source* into a new working directory; none is no error."""
    if (source / SINKS).is_dir():
        shutil.copytree(source / SINKS, working / KEPT / SINKS)
