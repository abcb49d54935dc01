"""Waits: reads with a limit, cancellations that are kept, and lost drivers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.airflow_side.page.clusters import BoundedCalls, OverTimeError
from airflow_provider_ha.errors import DecisionNeededError, JobStateError, StorageUnavailableError
from airflow_provider_ha.fleet.notify.session import Waiter, within
from airflow_provider_ha.operators import _run
from airflow_provider_ha.operators._run import after_loss
from airflow_provider_ha.operators.follow import SparkHaFollowOperator
from tests.support.airflow_exceptions import AirflowFailException
from tests.support.clusters.airflow_helpers import context


def bounded(*, seconds: float = 30.0, at_once: int = 2) -> BoundedCalls:
    return BoundedCalls("ZooKeeper", next_step="Check it", seconds=seconds, at_once=at_once)


def test_an_answer_and_an_error_come_through() -> None:
    def fail() -> None:
        raise StorageUnavailableError("storage is away")

    assert bounded().call(lambda: 3) == 3
    with pytest.raises(StorageUnavailableError, match="storage is away"):
        bounded().call(fail)


def test_what_takes_too_long_is_named_with_what_to_do() -> None:
    end = threading.Event()

    with pytest.raises(OverTimeError, match=r"ZooKeeper does not answer: no answer within 0.05 s. Check it"):
        bounded(seconds=0.05).call(end.wait)
    end.set()


def test_what_still_hangs_takes_no_more_threads_than_agreed() -> None:
    end, begun = threading.Event(), []

    def hang() -> None:
        begun.append(1)
        end.wait()

    reads = bounded(seconds=0.05, at_once=2)
    for _ in range(5):
        with pytest.raises(OverTimeError):
            reads.call(hang)
    end.set()

    assert len(begun) == 2


def test_a_read_that_ended_late_makes_room_again() -> None:
    end = threading.Event()
    reads = bounded(seconds=0.05, at_once=1)
    with pytest.raises(OverTimeError):
        reads.call(end.wait)
    end.set()

    def answered() -> int:
        try:
            return reads.call(lambda: 4)
        except OverTimeError:
            return answered()

    assert answered() == 4


def test_reads_of_one_page_are_under_way_at_the_same_time() -> None:
    all_begun = threading.Barrier(3)

    answers = bounded(at_once=3).together({name: lambda: all_begun.wait(20) >= 0 for name in "abc"})

    assert {name: answer.value for name, answer in answers.items()} == dict.fromkeys("abc", True)


def test_each_read_of_a_page_has_its_own_answer_or_error() -> None:
    end = threading.Event()

    def fail() -> None:
        raise StorageUnavailableError("storage is away")

    answers = bounded(seconds=0.2, at_once=3).together({"good": lambda: 3, "bad": fail, "late": end.wait, "more": fail})
    end.set()

    assert (answers["good"].value, answers["good"].problem) == (3, "")
    assert "storage is away" in answers["bad"].problem
    assert "no answer within 0.2 s" in answers["late"].problem
    assert answers["more"].value is None


def test_an_error_that_is_none_of_ours_is_not_hidden_among_several_reads() -> None:
    with pytest.raises(ZeroDivisionError):
        bounded().together({"a": lambda: 1 // 0})


def test_the_result_comes_back() -> None:
    async def scenario() -> str:
        return await within(5, asyncio.sleep(0, "done"))

    assert asyncio.run(scenario()) == "done"


def test_an_error_comes_back() -> None:
    async def fails() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        asyncio.run(within(5, fails()))


def test_no_result_in_time_is_an_error_and_what_was_waited_for_is_cancelled() -> None:
    async def scenario() -> bool:
        never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with pytest.raises(asyncio.TimeoutError):
            await within(0.01, never)
        return never.cancelled()

    assert asyncio.run(scenario())


def _wait_within(future: asyncio.Future[None]) -> Awaitable[Any]:
    return within(5, future)


def _wait_as_a_trigger_does(future: asyncio.Future[None]) -> Awaitable[Any]:
    waiter = Waiter(frozenset())
    future.add_done_callback(lambda _: waiter.wake())
    return waiter.wait(5)


@pytest.mark.parametrize("wait", [_wait_within, _wait_as_a_trigger_does])
@pytest.mark.parametrize("rounds_between", range(4))
def test_a_cancellation_that_meets_the_result_wins(
    wait: Callable[[asyncio.Future[None]], Awaitable[Any]], rounds_between: int
) -> None:
    async def scenario() -> str:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def trigger() -> str:
            await wait(future)
            await asyncio.sleep(0)  # the next step of a trigger, which would never end
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return "the cancellation was lost"

        waiting = asyncio.ensure_future(trigger())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        future.set_result(None)
        for _ in range(rounds_between):
            await asyncio.sleep(0)
        waiting.cancel()
        try:
            return await waiting
        except asyncio.CancelledError:
            return "cancelled"

    assert asyncio.run(scenario()) == "cancelled"


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
    refusal = DecisionNeededError("run 1 waits for a decision", next_step="`spark-ha job restore flights --dry-run`")
    monkeypatch.setattr(_run, "SparkHaHook", Hook(refusal))
    task = SparkHaFollowOperator(task_id="task", job_id="flights")
    event = {"status": "recover", "run": 1, "attempt": 2, "reason": "the driver ended"}

    with pytest.raises(AirflowFailException, match=r"waits for a decision.*job restore flights --dry-run"):
        task._recover(event, context(), None)


def test_a_run_that_has_ended_meanwhile_is_looked_at_again() -> None:
    step = after_loss(Hook(JobStateError("run 1 is FINISHED")), "flights", run=1, by="test")  # type: ignore[arg-type]

    assert (step.wait, "is FINISHED" in step.sentence) == (None, True)
