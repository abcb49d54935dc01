"""What the page of an operation knows of it: the operation, and what has become of its run.

Invariant: an operation is over with its own run. What later runs of the job do says nothing about it.
"""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState, RunResult
from airflow_provider_ha.jobs.runs import decode


# guard: a-cancel-with-a-savepoint-is-over-before-its-run
_ENDS = {OperationKind.STOP, OperationKind.CANCEL, OperationKind.CANCEL_WITH_SAVEPOINT}


@dataclass(frozen=True, slots=True)
class Followed:
    """An operation, and what has become of the run that it was for.

    :param result: Of that run; ``None`` while it has none, and when it was removed.
    :param removed: Whether that run was over and its record was removed: nothing more will come of it.
    """

    operation: Operation
    result: RunResult | None
    removed: bool

    @property
    def waits(self) -> bool:
        """Whether something is still to come: an answer, or the end of a run that was stopped or cancelled."""
        if self.removed:  # guard: outcomes-wait-for-a-run-that-was-removed
            return False
        state, kind = self.operation.state, self.operation.operation
        ends = kind in _ENDS and state is OperationState.COMPLETED
        return not state.final or (ends and self.result is None)


def follow_operation(client: HaClient, job_id: str, operation_id: str) -> Followed | None:
    """Return an operation with its run; ``None`` when it was never requested, or is forgotten.

    :raises NotConnectedError: It could not be found out.
    """
    found = client.job(job_id).operation(operation_id)
    if found is None:
        return None
    number = found.run  # guard: outcomes-wait-for-another-run
    paths = client.paths.job(job_id)
    run, result = paths.run(number), paths.run_result(number)
    # The run is read last: it goes with its result, so without both it was over.
    seen = client.coordinator.read(Reads((result, run))).nodes
    return Followed(found, decode(seen[result], RunResult), removed=seen[run] is None and seen[result] is None)
