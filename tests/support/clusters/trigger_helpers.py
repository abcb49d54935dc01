"""How tests follow a trigger: its event, its looks, and conditions that are waited for beside the loop."""

from __future__ import annotations

import asyncio
from typing import Any

from airflow_provider_ha.testing.waiting import wait_until


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
