"""Killing a watcher: each guard alone keeps the stream alive."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.watchers import KillPolicy, claim
from airflow_provider_ha.triggers import _kill as kill
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from tests.support.clusters.jobs_helpers import submit


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


def watching(task_instance: Any, version: int | None, when_killed: str) -> SparkHaJobTrigger:
    trigger = SparkHaJobTrigger(job_id="flights", run=1, when_killed=when_killed, watcher_id="w", claim=version)
    trigger.task_instance = task_instance
    return trigger


def kill_it(trigger: SparkHaJobTrigger, state: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    async def says(_: Any) -> str | None:
        return state

    monkeypatch.setattr(kill, "task_state", says)
    asyncio.run(trigger.on_kill())


def asked(coordinator: Coordinator, paths: JobPaths) -> list[str]:
    return [operation.operation.value for operation in operations.list_operations(coordinator, paths)]


def claimed(coordinator: Coordinator, paths: JobPaths) -> int:
    return claim(coordinator, paths, "w", ti_id="ti-1", when_killed=KillPolicy.STOP_WITH_CHECKPOINT)


def test_a_user_who_ends_the_task_stops_the_job_once_when_asked_for(
    coordinator: Coordinator, paths: JobPaths, task_instance: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(coordinator, paths)
    trigger = watching(task_instance, claimed(coordinator, paths), "stop_with_checkpoint")

    kill_it(trigger, "failed", monkeypatch)
    kill_it(trigger, "failed", monkeypatch)

    assert asked(coordinator, paths) == ["stop"]


@pytest.mark.parametrize("state", ["deferred", "scheduled", "queued", "running", None])
def test_a_move_to_another_triggerer_or_a_clear_leaves_the_job_alone(
    coordinator: Coordinator, paths: JobPaths, task_instance: Any, monkeypatch: pytest.MonkeyPatch, state: str | None
) -> None:
    submit(coordinator, paths)
    trigger = watching(task_instance, claimed(coordinator, paths), "stop_with_checkpoint")

    kill_it(trigger, state, monkeypatch)

    assert asked(coordinator, paths) == []


def test_a_kill_that_airflow_cancels_half_way_is_finished(
    coordinator: Coordinator, paths: JobPaths, task_instance: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(coordinator, paths)
    trigger = watching(task_instance, claimed(coordinator, paths), "stop_with_checkpoint")

    async def kill_and_cancel() -> None:
        asked_airflow, answer = asyncio.Event(), asyncio.Event()

        async def says_late(_: Any) -> str:
            asked_airflow.set()
            await answer.wait()
            return "failed"

        monkeypatch.setattr(kill, "task_state", says_late)
        on_kill = asyncio.ensure_future(trigger.on_kill())
        await asked_airflow.wait()
        on_kill.cancel()
        await asyncio.gather(on_kill, return_exceptions=True)
        answer.set()
        await asyncio.gather(*kill._going)

    asyncio.run(kill_and_cancel())

    assert asked(coordinator, paths) == ["stop"]


def test_a_trigger_of_an_earlier_try_leaves_the_job_alone(
    coordinator: Coordinator, paths: JobPaths, task_instance: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(coordinator, paths)
    earlier = watching(task_instance, claimed(coordinator, paths), "stop_with_checkpoint")
    claimed(coordinator, paths)  # the next try

    kill_it(earlier, "failed", monkeypatch)

    assert asked(coordinator, paths) == []


def test_detach_is_the_default_and_does_nothing(
    coordinator: Coordinator, paths: JobPaths, task_instance: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(coordinator, paths)
    trigger = watching(task_instance, claimed(coordinator, paths), SparkHaJobTrigger().when_killed)

    kill_it(trigger, "failed", monkeypatch)

    assert asked(coordinator, paths) == []


def test_an_airflow_that_does_not_say_leaves_the_job_alone_and_names_the_way_out(
    coordinator: Coordinator,
    paths: JobPaths,
    task_instance: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    submit(coordinator, paths)
    trigger = watching(task_instance, claimed(coordinator, paths), "cancel")

    kill_it(trigger, None, monkeypatch)

    assert asked(coordinator, paths) == []
    assert "spark-ha job cancel" in "".join(capsys.readouterr())
