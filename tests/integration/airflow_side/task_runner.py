"""A task runner in one process: executes, runs the trigger of a deferral, resumes, until there is a result."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from airflow_provider_ha.operators.submit import SparkHaSubmitOperator
from tests.support.airflow_exceptions import TaskDeferred


def run_task(operator: Any, context: dict[str, Any], *, seconds: float = 60.0) -> tuple[Any, list[dict[str, Any]]]:
    """Return the task's result and the events that it was resumed with."""
    try:
        return operator.execute(context), []
    except TaskDeferred as deferred:
        return resume_task(operator, context, deferred, seconds=seconds)


def resume_task(
    operator: Any, context: dict[str, Any], deferred: TaskDeferred, *, seconds: float = 60.0
) -> tuple[Any, list[dict[str, Any]]]:
    """Return the same of a task that has deferred."""
    events: list[dict[str, Any]] = []
    while True:
        event = asyncio.run(asyncio.wait_for(_event(deferred.trigger), seconds))
        events.append(event)
        kwargs = (deferred.kwargs or {}) | {"event": event}
        try:
            return getattr(operator, deferred.method_name)(context, **kwargs), events
        except TaskDeferred as again:
            deferred = again


def deferral(operator: Any, context: dict[str, Any]) -> TaskDeferred:
    """Return what the first execution defers with."""
    try:
        operator.execute(context)
    except TaskDeferred as deferred:
        return deferred
    raise AssertionError("the operator did not defer")


async def _event(trigger: Any) -> dict[str, Any]:
    events = [event.payload async for event in trigger.run()]
    payload: dict[str, Any] = events[0]
    return payload


def submit_stand_in(
    application: str, *, mode: str, ha: Mapping[str, Any] | None = None, **kwargs: Any
) -> SparkHaSubmitOperator:
    """Return a task that submits job *flights* with the stand-in for Spark.

    :param mode: What the stand-in does.
    """
    return SparkHaSubmitOperator(
        task_id="task",
        job_id="flights",
        application=application,
        env={"STAND_IN": mode},
        ha={"restart_delay": 0.05, **(ha or {})},
        **kwargs,
    )
