"""End of a job by the user of the task that follows it; by default the job continues.

``on_kill`` of Airflow 3.3.2 also fires when a trigger only moves to another triggerer (apache/airflow#73454), and it
may come after the next try has attached to the same job (apache/airflow#72100). So the job is touched only if three
conditions hold, each read anew:

1. Airflow reports that a user ended the task instance. ``deferred`` is a move; a clear starts a new try, and that try
attaches to the job. 2. The claim that this trigger carries is still the watcher's current claim: every try claims again
before it does anything else. 3. The claim is released by compare-and-set, so that a second trigger never proceeds.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from asgiref.sync import sync_to_async

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.fleet.notify.session import within
from airflow_provider_ha.jobs.job_context import CallerIdentity
from airflow_provider_ha.jobs.runs.watchers import KillPolicy, release
from airflow_provider_ha.triggers._hub import borrow


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


ENDED_BY_USER = frozenset({"success", "failed", "skipped", "removed"})

# The first such request makes a triggerer build Airflow's API in its own process: 16 s measured on two busy cores, and
# more than 24 s on two overloaded cores. Airflow waits 30 s for ``on_kill``; a started request still completes.
_STATE_TIMEOUT = 180.0

_going: set[asyncio.Task[None]] = set()


class JobFollower(Protocol):
    """Trigger that follows a job for a task.

    :ivar claim: Version of the watcher's claim; ``None`` when the trigger carries none.
    :ivar when_killed: Value of a :class:`KillPolicy`.
    """

    task_instance: Any
    job_id: str
    watcher_id: str
    claim: int | None
    when_killed: str

    @property
    def log(self) -> Any:
        """Logger of the task."""

    async def config(self) -> HaConfig:
        """Read the connection."""


async def kill(trigger: JobFollower) -> None:
    """Stop or cancel the job of *trigger* if all three conditions hold; otherwise log the reason and do nothing.

    Runs to its end even when it is cancelled: Airflow 3.3.2 cancels a trigger again in every round until it is gone
    (``TriggerRunnerSupervisor.update_triggers``), and so silently cancels its own ``on_kill``.
    """
    going = asyncio.ensure_future(_kill(trigger))
    _going.add(going)  # the loop itself holds tasks only weakly
    going.add_done_callback(_going.discard)
    await asyncio.shield(going)


async def _kill(trigger: JobFollower) -> None:
    instance: Any = trigger.task_instance
    if instance is None:
        return
    state = await task_state(instance)
    if state is None:
        trigger.log.warning(
            "Airflow did not report whether a user ended the task, so job %s continues; end it with "
            "spark-ha job stop or spark-ha job cancel",
            trigger.job_id,
        )
        return
    if state not in ENDED_BY_USER:
        trigger.log.info("The task is %s, not ended by a user: the job is left alone", state)
        return
    config = await trigger.config()
    async with borrow(config) as hub:
        done = await hub.call(lambda client: end_job(client, trigger))
    trigger.log.info("The end of the job was requested" if done else "Another try follows the job: it is left alone")


async def task_state(instance: Any) -> str | None:
    """Return a task instance's present state from Airflow; ``None`` without a state, or without an answer in time."""
    from airflow.sdk.execution_time.task_runner import RuntimeTaskInstance  # noqa: PLC0415  # heavy; only here

    index = getattr(instance, "map_index", -1)
    # Through asgiref, as in Airflow's own triggers, because its threads know the triggerer's loop.
    asking = sync_to_async(RuntimeTaskInstance.get_task_states)(
        dag_id=instance.dag_id,
        task_ids=[instance.task_id],
        run_ids=[instance.run_id],
        map_index=index if index is not None and index >= 0 else None,
    )
    try:
        states = await within(_STATE_TIMEOUT, asking)
    except asyncio.TimeoutError:
        return None
    return next(iter(states.get(instance.run_id, {}).values()), None)


def end_job(client: HaClient, trigger: JobFollower) -> bool:
    """Release the trigger's claim, then request the end of the job. Blocks.

    Returns ``False``, without a request, when the claim is no longer current.
    """
    paths = ClusterPaths(client.config.root, client.config.cluster_id).job(trigger.job_id)
    if trigger.claim is None or not release(client.coordinator, paths, trigger.watcher_id, trigger.claim):
        return False
    job = client.job(trigger.job_id, acting=CallerIdentity(force=True))  # access was checked when the task began
    operation_id = f"{trigger.watcher_id}-killed-{trigger.claim}"
    if trigger.when_killed == KillPolicy.CANCEL.value:
        job.request_cancel(operation_id=operation_id, requested_by=trigger.watcher_id)
    else:
        job.request_stop(operation_id=operation_id, requested_by=trigger.watcher_id, mode="suspend")
    return True
