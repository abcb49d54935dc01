"""Reads jobs for their metrics, again and again, at one request each while nothing has happened.

A job that is led is read as a whole when it has another leader; in between only its status is news, and is decoded when
it was written again. One whose run is over is read as a whole when it has a leader or a graph pointer again, or is
deleted. Every other job is read as a whole each time. What the triggers of the session watch of these nodes is known
without a request.

A triggerer has thousands of jobs, and Python's collector of cycles stops its event loop for as long as it takes to look
at everything that is kept: so of a job that is not read as a whole again nothing is kept that no sample needs, and of
every other job nothing at all.

The options of a run lie in storage, in its graph. They are read once for each run, and what goes wrong with that is no
trouble of the other values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from airflow_provider_ha.checkpoints.model import CheckpointPointer
from airflow_provider_ha.coordination.node import Node
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.coordination.steps import Steps, follow_all, or_error
from airflow_provider_ha.errors import HaError, RecordCorruptError, StorageUnavailableError, UnknownJobError
from airflow_provider_ha.jobs.model import Status
from airflow_provider_ha.jobs.observe import in_one_session, whole_steps
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.jobs.runs import decode
from airflow_provider_ha.jobs.status import JobStatus
from airflow_provider_ha.triggers._samples import ReadJob
from airflow_provider_ha.triggers._watched_nodes import Nodes


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient
    from airflow_provider_ha.triggers._session import Session


@dataclass(frozen=True, slots=True)
class _Known:
    """A job as it was read last.

    :param mark: What changes when it has to be read as a whole.
    :param status_mark: What changes with each write of its status; ``None`` when that is not known.
    """

    snapshot: JobStatus
    mark: tuple[int | None, ...]
    checkpoint: CheckpointPointer | None = None
    status_mark: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether a change of its newest run changes the mark: not while its next driver is on its way, or lost."""
        run = self.snapshot.run
        if run is None:
            return False
        led = self.snapshot.leader is not None and run.newest is not None and run.newest.exit is None
        return run.result is not None or led

    def with_status(self, node: Node | None) -> _Known:
        """Return it with its status as it is now.

        :raises RecordCorruptError: It cannot be read.
        """
        if node is not None and node.modified_zxid == self.status_mark:
            return self
        mark = None if node is None else node.modified_zxid
        return replace(self, snapshot=replace(self.snapshot, status=decode(node, Status)), status_mark=mark)

    def without_what_no_sample_needs(self) -> _Known:
        """Return what is worth keeping until it is read again."""
        numbers = self.snapshot.checkpoint_numbers[-1:]
        kept = replace(self.snapshot, graph=None, generation=None, recovery=None, checkpoint_numbers=numbers)
        return replace(self, snapshot=kept)


class KnownJobs:
    """What is known of some jobs. For one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._options: dict[str, tuple[int, HaOptions | None]] = {}

    def __len__(self) -> int:
        """Return of how many jobs something is kept. For any thread."""
        return len(self._known)

    def read(self, session: Session, job_ids: Sequence[str]) -> dict[str, ReadJob | None]:
        """Return jobs as they are; ``None`` for one that does not exist, and nothing of one that cannot be read.

        :raises NotConnectedError: They could not be read.
        """
        found = dict[str, ReadJob | None]()
        for job_id, read in zip(job_ids, self._read(session, job_ids), strict=True):
            if isinstance(read, _Known):
                self._keep(job_id, read)
                found[job_id] = ReadJob(snapshot=read.snapshot, checkpoint=read.checkpoint)
                continue
            self.forget([job_id])
            if isinstance(read, UnknownJobError):
                found[job_id] = None
        return found | self._with_options(session.client, found)

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop what is known of jobs."""
        for job_id in job_ids:
            self._known.pop(job_id, None)
            self._options.pop(job_id, None)

    def _keep(self, job_id: str, read: _Known) -> None:
        if not read.is_settled:
            self._known.pop(job_id, None)
        elif read is not self._known.get(job_id):
            self._known[job_id] = read.without_what_no_sample_needs()

    def _read(self, session: Session, job_ids: Sequence[str]) -> list[_Known | HaError]:
        client = session.client
        jobs = [client.paths.job(job_id) for job_id in job_ids]

        def read() -> list[_Known | HaError]:
            kept = session.nodes.kept(path for job in jobs for path in (job.leader, job.job_graph))
            steps = [or_error(_steps(job, self._known.get(job.job_id), kept)) for job in jobs]
            return follow_all(client.coordinator, steps)

        return in_one_session(client.coordinator, f"{len(jobs)} jobs", read)

    def _with_options(self, client: HaClient, found: dict[str, ReadJob | None]) -> dict[str, ReadJob]:
        known, answers = dict[str, ReadJob](), True
        for job_id, job in found.items():
            run = job.snapshot.run if job is not None else None
            if job is None or run is None or run.result is not None:
                continue
            number, options = self._options.get(job_id, (0, None))
            if number != run.run.number:
                options = None
                if answers:
                    try:
                        options = client.context(job_id).graph_of(run.run).options
                    except StorageUnavailableError:
                        answers = False
                        continue
                    except HaError:
                        options = None  # missing or damaged, and that stays so: `job show` has the reason
                    self._options[job_id] = run.run.number, options
            known[job_id] = replace(job, options=options)
        return known


def _steps(paths: JobPaths, known: _Known | None, kept: Nodes) -> Steps[_Known]:
    marked = (paths.leader, paths.job_graph, paths.base)
    if known is not None and known.is_settled:
        led = known.snapshot.leader is not None
        compared = marked[:1] if led else marked  # a job that is led is not deleted
        watched = {path: kept[path] for path in compared if path in kept}
        unknown = tuple(path for path in compared if path not in watched)
        seen = yield Reads((*unknown, paths.status) if led else unknown)
        if _mark({**seen.nodes, **watched}, compared) == known.mark[: len(compared)]:
            return (yield from _with_checkpoint(paths, known.with_status(seen.nodes[paths.status]))) if led else known
    # Before the rest: what changes in between has another mark the next time.
    first = yield Reads(marked)
    snapshot = yield from whole_steps(paths)
    return (yield from _with_checkpoint(paths, _Known(snapshot, _mark(first.nodes, marked))))


def _mark(nodes: Nodes, paths: Iterable[str]) -> tuple[int | None, ...]:
    return tuple(None if (node := nodes[path]) is None else node.modified_zxid for path in paths)


def _with_checkpoint(paths: JobPaths, known: _Known) -> Steps[_Known]:
    """Return it with its newest checkpoint. A leader writes the number of each new one into its status."""
    snapshot, status = known.snapshot, known.snapshot.status
    number = status.checkpoint if status is not None and status.epoch == snapshot.epoch else None
    number = number or snapshot.latest_checkpoint
    if number is None or (known.checkpoint is not None and known.checkpoint.number == number):
        return known
    path = paths.checkpoint(number)
    seen = yield Reads((path,))
    try:
        found = decode(seen.nodes[path], CheckpointPointer)
    except RecordCorruptError:
        found = None  # it hides neither the state nor the rest
    return replace(known, checkpoint=found or known.checkpoint)
