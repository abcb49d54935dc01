"""State of a request: no record yet, or its operation and the resulting state of its run.

Invariants: an operation ends with its own run, and later runs of the job do not change it. A request that was sent but
not answered is reported as such, never as failed: it may still be executed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from airflow.configuration import conf
from itsdangerous import BadData, URLSafeTimedSerializer

from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState, RunResult
from airflow_provider_ha.jobs.runs import decode
from airflow_provider_ha.plugins._bounded import Bounded, OverTimeError
from airflow_provider_ha.plugins._forms import LIFETIME, Intent


_ENDS = {OperationKind.STOP, OperationKind.CANCEL, OperationKind.CANCEL_WITH_SAVEPOINT}
_SALT = "spark-ha-asked"


class Sent(Enum):
    """State of a request when its form is answered."""

    ANSWERED = "answered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NotKnown:
    """A request without an answer and without an operation yet.

    :param action: The requested action.
    """

    action: str


@dataclass(frozen=True, slots=True)
class Followed:
    """An operation, with the state of its run.

    :param result: Of that run; ``None`` before its end, and after the removal of its record.
    :param removed: Whether the run ended and its record was removed: its result stays unknown.
    """

    operation: Operation
    result: RunResult | None
    removed: bool

    @property
    def waits(self) -> bool:
        """Whether an answer, or the end of a stopped or cancelled run, is still pending."""
        if self.removed:
            return False
        state, kind = self.operation.state, self.operation.operation
        ends = kind in _ENDS and state is OperationState.COMPLETED
        return not state.final or (ends and self.result is None)


def follow_operation(client: HaClient, job_id: str, operation_id: str) -> Followed | None:
    """Return an operation with its run; ``None`` if it was never requested, or its record was removed.

    :raises NotConnectedError: ZooKeeper could not be read.
    """
    found = client.job(job_id).operation(operation_id)
    if found is None:
        return None
    number = found.run
    paths = client.paths.job(job_id)
    run, result = paths.run(number), paths.run_result(number)
    # The run is read last: it is removed together with its result, so without both it had ended.
    seen = client.coordinator.read(Reads((result, run))).nodes
    return Followed(found, decode(seen[result], RunResult), removed=seen[run] is None and seen[result] is None)


def send(zookeeper: Bounded, ask: Callable[[], None], *, seconds: float) -> Sent:
    """Execute a request and wait for it. An overdue request continues: it cannot be cancelled.

    :raises OverTimeError: It was not sent: earlier calls hang.
    :raises HaError: Errors of *ask*.
    """
    begun = threading.Event()

    def run() -> None:
        begun.set()
        ask()

    try:
        zookeeper.call(run, seconds=seconds)
    except (NotConnectedError, OutcomeUnknownError, OverTimeError):
        if not begun.is_set():
            raise
        return Sent.UNKNOWN
    return Sent.ANSWERED


def mark_of(intent: Intent) -> str:
    """Return the mark that identifies an unanswered request in the URL of its outcome.

    It needs no state and authorizes nothing: the tokens of forms are signed with another key of the same secret.
    """
    return _serializer().dumps([intent.cluster, intent.job_id, intent.operation_id, intent.action])


def not_known(mark: str, cluster: str, job_id: str, operation_id: str) -> NotKnown | None:
    """Return the request of a mark; ``None`` without a mark, or for a forged, old or unrelated one."""
    try:
        *asked, action = _serializer().loads(mark, max_age=LIFETIME)
    except (BadData, TypeError, ValueError):
        return None
    if asked != [cluster, job_id, operation_id]:
        return None
    return NotKnown(str(action))


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get_mandatory_value("api", "secret_key"), salt=_SALT)
