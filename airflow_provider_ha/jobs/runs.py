"""The runs of a job: what was submitted, how often the engine was asked, and how it ended.

A run without a result is live. Runs, submissions, exits and results are created once and never change (a result only
from DIRTY to CLEAN), so what was read of them stays true; only "not there" can become "there". Reads rely on that: see
:meth:`RunStore.get`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Node, SetData
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import Run, RunResult, Submission, SubmissionExit, SubmissionStarted
from airflow_provider_ha.records import Record


RecordT = TypeVar("RecordT", bound=Record)


@dataclass(frozen=True, slots=True)
class SubmissionView:
    """One submission as it was read.

    :param started: ``None`` until the engine took it.
    :param exit: ``None`` until all its processes are proven dead; never written when their host is gone.
    :param created_zxid: ZooKeeper transaction that created it: orders it against leaderships.
    """

    submission: Submission
    started: SubmissionStarted | None = None
    exit: SubmissionExit | None = None
    created_zxid: int = 0


@dataclass(frozen=True, slots=True)
class RunView:
    """One run as it was read.

    :param result: ``None`` while the run is live.
    :param submissions: Ascending by attempt.
    """

    run: Run
    result: RunResult | None = None
    submissions: tuple[SubmissionView, ...] = ()

    @property
    def newest(self) -> SubmissionView | None:
        """The newest submission: the only one that may lead."""
        return self.submissions[-1] if self.submissions else None


def live(view: RunView) -> bool:
    """Whether the run has no result: it may be running, or wait to be recovered."""
    return view.result is None


class RunStore:
    """Reads the runs of one job, and says how to write them. Owns nothing; safe in any thread.

    Writes are operations for one transaction, because none of them is ever written alone: who creates a run creates its
    first submission with it, and a leader's result is fenced.
    """

    def __init__(self, coordinator: Coordinator, paths: JobPaths) -> None:
        self._coordinator = coordinator
        self._paths = paths

    def numbers(self) -> list[int]:
        """Return the numbers of all runs, ascending."""
        return _numbers(self._coordinator.children(self._paths.runs))

    def latest(self) -> RunView | None:
        """Return the newest run; ``None`` when the job never had one."""
        numbers = self.numbers()
        return self.get(numbers[-1]) if numbers else None

    def get(self, number: int) -> RunView:
        """Return run *number*.

        The result is read last. A submission's exit is proof that it will write nothing more, so a result that is not
        there after the exit was seen will not come from that submission. The other way round, a run that finished
        between the two reads would look like one whose driver died.

        :raises JobStateError: There is no such run.
        """
        run = self._read(self._paths.run(number), Run)
        if run is None:
            raise JobStateError(
                f"job {self._paths.job_id!r} has no run {number}",
                next_step=f"Choose one of {self.numbers()}",
            )
        submissions = tuple(self._submissions(number))
        return RunView(run=run, submissions=submissions, result=self.result(number))

    def result(self, number: int) -> RunResult | None:
        """Return the result of run *number*; ``None`` while it is live."""
        return self._read(self._paths.run_result(number), RunResult)

    def create_op(self, run: Run) -> Create:
        """Return the creation of a run.

        It fails with ``NodeExistsError`` when another submitter was faster: both had seen the same newest run.
        """
        return Create(self._paths.run(run.number), run.to_bytes())

    def submission_ops(self, number: int, submission: Submission) -> tuple[Create, ...]:
        """Return the creation of a submission of run *number*, and with the first one that of their parent."""
        create = Create(self._paths.submission(number, submission.attempt), submission.to_bytes())
        return (create,) if submission.attempt > 1 else (Create(self._paths.submissions(number)), create)

    def result_op(self, number: int, result: RunResult) -> Create:
        """Return the creation of a run's result.

        Belongs into one fenced transaction with the removal of the graph pointer: nobody may recover an ended run.
        """
        return Create(self._paths.run_result(number), result.to_bytes())

    def clean_op(self, number: int) -> SetData | None:
        """Return the change of a result from DIRTY to CLEAN; ``None`` when it is CLEAN already.

        :raises NodeMissingError: The run has no result.
        """
        node = self._coordinator.get(self._paths.run_result(number))
        result = RunResult.from_bytes(node.data, source=node.path)
        if result.cleanup == "CLEAN":
            return None
        return SetData(node.path, result.model_copy(update={"cleanup": "CLEAN"}).to_bytes(), node.version)

    def _submissions(self, number: int) -> Iterator[SubmissionView]:
        for attempt in _numbers(self._coordinator.children(self._paths.submissions(number))):
            node = self._coordinator.get(self._paths.submission(number, attempt))
            yield SubmissionView(
                submission=Submission.from_bytes(node.data, source=node.path),
                started=self._read(self._paths.submission_started(number, attempt), SubmissionStarted),
                exit=self._read(self._paths.submission_exit(number, attempt), SubmissionExit),
                created_zxid=node.modified_zxid,  # it is never set again
            )

    def _read(self, path: str, record: type[RecordT]) -> RecordT | None:
        return decode(self._coordinator.find(path), record)


def decode(node: Node | None, record: type[RecordT]) -> RecordT | None:
    """Return the record that a node holds; ``None`` for no node.

    :raises RecordCorruptError: It holds something else, with the node's path.
    """
    return None if node is None else record.from_bytes(node.data, source=node.path)


def _numbers(names: list[str]) -> list[int]:
    """Order by number, not by text: run 10 is newer than run 9 (FLINK-6284)."""
    return sorted(int(name) for name in names if name.isdecimal())
