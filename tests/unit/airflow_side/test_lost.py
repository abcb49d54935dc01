"""What a task does about a lost driver that nothing may submit again."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.errors import DecisionNeededError, JobStateError
from airflow_provider_ha.operators import _run
from airflow_provider_ha.operators._run import after_loss
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context


class Hook:
    """Gives the client of one lost job, whose recovery is refused."""

    def __init__(self, refusal: Exception) -> None:
        self.refusal = refusal

    def __call__(self, _: object) -> Hook:
        return self

    def get_client(self) -> AbstractContextManager[Hook]:
        return nullcontext(self)

    def job(self, _: object) -> Hook:
        return self

    def snapshot(self) -> Any:
        return SimpleNamespace(run=SimpleNamespace(run=SimpleNamespace(number=1)))

    def recover(self, **_: object) -> None:
        raise self.refusal


def test_a_task_fails_with_what_its_user_has_to_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waiting for another look, the task would say nothing and never end."""
    refusal = DecisionNeededError("run 1 waits for a decision", next_step="`spark-ha checkpoint plan flights`")
    monkeypatch.setattr(_run, "SparkHaHook", Hook(refusal))
    task = SparkHaFollowOperator(task_id="task", job_id="flights")
    event = {"status": "recover", "run": 1, "attempt": 2, "reason": "the driver ended"}

    with pytest.raises(AirflowFailException, match=r"waits for a decision.*checkpoint plan flights"):
        task._recover(event, context(), None)


def test_a_run_that_has_ended_meanwhile_is_looked_at_again() -> None:
    step = after_loss(Hook(JobStateError("run 1 is FINISHED")), "flights", run=1, by="test")  # type: ignore[arg-type]

    assert (step.wait, "is FINISHED" in step.sentence) == (None, True)
