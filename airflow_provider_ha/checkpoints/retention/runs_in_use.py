"""Runs that a job's checkpoints, savepoints and claims refer to: their records stay.

Invariant: an unreadable object may refer to any run, so it is an error (contract 6).
"""

from __future__ import annotations

from airflow_provider_ha.checkpoints.model import CheckpointPointer, SavepointPointer
from airflow_provider_ha.checkpoints.retention.claims import claims_of_runs
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, node_number
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.pointers.scan import P, Scan, scan
from airflow_provider_ha.pointers.to_delete import thing_of, waiting


def runs_in_use(coordinator: Coordinator, paths: JobPaths) -> frozenset[int]:
    """Return the runs whose records must stay because of their checkpoints and claims.

    An unclaimed savepoint does not need a run: its manifest has graph, cut and files.

    :raises RecordCorruptError: A pointer or a claim cannot be read.
    """
    checkpoints = _whole(scan(coordinator, paths.checkpoints, CheckpointPointer, is_ours=is_checkpoint))
    savepoints = _whole(scan(coordinator, paths.savepoints, SavepointPointer, is_ours=is_plain))
    found = {pointer.run for pointer in checkpoints}  # guard: runs-of-checkpoints-go
    found |= {pointer.claimed_by for pointer in savepoints if pointer.claimed_by is not None}
    return frozenset(found | _claims(coordinator, paths))


def _whole(found: Scan[P]) -> list[P]:
    for unreadable in found.unreadable:  # guard: runs-go-beside-what-cannot-be-read
        raise RecordCorruptError(f"{unreadable.name} may refer to any run: {unreadable.reason}")
    return [pointer.record for pointer in found.found]


def _claims(coordinator: Coordinator, paths: JobPaths) -> set[int]:
    """Return the runs whose claim of directories is open, or still needed to remove them."""
    claims = claims_of_runs(coordinator, paths)
    found = {run for run, claim in claims.items() if not claim.record.given_up}  # guard: runs-with-open-claims-go
    listed = (thing_of(entry).partition("-") for entry in waiting(coordinator, paths.cluster, paths.job_id))
    return found | {run for kind, _, name in listed if kind == "claim" and (run := node_number(name)) is not None}
