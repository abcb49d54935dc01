"""The reader's leases of a restore: the checkpoint that it takes from another job stays until it ends.

Invariant: a lease ends with the call that took it, unless a run was made from the plan that it protects: that run's
driver has still to fork the cut, so the lease is left to run out by itself. So is a lease that a run possibly needs
(contract 2: an uncertain outcome discards nothing).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from types import TracebackType

from typing_extensions import Self

from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.coordination.leases import ReaderLease, hold
from airflow_provider_ha.errors import HaError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.jobs.job_records import who
from airflow_provider_ha.jobs.model import Blob


log = logging.getLogger(__name__)

LEASE_SECONDS = 600.0  # from the plan until the new driver has forked the cut
_UNCERTAIN = (NotConnectedError, OutcomeUnknownError)  # a run may have been made all the same


@dataclass(slots=True)
class _HeldLease:
    lease: ReaderLease
    plan: str | None = None  # digest of the plan that reads what it protects; None while there is none


class RestoreLeases:
    """What one call reads of another job. Use it in a ``with`` statement around the whole call.

    :param job: The job that is to run from it.
    :param request_id: Id of the request, for people.
    """

    def __init__(self, job: JobContext, request_id: str) -> None:
        self._job = job
        self._request_id = request_id
        self._held: list[_HeldLease] = []

    def hold(self, source: JobContext, chosen: Chosen) -> None:
        """Take a lease on *chosen*. Read its pointer after that."""
        lease = hold(
            source.coordinator,
            source.paths,
            chosen.name,
            holder=who(f"restore of {self._job.job_id} ({self._request_id})"),
            seconds=LEASE_SECONDS,
            clock=source.clock,
        )
        self._held.append(_HeldLease(lease))

    def planned(self, plan: Blob | None) -> None:
        """Note that a run may be made from *plan*, which reads what was held last."""
        if self._held and plan is not None:
            self._held[-1].plan = plan.sha256

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release what no run needs. A lease that cannot be released runs out; the call ends as it would have ended."""
        certain = error is None or (isinstance(error, Exception) and not isinstance(error, _UNCERTAIN))
        try:
            for held in self._held:
                if held.plan is None or (certain and not self._runs_from(held.plan)):  # guard: plan-keeps-its-lease
                    held.lease.release()
        except HaError as failure:
            log.warning("a reader's lease stays until it runs out: %s", failure)

    def _runs_from(self, plan: str) -> bool:
        newest = self._job.runs.latest()
        return newest is not None and newest.run.start.plan is not None and newest.run.start.plan.sha256 == plan
