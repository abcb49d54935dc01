"""Records of removed runs and of deleted jobs.

Invariants: both are written in the transaction that removes a run, so at every moment a request finds its run or the
note about it. A reader looks for the run first and for the note second. A run that ZooKeeper does not know and whose
number is not above :attr:`RemovedRuns.through` was removed, after every process of it had been proven dead; one above
it is unknown, as after a loss of ZooKeeper's data. A job that is made again after a deletion begins with the runs of
its lives before as removed; those without that proof are :attr:`RemovedRuns.unproven`.

A note takes some 50 bytes. The newest 50,000 of a job stay, in a hundred nodes.

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

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Create, Delete, Op, Reads, SetData
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import JobStateError, UnknownJobError
from airflow_provider_ha.jobs.model import DrainedQuery
from airflow_provider_ha.names import safe_segment
from airflow_provider_ha.records import Model, Record


PER_PART = 500  # notes in one node: some 25 kB, which a removal writes again
PARTS = 100
Span = tuple[int, int]
"""First and last number of runs that follow each other."""
_DIGITS = 16  # of the digest of a request's id: 64 bits, and two of 50,000 are equal once in 15 billion jobs


class PastLife(Model):
    """What a restore from a kept savepoint has to know of the life that a deletion has ended.

    :param last_run: Number of its newest run.
    :param drained: As in ``jobs.deleted.Deleted``.
    :param unrecorded: As there.
    :param starts: As there.
    """

    last_run: int
    drained: dict[str, DrainedQuery] = {}
    unrecorded: bool = False
    starts: dict[int, dict[str, int]] = {}


class RemovedRuns(Record):
    """``removed_runs``: how far the runs of a job were removed.

    :param through: Highest number of a run that was removed.
    :param part: Newest node with notes; 0 for none.
    :param unproven: Those of earlier lives of the job, as spans, whose processes nothing has proven dead.
    :param past: The life before; it counts until a run of this one has a checkpoint.
    """

    kind: ClassVar[str] = "removed-runs"

    through: int = 0
    part: int = 0
    unproven: tuple[Span, ...] = ()
    past: PastLife | None = None

    def removed(self, run: int) -> bool:
        """Whether a run that ZooKeeper does not know was removed, with all its processes proven dead."""
        return 0 < run <= self.through and not any(first <= run <= last for first, last in self.unproven)


class RemovedRun(Model):
    """What a request led to.

    :param run: Its newest run, which was removed.
    :param failed: Whether it ended FAILED: a request may repeat such a run.
    """

    run: int
    failed: bool = False


class RemovedRequests(Record):
    """``removed_runs/<part>``: some notes.

    :param requests: Digest of a request's id -> what it led to.
    """

    kind: ClassVar[str] = "removed-requests"

    requests: dict[str, RemovedRun] = {}


@dataclass(frozen=True, slots=True)
class RemovedRunStore:
    """The notes of one job. Owns nothing; safe in any thread."""

    coordinator: Coordinator
    paths: JobPaths

    def read(self) -> RemovedRuns:
        """Return how far runs were removed.

        :raises RecordCorruptError: That cannot be read.
        """
        found = read_record(self.coordinator, self.paths.removed_runs, RemovedRuns)
        return found[0] if found else RemovedRuns()

    def find(self, request_id: str) -> RemovedRun | None:
        """Return what a request has led to, when that run was removed; ``None`` for a request without a note.

        Look for the run itself before: a run that is removed in between has its note then.

        :raises RecordCorruptError: A note cannot be read: whether the request had a run is not known.
        """
        parent = self.paths.removed_runs
        parts = node_numbers(self.coordinator.children(parent), parent=parent)
        paths = [self.paths.removed_requests(part) for part in reversed(parts)]
        nodes = self.coordinator.read(Reads(tuple(paths))).nodes if paths else {}
        wanted = digest(request_id)
        for path in paths:
            node = nodes[path]  # one that is not there any more was the oldest of too many
            if node is None:
                continue
            known = RemovedRequests.from_bytes(node.data, source=f"znode {path}").requests.get(wanted)
            if known is not None:
                return known
        return None

    def note_ops(self, through: int, requests: Mapping[str, RemovedRun]) -> list[Op]:
        """Return the writes of the notes about what one transaction removes.

        :param through: Highest number among the runs that go; 0 when none does.
        :param requests: Id of a request -> what it had led to.
        """
        parent = self.paths.removed_runs
        found = read_record(self.coordinator, parent, RemovedRuns)
        before, version = found or (RemovedRuns(), None)
        part, ops = before.part, list[Op]()
        if requests:
            path = self.paths.removed_requests(part)
            current = read_record(self.coordinator, path, RemovedRequests) if part else None
            if current is None or len(current[0].requests) >= PER_PART:
                part += 1
                path, current = self.paths.removed_requests(part), None
            known = current[0].requests if current else {}
            noted = {digest(request_id): run for request_id, run in requests.items()}
            data = RemovedRequests(requests=known | noted).to_bytes()
            ops.append(Create(path, data) if current is None else SetData(path, data, current[1]))
            oldest = self.paths.removed_requests(part - PARTS)
            if current is None and part > PARTS and self.coordinator.find(oldest) is not None:
                ops.append(Delete(oldest))
        after = before.model_copy(update={"through": max(before.through, through), "part": part})
        if version is None:
            return [Create(parent, after.to_bytes()), *ops]
        return [Check(parent, version) if after == before else SetData(parent, after.to_bytes(), version), *ops]


def digest(request_id: str) -> str:
    """Return what stands for a request's id in the notes: the same for the id and for its node in ``watchers``."""
    return hashlib.sha256(safe_segment(request_id).encode()).hexdigest()[:_DIGITS]


def removed(paths: JobPaths, number: int) -> JobStateError:
    """Return the error of a run that is not there any more."""
    return JobStateError(
        f"run {number} of job {paths.job_id!r} was over and has been removed",
        next_step="Its checkpoints and savepoints do not need it. retained_runs and retained_days of the connection "
        "say how long runs are kept",
    )


class DeletedJob(Record):
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
class JobLife:
    """What the node of a job says about its life.

    :param deleted: The record of its deletion; ``None`` for a job that lives, or that never was.
    :param version: Version of the node; 0 for one that does not exist yet.
    """

    paths: JobPaths
    deleted: DeletedJob | None
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

    def ends(self, record: DeletedJob) -> list[Op]:
        """Return what makes the job gone, or its deletion complete."""
        listed = [] if self.deleted is not None else [Create(self.paths.cluster.deleted(self.paths.job_id))]
        return [SetData(self.paths.base, record.to_bytes(), self.version), *listed]


def read_life(coordinator: Coordinator, paths: JobPaths) -> JobLife:
    """Return the life of a job.

    :raises RecordCorruptError: Its node holds something else.
    """
    node = coordinator.find(paths.base)
    if node is None:
        return JobLife(paths, None, 0)
    deleted = DeletedJob.from_bytes(node.data, source=node.path) if node.data else None
    return JobLife(paths, deleted, node.version)


def refuse_half_deleted(life: JobLife) -> None:
    """Refuse a run of a job that is being deleted.

    :raises JobStateError: It is; names the command that completes that.
    """
    if life.deleted is not None and not life.deleted.complete:
        raise JobStateError(
            f"job {life.paths.job_id!r} is being deleted since {life.deleted.at:%Y-%m-%d %H:%M} UTC",
            next_step=f"Complete that first: {life.deleted.command(life.paths.job_id)}",
        )
