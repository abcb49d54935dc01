"""What the end of a run answers to everything else that was asked of it. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind, OperationState, RunEnd, RunResult
from airflow_provider_ha.jobs.operations.operations import answer_of_end
from tests.support.clusters.jobs_helpers import NOON


COMPLETED, FAILED, ABANDONED = OperationState.COMPLETED, OperationState.FAILED, OperationState.ABANDONED
SAVED = {"savepoint_id": "s1", "path": "savepoints/s1"}


def asked(operation_id: str, kind: OperationKind = OperationKind.STOP, **arguments: Any) -> Operation:
    return Operation(
        operation_id=operation_id,
        operation=kind,
        arguments=arguments,
        run=3,
        requested_by="ann@host",
        requested_at=NOON,
    )


SUSPEND = asked("suspend", mode="suspend", savepoint=False)
SUSPEND_SAVED = asked("suspend-saved", mode="suspend", savepoint=True)
DRAIN = asked("drain", mode="terminate", savepoint=False)
DRAIN_SAVED = asked("drain-saved", mode="terminate", savepoint=True)
CANCEL = asked("cancel", OperationKind.CANCEL)
CANCEL_SAVED = asked("cancel-saved", OperationKind.CANCEL_WITH_SAVEPOINT)
EVERY = (SUSPEND, SUSPEND_SAVED, DRAIN, DRAIN_SAVED, CANCEL, CANCEL_SAVED)


def ended(by: Operation | None) -> RunResult:
    """Return the result of a run that was ended by a request, or by its script."""
    result: dict[str, Any] = {"checkpoint": 7}
    if by in (SUSPEND_SAVED, DRAIN_SAVED, CANCEL_SAVED):
        result |= SAVED
    canceled = by in (CANCEL, CANCEL_SAVED)
    return RunResult(
        state=JobState.CANCELED if canceled else JobState.FINISHED,
        epoch=1,
        checkpoint=7,
        end=RunEnd(result=result) if by is None else RunEnd.of(by, result),
        at=NOON,
    )


@pytest.mark.parametrize(
    ("by", "fulfilled"),
    [
        (SUSPEND, [SUSPEND]),
        (SUSPEND_SAVED, [SUSPEND, SUSPEND_SAVED]),
        (DRAIN, [DRAIN]),
        (DRAIN_SAVED, [DRAIN, DRAIN_SAVED]),
        (CANCEL, [CANCEL]),
        (CANCEL_SAVED, [CANCEL, CANCEL_SAVED]),
        (None, [SUSPEND]),
    ],
    ids=lambda value: value.operation_id if isinstance(value, Operation) else None,
)
def test_what_asked_for_no_more_than_the_end_of_the_run_is_done_with_it_and_all_else_has_failed(
    by: Operation | None, fulfilled: list[Operation]
) -> None:
    result = ended(by)
    assert result.end is not None

    second = {each.operation_id: each.model_copy(update={"operation_id": f"{each.operation_id}-2"}) for each in EVERY}
    answers = {name: answer_of_end(each, result, job_id="flights") for name, each in second.items()}

    names = {each.operation_id for each in EVERY if each in fulfilled}
    assert {name for name, answer in answers.items() if answer.state is COMPLETED} == names
    assert {answer.state for name, answer in answers.items() if name not in names} == {FAILED}
    for name, answer in answers.items():
        assert answer.result == (result.end.result if name in names else {})
        assert bool(answer.error) is (name not in names)


@pytest.mark.parametrize(
    ("operation", "by", "said"),
    [
        (
            CANCEL,
            SUSPEND,
            (
                "run 3 was suspended (checkpoint 7) by operation 'suspend' of ann@host, not cancelled. Nothing "
                "is left to cancel: `spark-ha job show flights` shows how it ended"
            ),
        ),
        (
            SUSPEND_SAVED,
            SUSPEND,
            (
                "run 3 was suspended (checkpoint 7) by operation 'suspend' of ann@host, without a savepoint. "
                "`spark-ha savepoint trigger flights` copies its newest proven checkpoint"
            ),
        ),
        (
            DRAIN,
            SUSPEND,
            (
                "run 3 was suspended (checkpoint 7) by operation 'suspend' of ann@host, not drained. To drain it, "
                "start it again (`spark-ha job restore flights`), then `spark-ha job stop flights --mode terminate`"
            ),
        ),
        (
            SUSPEND,
            DRAIN,
            (
                "run 3 was drained (checkpoint 7) by operation 'drain' of ann@host, not only suspended. Its last "
                "windows are emitted; a restore continues from the state before the drain: `spark-ha job restore "
                "flights`"
            ),
        ),
        (
            SUSPEND,
            CANCEL,
            (
                "run 3 was cancelled (checkpoint 7) by operation 'cancel' of ann@host, not stopped at a batch "
                "boundary. A restore continues from its newest checkpoint: `spark-ha job restore flights`"
            ),
        ),
        (
            CANCEL_SAVED,
            CANCEL,
            (
                "run 3 was cancelled (checkpoint 7) by operation 'cancel' of ann@host, without a savepoint. "
                "`spark-ha savepoint trigger flights` copies its newest proven checkpoint"
            ),
        ),
        (
            SUSPEND_SAVED,
            None,
            (
                "run 3 ended (checkpoint 7), because its script ended, without a savepoint. "
                "`spark-ha savepoint trigger flights` copies its newest proven checkpoint"
            ),
        ),
    ],
    ids=lambda value: value.operation_id if isinstance(value, Operation) else None,
)
def test_a_request_that_the_end_does_not_fulfil_says_what_ended_the_run_and_what_helps(
    operation: Operation, by: Operation | None, said: str
) -> None:
    assert answer_of_end(operation, ended(by), job_id="flights").error == said


def test_a_cancel_keeps_the_savepoint_that_was_noted_of_it() -> None:
    noted = CANCEL_SAVED.model_copy(update={"result": {"savepoint_id": "own"}})

    answer = answer_of_end(noted, ended(CANCEL), job_id="flights")

    assert (answer.state, answer.result) == (COMPLETED, {"savepoint_id": "own", "checkpoint": 7})


def test_a_cancel_whose_savepoint_is_taken_when_a_stop_ends_the_run_names_it() -> None:
    noted = CANCEL_SAVED.model_copy(update={"result": SAVED})

    answer = answer_of_end(noted, ended(SUSPEND), job_id="flights")

    assert (answer.state, answer.result) == (FAILED, SAVED)


@pytest.mark.parametrize("kind", [OperationKind.SAVEPOINT, OperationKind.CHECKPOINT, OperationKind.DISPOSE])
def test_what_asked_for_no_end_is_abandoned(kind: OperationKind) -> None:
    answer = answer_of_end(asked("other", kind), ended(SUSPEND), job_id="flights")

    assert answer.state is ABANDONED
    assert ("spark-ha savepoint trigger flights" in answer.error) is (kind is OperationKind.SAVEPOINT)


def test_a_stop_of_a_run_that_failed_is_abandoned_with_the_reason() -> None:
    failed = RunResult(state=JobState.FAILED, epoch=1, reason="the restarts are used up", at=NOON)

    answer = answer_of_end(SUSPEND, failed, job_id="flights")

    assert (answer.state, answer.error) == (
        ABANDONED,
        "run 3 ended FAILED before this was done: the restarts are used up",
    )
