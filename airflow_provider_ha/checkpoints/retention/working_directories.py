"""Which working directories of a job that does not run are no longer needed.

Invariant: the newest one stays, and so does one that a retained checkpoint without a pin lies in: a restore reads them,
under either of their names. The others were forked by hard links, so removing them takes nothing from what was made of
them. A directory of a later epoch than the newest known one is not ours to judge.
"""

from __future__ import annotations

import re
from pathlib import Path

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.working.fence import fenced_name
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.resolve import resolve_key


_EPOCH = re.compile(r"\.*e(\d+)-")  # a hidden one is the remains of a directory that was half made or half removed


def superfluous_directories(checkpoints: CheckpointStore, work_path: Path, current: str) -> list[Path]:
    """Return the directories beside *current* that can go, oldest first.

    :param work_path: Root of the keys of directories.
    :param current: Key of the newest working directory.
    :raises RecordCorruptError: A checkpoint cannot be read, so what it needs is not known; or *current* or a checkpoint
        names a directory that is none of the job's.
    """
    listing = checkpoints.list()
    if listing.unreadable:
        raise RecordCorruptError(f"checkpoint {listing.unreadable[0].name} cannot be read, so nothing is removed")
    inside, job = (JobKeys(checkpoints.job_id).live,), f"job {checkpoints.job_id!r}"
    here = resolve_key(work_path, current, inside=inside, source=f"the current working directory of {job}")
    unpinned = (found for found in map(checkpoints.load, listing.pointers) if not found.pin)
    needed = {here, *(checkpoints.directory(found) for found in unpinned)}
    kept = {name for path in needed for name in (path, fenced_name(path))}
    live, newest = here.parent, _EPOCH.match(here.name)
    found = [(int(match[1]), path) for path in _children(live) if (match := _EPOCH.match(path.name))]
    return [path for epoch, path in sorted(found) if newest and epoch <= int(newest[1]) and path not in kept]


def _children(directory: Path) -> list[Path]:
    return list(directory.iterdir()) if directory.is_dir() else []
