"""A job that was deleted, or is being deleted: what every reader and every submitter of it has to know.

Invariants:

- One transaction makes a job gone: it writes the record into the job's own node, lists the job among the deleted ones,
  and removes the pointers of its checkpoints. Before it the job is whole, after it no reader knows the job.
- No run is made while the record is there and not complete. The transaction that makes the first run of a new life
  removes it, and every transaction that makes a run checks that the node is as it was read.
- Epochs, the counter of checkpoints and the numbers of runs go on: nothing of a new life has a name of the old one.
- A new life begins with all runs of the lives before as removed (``jobs.removed_runs``), in the transaction that makes
  its first run. So each host that leads in it removes their directories, but those of runs whose processes were not
  proven dead at the deletion.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Create, Delete, Op, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import JobStateError, UnknownJobError
from airflow_provider_ha.jobs.model import DrainedQuery
from airflow_provider_ha.jobs.removed_runs import PastLife, RemovedRuns, Span
from airflow_provider_ha.records import Record


class Deleted(Record):
    """The content of the node of a job that is gone.

    :param keep_savepoints: Whether its savepoints stay.
    :param last_run: Number of its newest run; 0 when it had none.
    :param complete: Whether nothing is left of it but what stays.
    :param drained: What a drain has written at the end of the last run that worked, or may have written when it was
        not finished: a restore from a kept savepoint has neither that run nor its directory to know it from.
    :param unrecorded: Whether the last working directory had batches that no payload records, or may have had them.
    :param starts: Run -> query -> highest batch that it has in common with the runs before it, of the runs that a
        driver has led; a query that is not named began from nothing.
    :param by: Who deleted it.
    :param unproven: Its runs, as spans, whose processes nothing had proven dead when it was deleted.
    """

    kind: ClassVar[str] = "deleted"

    keep_savepoints: bool
    last_run: int
    unproven: tuple[Span, ...]
    complete: bool = False
    drained: dict[str, DrainedQuery] = {}
    unrecorded: bool = False
    starts: dict[int, dict[str, int]] = {}
    by: str
    at: datetime

    @property
    def past_runs(self) -> RemovedRuns:
        """What the next life knows of the runs of the lives before."""
        past = self.past if self.keep_savepoints else None
        return RemovedRuns(through=self.last_run, unproven=self.unproven, past=past)

    @property
    def past(self) -> PastLife:
        """What a restore from a kept savepoint knows of the life that has ended."""
        return PastLife(last_run=self.last_run, drained=self.drained, unrecorded=self.unrecorded, starts=self.starts)

    def command(self, job_id: str) -> str:
        """Return the command that completes this deletion, and removes nothing that it keeps."""
        kept = " --keep-savepoints" if self.keep_savepoints else ""
        return f"`spark-ha job delete {job_id}{kept}`"

    def error(self, job_id: str) -> UnknownJobError:
        """Return what a reader of the job raises."""
        state = "was" if self.complete else "is being"
        kept = "; its savepoints are kept" if self.keep_savepoints else ""
        return UnknownJobError(
            f"job {job_id!r} {state} deleted on {self.at:%Y-%m-%d %H:%M} UTC by {self.by}{kept}",
            next_step="Submit it again" if self.complete else f"Complete that: {self.command(job_id)}",
        )


@dataclass(frozen=True, slots=True)
class Life:
    """What the node of a job says about its life.

    :param deleted: The record of its deletion; ``None`` for a job that lives, or that never was.
    :param version: Version of the node; 0 for one that does not exist yet.
    """

    paths: JobPaths
    deleted: Deleted | None
    version: int

    @property
    def last_run(self) -> int:
        """Number of the newest run of the lives before; 0 for a first life."""
        return self.deleted.last_run if self.deleted is not None else 0

    def begins(self) -> list[Op]:
        """Return what a transaction that makes a run needs: it ends a deletion that is complete, or there is none."""
        if self.deleted is None:
            return [Check(self.paths.base, self.version)]  # guard: runs-of-deleted-jobs
        return [
            SetData(self.paths.base, b"", self.version),
            Delete(self.paths.cluster.deleted(self.paths.job_id)),
            Create(self.paths.removed_runs, self.deleted.past_runs.to_bytes()),
        ]

    def ends(self, record: Deleted) -> list[Op]:
        """Return what makes the job gone, or its deletion complete."""
        listed = [] if self.deleted is not None else [Create(self.paths.cluster.deleted(self.paths.job_id))]
        return [SetData(self.paths.base, record.to_bytes(), self.version), *listed]


def read_life(coordinator: Coordinator, paths: JobPaths) -> Life:
    """Return the life of a job.

    :raises RecordCorruptError: Its node holds something else.
    """
    node = coordinator.find(paths.base)
    if node is None:
        return Life(paths, None, 0)
    deleted = Deleted.from_bytes(node.data, source=node.path) if node.data else None
    return Life(paths, deleted, node.version)


def refuse_half_deleted(life: Life) -> None:
    """Refuse a run of a job that is being deleted.

    :raises JobStateError: It is; names the command that completes that.
    """
    if life.deleted is not None and not life.deleted.complete:
        raise JobStateError(
            f"job {life.paths.job_id!r} is being deleted since {life.deleted.at:%Y-%m-%d %H:%M} UTC",
            next_step=f"Complete that first: {life.deleted.command(life.paths.job_id)}",
        )
