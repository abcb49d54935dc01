"""The script's view of its high availability. Optional: scripts are highly available without it.

A ``foreachBatch`` function of a driver that lost its job continues until the process ends: Spark does not stop it.
Values that change by batch therefore need a token in the table, and the script gets the token here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_ha.errors import ApplicationRefusedError, JobStateError, LeadershipLostError
from airflow_provider_ha.query_names import query_directory


if TYPE_CHECKING:  # each process of a driver imports this module, and only the driver itself needs the notes
    from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog


__all__ = ["DriverContext", "current"]

REHEARSAL_VARIABLE = "SPARK_HA_REHEARSAL"


@dataclass(frozen=True)
class DriverContext:
    """This driver's leadership.

    :param job_id: The job.
    :param run: Number of the run.
    :param epoch: Fencing token: grows with every driver of the job, and is never reset.
    :param restored_from: ``"epoch 3"``, ``"checkpoint-12"``, ``"savepoint-x"``; empty for a fresh start.
    :param given: Query -> notes of the batches given to its fenced function; ``None`` where notes are not needed.
    :param rehearsal: Whether a restore drill or a proof runs the script, in parallel to the job itself and only up to
        the start of a single query. Job, run and epoch are then empty, 0 and 0. The environment also contains
        ``SPARK_HA_REHEARSAL=1``.
    :param past: Query -> the id of its past; ``None`` for a query without a past.
    """

    job_id: str
    run: int
    epoch: int
    restored_from: str
    lease_left: Callable[[], float]
    given: Callable[[str], ForeachBatchLog] | None = None
    rehearsal: bool = False
    past: Callable[[str], str | None] = lambda _: None

    _current: ClassVar[DriverContext | None] = None

    def query_id(self, query: str) -> str:
        """Return the id of a query's past: a start without a checkpoint changes it, a recovery or a restore does not.

        The numbers of batches begin again at 0 with such a start. A sink that drops numbers which it has, as a Delta
        table does with ``txnAppId`` and ``txnVersion``, has to remember them by this id. A restore that gives the query
        a fresh id (``reset_query_ids``) changes it, too.

        :param query: Its name.
        :raises JobStateError: The query has not been started yet.
        """
        found = self.past(query_directory(query))
        if found is None:
            raise JobStateError(
                f"query {query!r} of job {self.job_id!r} has no id before it is started",
                next_step="Call query_id() inside the query's foreachBatch function, with its name",
            )
        return found

    def fenced(self, function: Callable[[Any, int], None], *, repeatable: bool = False) -> Callable[[Any, int], None]:
        """Return a ``foreachBatch`` function that refuses to run without a valid lease, and notes its batches.

        This narrows the window in which two drivers write; only a table that compares :attr:`epoch` closes it. The
        notes outlive the working directory: a restore then knows which batches the function may have written
        (``checkpoints.connectors.foreach_batch``), and does not repeat its finished batches. The notes are kept only if
        the returned function itself is passed to ``foreachBatch``.

        :param repeatable: Whether a repeated batch, with the same number and rows, leaves the output unchanged. Then
            the function gets finished batches again.
        :raises LeadershipLostError: The returned function is called after the lease ran out.
        """
        return FencedFunction(self, function, repeatable=repeatable)


class FencedFunction:
    """A ``foreachBatch`` function under a lease, with notes."""

    def __init__(
        self, leader: DriverContext, function: Callable[[Any, int], None], *, repeatable: bool = False
    ) -> None:
        self.repeatable = repeatable
        self._leader = leader
        self._function = function
        self._query: str | None = None
        self._notes: ForeachBatchLog | None = None
        functools.update_wrapper(self, function)

    def belongs_to(self, query: str) -> None:
        """From now on, note the batches given to it as the function of *query*.

        :raises ApplicationRefusedError: It is already the function of another query.
        """
        if self._query not in (None, query):
            raise ApplicationRefusedError(
                f"queries {self._query!r} and {query!r} share one fenced function, so a record could not show the "
                "query that received a batch",
                next_step="Call fenced() once for each query",
            )
        self._query = query
        if self._leader.given is not None:
            self._notes = self._leader.given(query)
            self._notes.open(self._leader.epoch, self._leader.run)

    def finished(self) -> int:
        """Return the highest batch that the function has returned from in this run; -1 for none."""
        return self._notes.finished_in(self._leader.run) if self._notes is not None else -1

    def drain(self, frame: Any, batch: int) -> None:
        """Call the function for the batch of a drain: the next run executes other rows under its number."""
        self._call(frame, batch)

    def __call__(self, frame: Any, batch: int) -> None:
        """Call the function, with a note before and after."""
        self._call(frame, batch)
        if self._notes is not None:
            self._notes.finish(self._leader.epoch, batch)

    def _call(self, frame: Any, batch: int) -> None:
        epoch = self._leader.epoch
        if self._leader.lease_left() <= 0:
            raise LeadershipLostError(
                f"epoch {epoch} of job {self._leader.job_id!r} has no lease: batch {batch} is refused"
            )
        if self._notes is not None:
            self._notes.begin(epoch, batch)
        self._function(frame, batch)


def current() -> DriverContext | None:
    """Return the context of this driver; ``None`` when the script runs without high availability."""
    return DriverContext._current  # noqa: SLF001  # this module is its keeper


def install(context: DriverContext | None) -> None:
    """Make *context* the context that scripts see."""
    DriverContext._current = context  # noqa: SLF001  # this module is its keeper
