"""One operation of a job: a stop, a cancel, a savepoint, a checkpoint."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_provider_ha.jobs.model import OperationKind, OperationState
from airflow_provider_ha.views.view import View


class OperationView(View):
    """A request with its state and its result.

    :param operation_id: Id of the request: two requests with one id are one request.
    :param operation: Kind of the operation.
    :param arguments: Its arguments: the mode of a stop, the label of a savepoint.
    :param run: Run that the request is for.
    :param requested_by: Requester, for people.
    :param requested_at: When it was made.
    :param state: ``REQUESTED``, ``RUNNING``, ``COMPLETED``, ``FAILED`` or ``ABANDONED``. Several requests that one end
        of the run fulfils are ``COMPLETED`` with one result.
    :param epoch: Epoch that took it up.
    :param result: ``savepoint_id`` and ``path`` of a savepoint, ``checkpoint`` of a stop; ``checkpoint``, ``path``,
        ``cut`` and ``new`` of a checkpoint.
    :param error: Why it failed; of a stop or cancel of a run that ended otherwise, what ended it and what helps.
    :param finished_at: When its state became final.
    """

    operation_id: str
    operation: OperationKind
    arguments: dict[str, Any]
    run: int
    requested_by: str
    requested_at: datetime
    state: OperationState
    epoch: int | None
    result: dict[str, Any]
    error: str
    finished_at: datetime | None
