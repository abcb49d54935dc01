"""Removal of reader leases on removed objects: a late or dead reader leaves its node behind.

Invariant: a lease that has not expired stays, and so do leases on existing objects and on objects in the list of
deletions: they are removed with these (``pointers.removal``). A reader that arrives at this moment creates the parent
again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.coordinator import Coordinator, Delete
from airflow_provider_ha.coordination.leases import active
from airflow_provider_ha.coordination.node_names import is_plain, node_number, ours
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import NodeMissingError, RecordCorruptError, VersionConflictError
from airflow_provider_ha.pointers.outcome import Commit
from airflow_provider_ha.pointers.to_delete import thing_of, waiting


log = logging.getLogger(__name__)
_AT_ONCE = 50


def clear_leases(coordinator: Coordinator, paths: JobPaths, commit: Commit, clock: Clock) -> Iterator[None]:
    """Remove the leases on checkpoints and savepoints that are gone; yields after each transaction.

    :param commit: ``leadership.commit`` of the job.
    :raises LeadershipError: This process may no longer write for the job.
    """
    gone = leases_on_nothing(coordinator, paths, clock)
    for start in range(0, len(gone), _AT_ONCE):
        parents = [paths.leases(what) for what in gone[start : start + _AT_ONCE]]
        below = coordinator.read(Reads((), tuple(parents))).lists
        nodes = [path for parent in parents for path in (*(f"{parent}/{name}" for name in below[parent]), parent)]
        try:
            commit(*map(Delete, nodes))
        except (NodeMissingError, VersionConflictError) as error:
            log.info("some leases of %s stay, because another process is changing one: %s", paths.job_id, error.message)
        yield


def leases_on_nothing(coordinator: Coordinator, paths: JobPaths, clock: Clock) -> list[str]:
    """Return the targets that are removed, not on the list of deletions, and have expired leases only."""
    parent = f"{paths.base}/leases"
    names = ours(coordinator.children(parent), is_plain, parent=parent)
    if not names:
        return []
    there = {f"checkpoint-{int(name)}" for name in coordinator.children(paths.checkpoints) if name.isdecimal()}
    there |= {f"savepoint-{name}" for name in coordinator.children(paths.savepoints)}
    # Pointers before the list: objects removed in between are on it by then.
    there |= set(map(thing_of, waiting(coordinator, paths.cluster, paths.job_id)))
    return [
        what for what in names if what not in there and _is_pointer(what) and not _held(coordinator, paths, what, clock)
    ]


def _is_pointer(what: str) -> bool:
    kind, _, name = what.partition("-")
    return kind == "savepoint" or (kind == "checkpoint" and node_number(name) is not None)


def _held(coordinator: Coordinator, paths: JobPaths, what: str, clock: Clock) -> bool:
    try:
        return bool(active(coordinator, paths, what, clock))  # guard: leases-of-readers-go
    except RecordCorruptError:
        return True  # it may protect something
