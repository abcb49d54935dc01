"""Recorded batches that a restore plan has executed again: the sinks have them.

A restored working directory ends at the cut of its plan. If it is lost before its first checkpoint, only the plan knows
the batches after the cut.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from airflow_provider_ha.checkpoints.model import BatchEntry, RestorePlan
from airflow_provider_ha.errors import ObjectMissingError, RecordCorruptError
from airflow_provider_ha.storage.blobs import get_blob
from airflow_provider_ha.storage.store import ObjectStore


log = logging.getLogger(__name__)


def read_plan(store: ObjectStore, sha256: str) -> RestorePlan:
    """Return a restore plan.

    :raises ObjectMissingError: It is missing.
    :raises RecordCorruptError: It is damaged.
    :raises StorageUnavailableError: It could not be read.
    """
    return RestorePlan.from_bytes(get_blob(store, sha256), source=f"restore plan {sha256}")


def planned_replays(store: ObjectStore, sha256: str | None) -> Mapping[str, Sequence[BatchEntry]]:
    """Return the recorded batches of a plan by query; empty without a plan, or if it is missing or damaged.

    :raises StorageUnavailableError: It could not be read.
    """
    if sha256 is None:
        return {}
    try:
        plan = read_plan(store, sha256)
    except (ObjectMissingError, RecordCorruptError) as error:
        log.warning("the batches that a restore has executed again are unknown: %s", error)
        return {}
    return {name: query.replay for name, query in plan.queries.items()}


def batches_in_common(plan: RestorePlan) -> dict[str, int]:
    """Return query -> highest batch that a run with this plan has in common with the runs of the source job. Pure."""
    return {name: query.batch + len(query.replay) for name, query in plan.queries.items()}
