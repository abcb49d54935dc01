"""What is known of a request: nothing yet, or its operation and what has become of its run.

Invariants: an operation is over with its own run, and what later runs of the job do says nothing about it. A request
that was sent and not answered is said to be that, never to have failed: it may still be carried out.
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
    """What is known of a request when its form is answered."""

    ANSWERED = "answered"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class NotKnown:
    """A request without an answer, of which no operation has come yet.

    :param action: What was asked for.
    """

    action: str


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
        if self.removed:
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
    number = found.run
    paths = client.paths.job(job_id)
    run, result = paths.run(number), paths.run_result(number)
    # The run is read last: it goes with its result, so without both it was over.
    seen = client.coordinator.read(Reads((result, run))).nodes
    return Followed(found, decode(seen[result], RunResult), removed=seen[run] is None and seen[result] is None)


def send(zookeeper: Bounded, ask: Callable[[], None], *, seconds: float) -> Sent:
    """Have a request carried out, and wait for it. What takes longer goes on: nothing can end it.

    :raises OverTimeError: Nothing was sent: earlier calls hang.
    :raises HaError: What *ask* raises.
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
    """Return what says, in the URL of an outcome, that its operation was asked for and not answered.

    It needs no state, and is nothing that acts: another key of the same secret signs the tokens of forms.
    """
    return _serializer().dumps([intent.cluster, intent.job_id, intent.operation_id, intent.action])


def not_known(mark: str, cluster: str, job_id: str, operation_id: str) -> NotKnown | None:
    """Return the request that a mark stands for; ``None`` for no mark, a forged or old one, or another operation's."""
    try:
        *asked, action = _serializer().loads(mark, max_age=LIFETIME)
    except (BadData, TypeError, ValueError):
        return None
    if asked != [cluster, job_id, operation_id]:
        return None
    return NotKnown(str(action))


def _serializer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get_mandatory_value("api", "secret_key"), salt=_SALT)
