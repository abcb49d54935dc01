"""Fence of a working directory: a rename that makes a zombie's queries die at their next commit.

Invariant: the fence precedes every read, link or sink comparison. A zombie that is only paused keeps planning: batches
that it writes after the read would be missing in the fork (spark-facts section 1, condition 3). The rename is one
atomic step, and the renamed directory is authoritative from then on: a zombie may recreate a nearly empty directory
under the old name.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.errors import CheckpointMissingError
from airflow_provider_ha.storage.durable import flush_directory
from airflow_provider_ha.storage.outage import outages


DEAD = ".dead"


def fenced_name(root: Path) -> Path:
    """Return the name of the working directory *root* after its fence."""
    return root if root.name.endswith(DEAD) else root.with_name(root.name + DEAD)


def resolve(root: Path) -> Path:
    """Return the current path of the working directory *root*: the fenced one if it exists."""
    fenced = fenced_name(root)
    return fenced if fenced.is_dir() else root


def fence_directory(root: Path) -> Path:
    """Rename ``e1-x`` to ``e1-x.dead`` and return the new path; an earlier rename is found again.

    :param root: Working directory of an ended epoch, under its first name.
    :raises CheckpointMissingError: It exists under neither name.
    :raises StorageUnavailableError: The file system does not answer: the outcome is unknown.
    """
    with outages("fenced", root):
        return _fenced(root)


def _fenced(root: Path) -> Path:
    fenced = fenced_name(root)
    if fenced.is_dir():
        return fenced
    try:
        root.rename(fenced)
    except FileNotFoundError:
        raise CheckpointMissingError(
            f"working directory {root} is not there",
            next_step="Restore the job from its latest checkpoint, which does not need it",
        ) from None
    flush_directory(fenced.parent)
    return fenced
