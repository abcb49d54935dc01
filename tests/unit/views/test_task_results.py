"""What tasks return: the keys that DAGs name in their templates, and no key without a value."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.api.documents.operation import (
    CancelResultView,
    OperationResultView,
    RecoveredJobsView,
    SavepointResultView,
    StopResultView,
    TaskRunResultView,
)
from airflow_provider_ha.fleet.reconciler import ReconcileOutcome
from airflow_provider_ha.jobs.model import Operation, OperationKind, OperationState
from tests.support.clusters.jobs_helpers import NOON


# What fails the task instead: SparkHaRecoverJobsOperator.
FAILS = {
    ReconcileOutcome.GIVEN_UP,
    ReconcileOutcome.DECISION_NEEDED,
    ReconcileOutcome.QUARANTINED,
    ReconcileOutcome.NOT_KNOWN,
}
REQUEST = {"job_id": "flights", "run": 3, "operation_id": "o"}
SAVEPOINT = {"savepoint_id": "s1", "path": "/savepoints/s1"}


def completed(kind: OperationKind, result: dict[str, Any]) -> Operation:
    return Operation(
        operation_id="o",
        operation=kind,
        run=3,
        requested_by="t",
        requested_at=NOON,
        state=OperationState.COMPLETED,
        result=result,
    )


@pytest.mark.parametrize(
    ("view", "kind", "result"),
    [
        (StopResultView, OperationKind.STOP, {"checkpoint": 7, "path": "/checkpoints/7"}),
        (StopResultView, OperationKind.STOP, {"checkpoint": 7, **SAVEPOINT}),
        (StopResultView, OperationKind.STOP, {"checkpoint": None}),
        (CancelResultView, OperationKind.CANCEL, {}),
        (CancelResultView, OperationKind.CANCEL_WITH_SAVEPOINT, SAVEPOINT),
        (SavepointResultView, OperationKind.SAVEPOINT, SAVEPOINT),
        (SavepointResultView, OperationKind.SAVEPOINT, {**SAVEPOINT, "disposed": ["s0"]}),
    ],
    ids=[
        "stop",
        "stop with a savepoint",
        "stop without a checkpoint",
        "cancel",
        "cancel with a savepoint",
        "savepoint",
        "savepoint with limits",
    ],
)
def test_a_task_returns_its_request_and_the_result_of_the_operation(
    view: type[OperationResultView], kind: OperationKind, result: dict[str, Any]
) -> None:
    assert view.of_operation("flights", completed(kind, result)).to_json() == REQUEST | result


def test_what_a_later_driver_adds_to_a_result_is_left_out() -> None:
    answer = completed(OperationKind.SAVEPOINT, {**SAVEPOINT, "later": 1})

    assert SavepointResultView.of_operation("flights", answer).to_json() == REQUEST | SAVEPOINT


@pytest.mark.parametrize(
    "more",
    [{"state": "RUNNING"}, {"state": "FINISHED", "checkpoint": 7, "reason": "suspended"}],
    ids=["running", "finished"],
)
def test_a_task_returns_the_run_that_it_has_reached(more: dict[str, Any]) -> None:
    run = {"job_id": "flights", "run": 1, "epoch": 2, **more}

    assert TaskRunResultView.of_event({"status": "any", "attempt": 1, "checkpoint": None, **run}).to_json() == run


def test_the_jobs_of_a_recovery_are_named_by_outcome() -> None:
    found = {"recovered": ["a", "b"], "left alone": ["c"]}

    assert RecoveredJobsView.model_validate(found).to_json() == found


def test_every_outcome_that_does_not_fail_the_task_has_its_key() -> None:
    keys = {field.alias or name for name, field in RecoveredJobsView.model_fields.items()}

    assert keys == {outcome.value for outcome in set(ReconcileOutcome) - FAILS}
