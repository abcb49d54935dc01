"""A checkpoint directory that Spark wrote elsewhere, read as the cut of a job that did not write it.

Invariants: only reads. The cut is the last committed batch, verified to the last byte; the batch planned after it is
recorded, so that exactly that batch is executed again. A directory whose query runs during the read is refused: two
queries would write to the same output.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from airflow_provider_ha.checkpoints.format.layout import COMMITS, progress
from airflow_provider_ha.checkpoints.format.metadata_log import NEVER, planned_at
from airflow_provider_ha.checkpoints.model import Candidate, QueryCut, QuerySink
from airflow_provider_ha.checkpoints.trees.files import UnreadableError
from airflow_provider_ha.checkpoints.trees.tree import Tree
from airflow_provider_ha.checkpoints.verify.restorable import Verify, query_damage
from airflow_provider_ha.checkpoints.working.batch_log import readable
from airflow_provider_ha.checkpoints.working.external_directory import query_id
from airflow_provider_ha.errors import CheckpointCorruptError, CheckpointMissingError, JobStateError
from airflow_provider_ha.pointers.ownership import AdoptedCheckpoint


@dataclass(frozen=True, slots=True)
class DirectoryCut:
    """Content of a directory.

    :param cut: Its last committed batch, with its record and that of the batch planned after it.
    :param adopted: Its location, and the progress of its query.
    :param candidate: The same, for the plan.
    :param created_at: Commit time of the batch, if known.
    """

    cut: QueryCut
    adopted: AdoptedCheckpoint
    candidate: Candidate
    created_at: datetime


def look(query: str, directory: Tree, place: str, sink: QuerySink, verify: Verify) -> DirectoryCut:
    """Read the directory of a query. Changes nothing.

    :param directory: Its current state.
    :param place: Its absolute path, or URI.
    :param verify: Verifies the restorable batches.
    :raises CheckpointMissingError: Its query has not committed a batch yet.
    :raises CheckpointCorruptError: Its last committed batch cannot be restored, with the file.
    :raises JobStateError: Its query is running.
    :raises StorageUnavailableError: It could not be read.
    """
    before = progress(directory)
    if before.committed < 0:
        raise CheckpointMissingError(
            f"query {query!r} has not committed a batch in {place}",
            next_step="The job cannot adopt it: submit the job with start_from='fresh'",
        )
    identity = query_id(directory)
    damage = query_damage(directory, query, before.committed, verify)
    if damage is not None:
        raise CheckpointCorruptError(
            damage.path, damage.reason, next_step=f"See what can be restored: `spark-ha checkpoint verify {place}`"
        )
    entries = tuple(readable(directory, after=before.committed - 1))
    created_at = _committed_at(directory, before.committed)
    if progress(directory.fresh()) != before:
        raise JobStateError(
            f"query {query!r} is running in {place}: it progressed during the read",
            next_step="Stop it permanently first: two queries would write to one output",
        )
    adopted = AdoptedCheckpoint(path=place, query_id=identity, planned=before.planned, committed=before.committed)
    candidate = Candidate(source=place, cut={query: before.committed}, created_at=created_at, accepted=True)
    return DirectoryCut(QueryCut(batch=before.committed, sink=sink, entries=entries), adopted, candidate, created_at)


def _committed_at(directory: Tree, batch: int) -> datetime:
    """Return the commit time of a batch; where files do not keep their writer's time, its planning time."""
    if directory.local_path is None:
        return planned_at(directory, batch) or NEVER
    try:
        entry = directory.local_path / COMMITS / str(batch)
        return datetime.fromtimestamp(entry.stat().st_mtime, tz=timezone.utc)
    except OSError as error:
        raise UnreadableError(f"{COMMITS}/{batch}", error) from error
