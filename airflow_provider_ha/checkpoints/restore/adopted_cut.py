"""A checkpoint directory that Spark wrote elsewhere, looked at as the cut of a job that has never seen it.

Invariants: only reads. The cut is the last committed batch, verified to the last byte; what was planned after it is
recorded, so that exactly that batch is executed again. A directory whose query goes on while it is looked at is
refused: two queries would write to one output.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors.file_sink import FileSink
from airflow_provider_ha.checkpoints.connectors.file_sink_log import FORMATS, local_path
from airflow_provider_ha.checkpoints.format.layout import COMMITS, progress
from airflow_provider_ha.checkpoints.model import Candidate, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.trees.files import UnreadableError
from airflow_provider_ha.checkpoints.trees.local_tree import LocalTree
from airflow_provider_ha.checkpoints.verify.restorable import Verify, query_damage
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.external_directory import query_id
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, ConfigurationError, JobStateError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint


FOREACH_BATCH = "foreachBatch"


@dataclass(frozen=True, slots=True)
class DirectoryCut:
    """What one directory holds.

    :param cut: Its last committed batch, with the record of it and of the one that was planned after it.
    :param adopted: Where it lies, and how far its query was.
    :param candidate: The same, for the plan.
    :param created_at: When the batch was committed.
    """

    cut: QueryCut
    adopted: AdoptedCheckpoint
    candidate: Candidate
    created_at: datetime


def look(query: str, directory: Path, sink: QuerySink, verify: Verify) -> DirectoryCut:
    """Look at the directory of one query. Changes nothing.

    :param directory: Absolute.
    :param verify: Says what can be restored from it.
    :raises CheckpointMissingError: Its query has not committed a batch yet.
    :raises CheckpointCorruptError: Its last committed batch cannot be restored, with the file.
    :raises JobStateError: Its query goes on at this moment.
    :raises StorageUnavailableError: It could not be read.
    """
    before = progress(LocalTree(directory))
    if before.committed < 0:
        raise CheckpointMissingError(
            f"query {query!r} has not committed a batch in {directory}",
            next_step="There is nothing to adopt: submit the job with start_from='fresh'",
        )
    identity = query_id(LocalTree(directory))
    damage = query_damage(LocalTree(directory), query, before.committed, verify)
    if damage is not None:
        raise CheckpointCorruptError(
            damage.path, damage.reason, next_step=f"See what can be restored: `spark-ha checkpoint verify {directory}`"
        )
    entries = tuple(readable(LocalTree(directory), after=before.committed - 1))
    created_at = _committed_at(directory, before.committed)
    if progress(LocalTree(directory)) != before:  # guard: running-queries-are-adopted
        raise JobStateError(
            f"query {query!r} is running in {directory}: it has gone on while it was looked at",
            next_step="Stop it for good first: two queries would write to one output",
        )
    adopted = AdoptedCheckpoint(
        path=str(directory), query_id=identity, planned=before.planned, committed=before.committed
    )
    candidate = Candidate(source=str(directory), cut={query: before.committed}, created_at=created_at, accepted=True)
    return DirectoryCut(QueryCut(batch=before.committed, sink=sink, entries=entries), adopted, candidate, created_at)


def sink_of(said: str | None) -> QuerySink:
    """Return the sink that the user names: its output directory, or its format where it is no directory.

    :param said: A path, ``"foreachBatch"``, a format such as ``"kafka"``, or ``None`` when none is named.
    :raises ConfigurationError: A format that keeps a log is named without its directory, or it is not on this host.
    """
    if said is None:
        return QuerySink(kind=SinkKind.OTHER)
    if "/" in said:
        path = Path(os.path.abspath(local_path(said)))  # noqa: PTH100  # links stay as they are, as Spark has it
        return QuerySink(kind=SinkKind.FILE, path=str(path), max_batch=FileSink(str(path)).reached())
    if said.lower() in FORMATS:
        raise ConfigurationError(
            f"a file sink is named by its output directory, not by its format {said!r}",
            next_step="Name the directory, with a slash in it",
        )
    return QuerySink(kind=SinkKind.FOREACH_BATCH if said == FOREACH_BATCH else SinkKind.OTHER, format=said)


def _committed_at(directory: Path, batch: int) -> datetime:
    try:
        return datetime.fromtimestamp((directory / COMMITS / str(batch)).stat().st_mtime, tz=timezone.utc)
    except OSError as error:
        raise UnreadableError(f"{COMMITS}/{batch}", error) from error
