"""Fence a working directory: rename it, so that a zombie's queries die at their next commit.

Invariant: the fence comes before anything of the directory is read, linked or compared with a sink. A zombie that was
only stopped plans on: what it writes after the look would be missing in the fork (spark-facts section 1,
condition 3). The rename is one atomic step, and the renamed directory is the truth from then on: a zombie may recreate
an empty-looking directory under the old name.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.errors import CheckpointMissingError
from airflow_provider_ha.storage.durable import flush_directory
from airflow_provider_ha.storage.outage import outages


DEAD = ".dead"


def fenced_name(root: Path) -> Path:
    """Return the name that the working directory *root* has once it is fenced."""
    return root if root.name.endswith(DEAD) else root.with_name(root.name + DEAD)


def resolve(root: Path) -> Path:
    """Return where the content of the working directory *root* lies now: under its fenced name when there is one."""
    fenced = fenced_name(root)
    return fenced if fenced.is_dir() else root


def fence_directory(root: Path) -> Path:
    """Rename ``e1-x`` to ``e1-x.dead`` and return the new path; finds it again when that was done before.

    :param root: Working directory of an epoch that is over, under its first name.
    :raises CheckpointMissingError: It exists under neither name.
    :raises StorageUnavailableError: The file system does not answer: whether it is fenced is not known.
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
