"""Removes earlier epochs' notes about the batches of fenced functions, once restores no longer need them.

Invariant: while a checkpoint or savepoint cannot be read, the lowest cut is not known, and every note stays. An
unreadable note keeps the others of its query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from airflow_provider_ha.checkpoints.connectors.foreach_batch import GivenLog
from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.errors import RecordCorruptError


log = logging.getLogger(__name__)


def clear_notes(
    checkpoints: CheckpointStore, leadership: Leadership, given: Callable[[str], GivenLog]
) -> Iterator[None]:
    """Remove them; yields after each.

    :param given: Returns the notes about a query.
    :raises LeadershipError: This process may no longer write for the job.
    :raises StorageUnavailableError: Notes could not be read or removed; the next call continues.
    """
    for query, floor in (checkpoints.floor() or {}).items():
        notes = given(query)
        try:
            needless = notes.needless(epoch=leadership.epoch, floor=floor)
        except RecordCorruptError as error:
            log.warning("the notes about query %s stay: %s", query, error)
            continue
        for epoch in needless:
            leadership.prove()
            notes.forget(epoch)
            yield
