"""How tests follow a trigger: its event, its looks, and conditions that are waited for beside the loop."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.verification.verification_records import Drill, DrillStore, DrillVerdict
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger


NEVER = 600.0  # a poll that no test waits for: what passes was woken by a watch


async def first_event(trigger: Any) -> dict[str, Any]:
    """Return the one event of a trigger."""
    events: list[dict[str, Any]] = [event.payload async for event in trigger.run()]
    assert len(events) == 1
    return events[0]


async def until(predicate: Any, what: str) -> Any:
    """Wait for a condition in a thread; the loop goes on."""
    return await asyncio.to_thread(wait_until, predicate, timeout=30, what=what)


async def cancelled(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their ends."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def looks_of(trigger: Any) -> list[Any]:
    """Return the looks that a trigger has finished, as it goes on: after one, only a watch or its poll wakes it."""
    look, finished = trigger.look, []

    def noted(client: Any) -> Any:
        answer = look(client)
        finished.append(answer)
        return answer

    trigger.look = noted
    return finished


def told_by(wanted: int, **kwargs: Any) -> list[dict[str, Any]]:
    """Return the first events of a trigger."""
    quick = {"grace": 0.1, "checkpoint_grace": 0.1, "poll_interval": 0.1, "health_interval": 0.1}
    trigger, told = SparkHaClusterTrigger(**(quick | kwargs)), list[dict[str, Any]]()

    async def take() -> None:
        async for event in trigger.run():
            payload: Any = event.payload
            told.append(payload)

    async def watch() -> None:
        taking = asyncio.ensure_future(take())
        await until(lambda: len(told) >= wanted, f"{wanted} events")
        await cancelled(taking)

    asyncio.run(watch())
    assert json.loads(json.dumps(told)) == told
    return told


def drilled(job: JobContext, verdict: DrillVerdict = DrillVerdict.FAILED) -> None:
    now = SystemClock().now()
    DrillStore(job.store, job.keys).add(
        Drill(
            drill_id="weekly",
            job_id=job.job_id,
            source="savepoint-1",
            taken_at=now,
            cut={},
            size=1,
            age_seconds=4000.0,
            started_at=now,
            seconds={},
            total_seconds=90.0,
            verdict=verdict,
            reasons=("a file is gone",) if verdict is DrillVerdict.FAILED else (),
            spark_version="4.2.0",
            requested_by="test",
        )
    )
