"""The id of a request: one per task of one DAG run, the same for every try of it.

Invariant: a retry, a clear and a second live process of the same task use one id, so a request is found again instead
of being carried out twice (design, section 6).
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.names import task_request


def is_retry(context: Any, retries: int | None) -> bool:
    """Whether Airflow tries the task of *context* again by itself, other than after a person cleared it.

    A clear raises ``max_tries`` by the task's retries, and so begins a new row of tries.

    :param retries: Of the task.
    """
    instance, allowed = context["ti"], retries or 0
    first = getattr(instance, "max_tries", allowed) - allowed + 1
    return bool(getattr(instance, "try_number", 1) > first)


def request_id(context: Any) -> str:
    """Return the id of the task of *context*: safe as a znode, readable, and unlike that of any other task."""
    instance = context["ti"]
    return task_request(instance.dag_id, instance.run_id, instance.task_id, getattr(instance, "map_index", None))
