"""Superfluous working directories of a stopped job.

Invariant: the newest one stays, and so does the directory of a retained checkpoint without a pin: a restore reads them,
fenced or not. So does the newest fork of an unfinished drain: it alone shows that the batch beyond the last one, which
the sinks may have, is the drain's. Forks share files by links, so removing the other directories does not affect their
forks. A directory of a later epoch than the newest known one is not judged here.
"""

from __future__ import annotations

import re

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.working.unfinished_drain import newest_drain
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.storage.keys import JobKeys, epoch_of


_EPOCH = re.compile(r"e(\d+)-")


def superfluous_directories(
    checkpoints: CheckpointStore, area: WorkArea, current: str, *, drains_after: int | None
) -> list[str]:
    """Return the keys of removable directories other than *current*, oldest first.

    :param area: Their work area.
    :param current: Key of the newest working directory.
    :param drains_after: Epoch after which a fork belongs to the newest run; ``None`` when that run has finished its
        drain (``jobs.runs.drains_after``).
    :raises RecordCorruptError: A checkpoint cannot be read, so its directories are unknown; or *current* or a
        checkpoint refers to a directory outside of the job's.
    :raises StorageUnavailableError: They could not be listed.
    """
    listing = checkpoints.list()
    if listing.unreadable:
        raise RecordCorruptError(f"checkpoint {listing.unreadable[0].name} cannot be read, so nothing is removed")
    live, job = JobKeys(checkpoints.job_id).live, f"job {checkpoints.job_id!r}"
    here = area.admit(current, inside=(live,), source=f"the current working directory of {job}")
    unpinned = (found for found in map(checkpoints.load, listing.pointers) if not found.pin)
    needed = {here, *(checkpoints.directory(found) for found in unpinned)}  # guard: housekeeping-goes-by-any-directory
    kept = {key for name in needed for key in (name, area.fenced(name))}
    newest = _EPOCH.match(here.removeprefix(live))
    drain = newest_drain(area, here) if drains_after is not None else None
    if drain is not None and drains_after is not None and epoch_of(drain) > drains_after:
        kept.add(drain)
    found = [(int(match[1]), f"{live}{name}") for name in area.list(live) if (match := _EPOCH.match(name))]
    # guard: later-epoch-stays
    return [key for epoch, key in sorted(found) if newest and epoch <= int(newest[1]) and key not in kept]
