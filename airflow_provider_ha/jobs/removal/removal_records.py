"""Records of removed runs and of deleted jobs.

Removed runs:

- The transaction that removes a run also writes the note about it. A reader looks for the run first and for the note
  second, so a request always finds either.
- A run missing in ZooKeeper whose number is at most :attr:`RemovedRuns.through` was removed after the proven death of
  all its processes. A missing run with a higher number is unknown, as after a loss of ZooKeeper's data.
- A note takes some 50 bytes. A job keeps the newest 50,000 in a hundred nodes.

Deleted jobs:

- One transaction deletes a job for all readers: it writes the record into the job's own node, lists the job as deleted,
  and removes the pointers of its checkpoints.
- Creating a run fails while the record exists and is not complete. The transaction that creates the first run of a new
  life removes the record, and every transaction that creates a run checks the version of the node.
- Epochs, the checkpoint counter and run numbers continue, so a new life reuses no name of an old one.
- The transaction that creates the first run of a new life marks all earlier runs as removed. So each host that leads in
  the new life removes their directories, except for the runs in :attr:`RemovedRuns.unproven`, whose processes had no
  proof of death at the deletion.
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


PER_PART = 500  # notes per node, some 25 kB that each removal rewrites
PARTS = 100
Span = tuple[int, int]
"""First and last number of consecutive runs."""
_DIGITS = 16  # of a request id's digest: 64 bits; two of 50,000 collide once in 15 billion jobs


class PastLife(Model):
    """Facts about a deleted job's last life that a restore from a kept savepoint needs.

    :param last_run: Number of its newest run.
    :param drained: As in :class:`DeletedJob`.
    :param unrecorded: As in :class:`DeletedJob`.
    :param starts: As in :class:`DeletedJob`.
    """

    last_run: int
    drained: dict[str, DrainedQuery] = {}
    unrecorded: bool = False
    starts: dict[int, dict[str, int]] = {}


class RemovedRuns(Record):
    """``removed_runs``: the extent of a job's removed runs.

    :param through: Highest number of a removed run.
    :param part: Number of the newest node with notes; 0 if none exists.
    :param unproven: Runs of earlier lives, as spans, whose processes have no proof of death.
    :param past: The previous life, relevant until a run of this life has a checkpoint.
    """

    kind: ClassVar[str] = "removed-runs"

    through: int = 0
    part: int = 0
    unproven: tuple[Span, ...] = ()
    past: PastLife | None = None

    def removed(self, run: int) -> bool:
        """Return whether a run missing in ZooKeeper was removed after the proven death of its processes."""
        return 0 < run <= self.through and not any(first <= run <= last for first, last in self.unproven)


class RemovedRun(Model):
    """Note about the run of a request.

    :param run: Number of the request's newest run, which was removed.
    :param failed: Whether the run ended FAILED; a request may repeat such a run.
    """

    run: int
    failed: bool = False


class RemovedRequests(Record):
    """``removed_runs/<part>``: a part of the notes.

    :param requests: Digest of a request id -> its note.
    """

    kind: ClassVar[str] = "removed-requests"

    requests: dict[str, RemovedRun] = {}


@dataclass(frozen=True, slots=True)
class RemovedRunStore:
    """A job's notes about removed runs. Owns nothing; safe in any thread."""

    coordinator: Coordinator
    paths: JobPaths

    def read(self) -> RemovedRuns:
        """Return the extent of the removed runs.

        :raises RecordCorruptError: The record cannot be read.
        """
        found = read_record(self.coordinator, self.paths.removed_runs, RemovedRuns)
        return found[0] if found else RemovedRuns()

    def find(self, request_id: str) -> RemovedRun | None:
        """Return the note about a request's removed run, or ``None``.

        Look for the run itself first: a run removed after that look has its note already.

        :raises RecordCorruptError: A note cannot be read, so the existence of a run is unknown.
        """
        parent = self.paths.removed_runs
        parts = node_numbers(self.coordinator.children(parent), parent=parent)
        paths = [self.paths.removed_requests(part) for part in reversed(parts)]
        nodes = self.coordinator.read(Reads(tuple(paths))).nodes if paths else {}
        wanted = digest(request_id)
        for path in paths:
            node = nodes[path]  # a missing one was the oldest, and made room
            if node is None:
                continue
            known = RemovedRequests.from_bytes(node.data, source=f"znode {path}").requests.get(wanted)
            if known is not None:
                return known
        return None

    def note_ops(self, through: int, requests: Mapping[str, RemovedRun]) -> list[Op]:
        """Return the writes of the notes for one removing transaction.

        :param through: Highest number among the removed runs; 0 if none is removed.
        :param requests: Request id -> its note.
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
    """Return the key of a request in the notes, the same for the request id and for its node name in ``watchers``."""
    return hashlib.sha256(safe_segment(request_id).encode()).hexdigest()[:_DIGITS]


def removed(paths: JobPaths, number: int) -> JobStateError:
    """Return the error for a removed run."""
    return JobStateError(
        f"run {number} of job {paths.job_id!r} was over and has been removed",
        next_step="Its checkpoints and savepoints do not need it. retained_runs and retained_days of the connection "
        "limit how long runs are kept",
    )


class DeletedJob(Record):
    """The content of a deleted job's node.

    :param keep_savepoints: Whether the savepoints stay.
    :param last_run: Number of the newest run; 0 if the job had none.
    :param complete: Whether everything is removed except the kept parts.
    :param drained: Query -> the drain batch that the last working run has written, or may have written if it did not
        finish. A restore from a kept savepoint cannot learn this from the run or its directory, because both are
        removed.
    :param unrecorded: Whether the last working directory had, or may have had, batches without a payload record.
    :param starts: Run -> query -> highest batch shared with the earlier runs, for runs that a driver has led; a missing
        query began without a checkpoint.
    :param by: User or process that deleted the job.
    :param unproven: Runs, as spans, whose processes had no proof of death at the deletion.
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
        """Removed runs of all lives so far, as the next life records them."""
        past = self.past if self.keep_savepoints else None
        return RemovedRuns(through=self.last_run, unproven=self.unproven, past=past)

    @property
    def past(self) -> PastLife:
        """Facts about the ended life for a restore from a kept savepoint."""
        return PastLife(last_run=self.last_run, drained=self.drained, unrecorded=self.unrecorded, starts=self.starts)

    def command(self, job_id: str) -> str:
        """Return the command that completes this deletion, with the same choice about savepoints."""
        kept = " --keep-savepoints" if self.keep_savepoints else ""
        return f"`spark-ha delete job {job_id}{kept}`"

    def error(self, job_id: str) -> UnknownJobError:
        """Return the error for readers of the job."""
        state = "was" if self.complete else "is being"
        kept = "; its savepoints are kept" if self.keep_savepoints else ""
        return UnknownJobError(
            f"job {job_id!r} {state} deleted on {self.at:%Y-%m-%d %H:%M} UTC by {self.by}{kept}",
            next_step="Submit it again" if self.complete else f"Complete that: {self.command(job_id)}",
        )


@dataclass(frozen=True, slots=True)
class JobLife:
    """State of a job's node: living or deleted.

    :param deleted: Record of the deletion; ``None`` for a living or unknown job.
    :param version: Version of the node; 0 if it does not exist.
    """

    paths: JobPaths
    deleted: DeletedJob | None
    version: int

    @property
    def last_run(self) -> int:
        """Number of the newest run of the earlier lives; 0 in the first life."""
        return self.deleted.last_run if self.deleted is not None else 0

    def begins(self) -> list[Op]:
        """Return the operations that let a transaction create a run: end a complete deletion, or check for none."""
        if self.deleted is None:
            return [Check(self.paths.base, self.version)]  # guard: runs-of-deleted-jobs
        return [
            SetData(self.paths.base, b"", self.version),
            Delete(self.paths.cluster.deleted(self.paths.job_id)),
            Create(self.paths.removed_runs, self.deleted.past_runs.to_bytes()),
        ]

    def ends(self, record: DeletedJob) -> list[Op]:
        """Return the operations that delete the job for all readers, or that mark its deletion as complete."""
        listed = [] if self.deleted is not None else [Create(self.paths.cluster.deleted(self.paths.job_id))]
        return [SetData(self.paths.base, record.to_bytes(), self.version), *listed]


def read_life(coordinator: Coordinator, paths: JobPaths) -> JobLife:
    """Return the life of a job.

    :raises RecordCorruptError: The node holds another kind of data.
    """
    node = coordinator.find(paths.base)
    if node is None:
        return JobLife(paths, None, 0)
    deleted = DeletedJob.from_bytes(node.data, source=node.path) if node.data else None
    return JobLife(paths, deleted, node.version)


def refuse_half_deleted(life: JobLife) -> None:
    """Refuse a run of a job whose deletion is incomplete.

    :raises JobStateError: The deletion is incomplete; the message has the command that completes it.
    """
    if life.deleted is not None and not life.deleted.complete:
        raise JobStateError(
            f"job {life.paths.job_id!r} is being deleted since {life.deleted.at:%Y-%m-%d %H:%M} UTC",
            next_step=f"Complete that first: {life.deleted.command(life.paths.job_id)}",
        )
