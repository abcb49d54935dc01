"""Runs of a job: submissions, results, starts and working directory.

A run without a result is live. Runs, submissions, exits and results are created once and never change (except a result
from DIRTY to CLEAN). So a record that was read stays valid, and only a missing one may appear later. Reads rely on
that: see :meth:`RunStore.get`.

Invariant: a submitter takes no lock, so reading the runs proves nothing. A function that reads them also returns
operations that fail if a run was created in between, and a run is created only while its start exists
(``jobs.submit.run_submission``). So of a simultaneous removal and submission, only one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from airflow_provider_ha.checkpoints.store.removal import LiveRunStart
from airflow_provider_ha.coordination.coordinator import (
    Check,
    Coordinator,
    Create,
    Delete,
    Node,
    ReadResponse,
    Reads,
    SetData,
    Steps,
    follow,
)
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import Generation, Run, RunResult, StartKind
from airflow_provider_ha.jobs.removal.removal_records import JobLife, RemovedRunStore, read_life, removed
from airflow_provider_ha.jobs.runs.submissions import Submission, SubmissionExit, SubmissionStarted
from airflow_provider_ha.records import Record
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import Directories


def working_directory(directories: Directories, paths: JobPaths, generation: Generation) -> str:
    """Return the key of the working directory that *generation* names.

    :param directories: Working directories of the cluster.
    :raises RecordCorruptError: The generation names anything but a working directory of this job.
    :raises StorageUnavailableError: The directory or a parent could not be checked.
    """
    inside = (JobKeys(paths.job_id).live,)
    return directories.admit(generation.directory, inside=inside, source=f"znode {paths.generation}")


RecordT = TypeVar("RecordT", bound=Record)
_AT_ONCE = 500  # nodes per read
_SHOWN = 10  # numbers listed in a message


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """A submission as read.

    :param started: ``None`` until the engine accepted the submission.
    :param exit: ``None`` until all its processes are proven dead; never written after a loss of their host.
    :param created_zxid: ZooKeeper transaction that created the submission; orders it among leaderships.
    """

    submission: Submission
    started: SubmissionStarted | None = None
    exit: SubmissionExit | None = None
    created_zxid: int = 0


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as read.

    :param result: ``None`` while the run is live.
    :param submissions: Ascending by attempt.
    """

    run: Run
    result: RunResult | None = None
    submissions: tuple[SubmissionView, ...] = ()

    @property
    def refused(self) -> str:
        """Reason why the newest submission's supervisor refused a driver; empty otherwise, or after its end."""
        newest = self.newest
        return newest.started.refused if newest is not None and newest.started is not None and not newest.exit else ""

    @property
    def is_dead(self) -> bool:
        """``True`` if all submissions are proven dead."""
        return all(each.exit is not None for each in self.submissions)

    def are_dead_before(self, attempt: int) -> bool:
        """Return whether all submissions before *attempt* are proven dead."""
        return all(each.exit is not None for each in self.submissions if each.submission.attempt < attempt)

    @property
    def newest(self) -> SubmissionView | None:
        """The newest submission, which alone may lead."""
        return self.submissions[-1] if self.submissions else None


def live(view: RunView) -> bool:
    """Return whether the run has no result: its driver may be running, or the run waits for its recovery."""
    return view.result is None


def refuse_other_run(what: str, job_id: str, *, seen: int | None, newest: int) -> None:
    """Refuse an act meant for another run than the newest. Pure.

    :param what: Name of the act, for the error: ``"stop"``.
    :param seen: The run that the caller has seen, 0 for none; ``None`` for the newest run in any case.
    :param newest: Number of the newest run, 0 for none.
    :raises JobStateError: The newest run is another one.
    """
    if seen is not None and newest != seen:
        raise JobStateError(
            f"this {what} is for run {seen} of job {job_id!r}, and the newest is run {newest}",
            next_step=f"Nothing was done: check the job again (`spark-ha job show {job_id}`), then decide",
        )


class RunStore:
    """Reads a job's runs and returns the operations that write them. Owns nothing; safe in any thread.

    Writes are operations for a larger transaction: a run is created with its first submission, and a leader's result is
    fenced.
    """

    def __init__(self, coordinator: Coordinator, paths: JobPaths) -> None:
        self._coordinator = coordinator
        self._paths = paths

    def numbers(self) -> list[int]:
        """Return the numbers of all runs, ascending."""
        return node_numbers(self._coordinator.children(self._paths.runs), parent=self._paths.runs)

    def latest(self) -> RunView | None:
        """Return the newest run; ``None`` if the job never had a run."""
        numbers = self.numbers()
        return self.get(numbers[-1]) if numbers else None

    def live_run(self) -> int | None:
        """Return the number of the job's live run; ``None`` without one."""
        newest = max(self.numbers(), default=0)
        return newest if newest and self.result(newest) is None else None

    def results(self, numbers: Iterable[int] | None = None) -> dict[int, RunResult]:
        """Return the results of runs, by number, ascending; runs without a result are left out.

        :param numbers: Runs to read; all when omitted.
        """
        return self._read_all(self.numbers() if numbers is None else numbers, self._paths.run_result, RunResult)

    def runs(self, numbers: Iterable[int]) -> dict[int, Run]:
        """Return runs by number, in the order of *numbers*; removed runs are left out."""
        return self._read_all(numbers, self._paths.run, Run)

    def _read_all(
        self, numbers: Iterable[int], path_of: Callable[[int], str], record: type[RecordT]
    ) -> dict[int, RecordT]:
        paths = {number: path_of(number) for number in numbers}
        nodes: dict[str, Node | None] = {}
        for start in range(0, len(paths), _AT_ONCE):
            some = tuple(islice(paths.values(), start, start + _AT_ONCE))
            nodes.update(self._coordinator.read(Reads(some)).nodes)
        found = {number: decode(nodes[path], record) for number, path in paths.items()}
        return {number: each for number, each in found.items() if each is not None}

    def drains_after(self) -> int | None:
        """Return the epoch after which an unfinished drain belongs to the newest run.

        :returns: ``None`` if that run has finished a drain, or if there is no run.
        """
        numbers = self.numbers()
        if not numbers:
            return None
        results = self.results(numbers)
        own = results.pop(numbers[-1], None)
        if own is not None and own.drained:
            return None
        return max((result.epoch for result in results.values()), default=0)

    def get(self, number: int) -> RunView:
        """Return run *number*.

        :raises JobStateError: The run does not exist.
        """
        seen = self._coordinator.read(reads_of_run(self._paths, number))
        if seen.nodes[self._paths.run(number)] is None:
            raise self._missing(number)
        return view_of_run(self._coordinator, self._paths, number, seen)

    def result(self, number: int) -> RunResult | None:
        """Return the result of run *number*; ``None`` while it is live."""
        return decode(self._coordinator.find(self._paths.run_result(number)), RunResult)

    def create_op(self, run: Run) -> Create:
        """Return the creation of a run.

        It fails with ``NodeExistsError`` if another submitter that saw the same newest run was faster.
        """
        return Create(self._paths.run(run.number), run.to_bytes())

    def submission_ops(self, number: int, submission: Submission) -> tuple[Create, ...]:
        """Return the creation of run *number*'s submission, preceded for the first attempt by their parent node."""
        create = Create(self._paths.submission(number, submission.attempt), submission.to_bytes())
        return (create,) if submission.attempt > 1 else (Create(self._paths.submissions(number)), create)

    def result_op(self, number: int, result: RunResult) -> Create:
        """Return the creation of a run's result.

        Commit it in a fenced transaction with the removal of the graph pointer: an ended run must not be recovered.
        """
        return Create(self._paths.run_result(number), result.to_bytes())

    def clean_op(self, number: int) -> SetData | None:
        """Return the change of a result from DIRTY to CLEAN; ``None`` if it is CLEAN already.

        :raises NodeMissingError: The run has no result.
        """
        node = self._coordinator.get(self._paths.run_result(number))
        result = RunResult.from_bytes(node.data, source=node.path)
        if result.cleanup == "CLEAN":  # guard: results-clean-once
            return None
        # guard: results-version-of-clean
        return SetData(node.path, result.model_copy(update={"cleanup": "CLEAN"}).to_bytes(), node.version)

    def _missing(self, number: int) -> JobStateError:
        numbers = self.numbers()
        if numbers and 0 < number < numbers[-1]:
            return removed(self._paths, number)
        return JobStateError(
            f"job {self._paths.job_id!r} has no run {number}", next_step=f"Choose from {_short(numbers)}"
        )


def _short(numbers: Sequence[int]) -> str:
    shown = [str(number) for number in numbers]
    return ", ".join(shown if len(shown) <= _SHOWN else [shown[0], "…", *shown[-_SHOWN + 1 :]]) or "none"


def reads_of_run(paths: JobPaths, number: int) -> Reads:
    """Return the reads for :func:`view_of_run`."""
    return Reads((paths.run(number),), (paths.submissions(number),))


def view_of_run(coordinator: Coordinator, paths: JobPaths, number: int, seen: ReadResponse) -> RunView:
    """Return the existing run *number* from *seen*, the response to :func:`reads_of_run`, and one more round trip."""
    return follow(coordinator, steps_of_run(paths, number, seen))


def steps_of_run(paths: JobPaths, number: int, seen: ReadResponse) -> Steps[RunView]:
    """Read the same as :func:`view_of_run` in a round trip that other readers may share.

    The result is read last. An exit proves that the submission writes nothing more, so a result still missing after the
    exit was read will not come from that submission. In the other order, a run that finished between the two reads
    would look like a run whose driver died.
    """
    parent = paths.submissions(number)
    attempts = node_numbers(seen.lists[parent], parent=parent)
    nodes = [
        path(number, attempt)
        for attempt in attempts
        for path in (paths.submission, paths.submission_started, paths.submission_exit)
    ]
    result = paths.run_result(number)
    later = yield Reads((*nodes, result, paths.run(number)))
    # A run removed during the read has lost its result, and would look like a live one.
    if later.nodes[result] is None and later.nodes[paths.run(number)] is None:
        raise removed(paths, number)
    return RunView(
        run=Run.from_bytes(seen.there(paths.run(number)).data, source=paths.run(number)),
        # The leader has removed a missing submission, which ended long ago, after its name was read.
        submissions=tuple(
            _submission(paths, number, attempt, later)
            for attempt in attempts
            if later.nodes[paths.submission(number, attempt)] is not None
        ),
        result=decode(later.nodes[result], RunResult),
    )


def _submission(paths: JobPaths, number: int, attempt: int, seen: ReadResponse) -> SubmissionView:
    node = seen.there(paths.submission(number, attempt))
    return SubmissionView(
        submission=Submission.from_bytes(node.data, source=node.path),
        started=decode(seen.nodes[paths.submission_started(number, attempt)], SubmissionStarted),
        exit=decode(seen.nodes[paths.submission_exit(number, attempt)], SubmissionExit),
        created_zxid=node.modified_zxid,  # a submission's node is never set again
    )


def decode(node: Node | None, record: type[RecordT]) -> RecordT | None:
    """Return the record in a node; ``None`` for a missing node.

    :raises RecordCorruptError: The node holds other data; the message has its path.
    """
    return None if node is None else record.from_bytes(node.data, source=node.path)


def start_of_run(coordinator: Coordinator, paths: JobPaths) -> LiveRunStart:
    """Return the start of a job's live run.

    :raises RecordCorruptError: A record cannot be read, so the start is unknown.
    """
    life = read_life(coordinator, paths)
    if life.deleted is not None:
        # The first run of a new life writes this node, so the check fails then.
        return LiveRunStart(unchanged=(Check(paths.base, life.version),))
    runs = RunStore(coordinator, paths)
    numbers = runs.numbers()
    # Without any run the parent node may be missing, and a submitter creates it first.
    has_parent = bool(numbers) or coordinator.find(paths.runs) is not None
    following = paths.run(next_number(coordinator, paths, numbers, life)) if has_parent else paths.runs
    # ZooKeeper has no check for absence: create and delete in one transaction instead.
    unchanged = (Create(following), Delete(following))
    newest = runs.runs(numbers[-1:]).get(numbers[-1]) if numbers else None
    if newest is None or runs.result(newest.number) is not None:
        return LiveRunStart(unchanged=unchanged)
    return LiveRunStart(run=newest.number, savepoint_id=_own_savepoint(newest, paths), unchanged=unchanged)


def next_number(coordinator: Coordinator, paths: JobPaths, numbers: list[int], life: JobLife) -> int:
    """Return the number of a job's next run, unused so far."""
    through = RemovedRunStore(coordinator, paths).read().through
    return max(through, life.last_run, *numbers) + 1  # guard: numbers-of-removed-runs-come-again


def _own_savepoint(run: Run, paths: JobPaths) -> str | None:
    own = run.start.kind is StartKind.SAVEPOINT and run.start.source_job == paths.job_id
    return run.start.source_id if own else None
