"""Base of all triggers: observe, wait for a change, and fire one event.

A look reads the whole job. The znodes that a trigger watches show whether a look is needed: an idle job with a leader
costs a read of its znodes at first, and then a comparison once a minute, which the shared session makes for all
triggers.

Invariants:

* An event is derived from durable state that was read after the watches were set, never from a watch event.
* The trigger computes its event before it yields it and does no work after the ``yield``: a trigger that still runs
  after its event gets ``on_kill`` (Airflow 3.3.2).
* A deferred task outlives a deploy: every keyword has a default, keeps its name in all releases, and holds no secret.
* An outage of ZooKeeper is no fact about the job: the trigger keeps waiting, and logs that once a minute.

A triggerer that starts creates thousands of triggers for a connection. Each read of the connection costs a request to
Airflow and a new configuration, so triggers share the result for a few seconds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.compat.sdk import BaseTrigger, TriggerEvent
from airflow_provider_ha.api.documents.events import ErrorEvent
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.notify.session import Nodes, Waiter
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.triggers._hub import Hub, borrow


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.runs.watchers import Announcement


_SHARED_SECONDS = 5.0  # age at which a connection is read again, because it may have been edited


@dataclass(frozen=True, slots=True)
class _Lookup:
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[HaConfig]
    since: float

    def holds(self) -> bool:
        """Return whether another trigger of the same loop can share the result."""
        if self.loop is not asyncio.get_running_loop() or time.monotonic() - self.since > _SHARED_SECONDS:
            return False
        return not self.task.done() or not (self.task.cancelled() or self.task.exception())


_lookups: dict[str, _Lookup] = {}


async def config_of(spark_ha_conn_id: str) -> HaConfig:
    """Return the configuration of a connection; raises the errors of :meth:`SparkHaHook.aget_config`."""
    lookup = _lookups.get(spark_ha_conn_id)
    if lookup is None or not lookup.holds():
        task = asyncio.ensure_future(SparkHaHook(spark_ha_conn_id).aget_config())
        lookup = _lookups[spark_ha_conn_id] = _Lookup(asyncio.get_running_loop(), task, time.monotonic())
    if lookup.task.done():
        return lookup.task.result()
    # Shielded, so that the cancellation of a trigger does not cancel the read for the others.
    return await asyncio.shield(lookup.task)


Event = dict[str, Any]

LOG_EVERY = 60.0  # seconds between two log lines about an outage of ZooKeeper
FULL_LOOK = 900.0  # seconds after which a job is read in full, even if its znodes stay unchanged


class ReadNeed(Enum):
    """Need for a look at the whole job, as shown by the znodes of a trigger."""

    NONE = "none"  # the znodes rule out an event
    ON_CHANGE = "on_change"  # one look, and another after each change of the znodes
    ALWAYS = "always"  # the awaited fact may come without a change of the znodes


class SparkHaTrigger(BaseTrigger):
    """Wait until :meth:`look` returns an event.

    :param job_id: Stable id of the job.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param poll_interval: Seconds between two looks at a job whose next change triggers no watch.
    """

    def __init__(
        self, *, job_id: str = "", spark_ha_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0, **_later: Any
    ) -> None:
        # Keywords of a later release are ignored: a rollback must not fail every wait.
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not annotated
        self.job_id = job_id
        self.spark_ha_conn_id = spark_ha_conn_id
        self.poll_interval = poll_interval
        self._seen: Nodes | None = None
        # Spread out, because a restart of the triggerer creates all triggers in the same moment.
        self._full_look = time.monotonic() + random.uniform(0.0, FULL_LOOK)  # noqa: S311  # not a secret

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and keyword arguments that recreate this trigger in another process."""
        kind = type(self)
        return f"{kind.__module__}.{kind.__qualname__}", self.kwargs()

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return {
            "job_id": self.job_id,
            "spark_ha_conn_id": self.spark_ha_conn_id,
            "poll_interval": self.poll_interval,
        }

    def nodes(self, paths: JobPaths) -> Sequence[str]:
        """Return the znodes whose change requires a look."""
        raise NotImplementedError

    def absent(self, paths: JobPaths) -> Sequence[str]:
        """Return the subset of the nodes that probably do not exist when the wait begins."""
        del paths
        return ()

    def need(self, found: Nodes, paths: JobPaths) -> ReadNeed:
        """Return whether the present state of the znodes requires a look at the whole job."""
        del found, paths
        return ReadNeed.ALWAYS

    def announcement(self, paths: JobPaths) -> Announcement | None:
        """Return the announcement of this wait for people; ``None`` when the wait recovers no jobs."""
        del paths
        return None

    def look(self, client: HaClient) -> Event | None:
        """Read the durable state and return the event, or ``None`` to keep waiting. Runs in a thread.

        :raises HaError: A retryable error keeps the trigger waiting; any other becomes ``{"status": "error", ...}``.
        """
        raise NotImplementedError

    def pause(self) -> float:
        """Return the seconds until the next look if no watch fires."""
        return self.poll_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield exactly one event."""
        yield TriggerEvent(await self._event())  # type: ignore[no-untyped-call]  # as above

    async def config(self) -> HaConfig:
        """Read the connection."""
        return await config_of(self.spark_ha_conn_id)

    def paths(self, config: HaConfig) -> JobPaths:
        """Return the paths of the job."""
        return ClusterPaths(config.root, config.cluster_id).job(self.job_id)

    async def _event(self) -> Event:
        try:
            config = await self.config()
            paths = self.paths(config)
            nodes, announced = self.nodes(paths), self.announcement(paths)
        except HaError as error:
            return ErrorEvent(reason=str(error)).to_json()
        async with borrow(config) as hub:
            with (
                hub.announcing(announced),
                hub.reporting([self.job_id]),
                hub.waiter(nodes, self.absent(paths)) as waiter,
            ):
                return await self._wait(hub, waiter, paths, announced)

    async def _wait(self, hub: Hub, waiter: Waiter, paths: JobPaths, announced: Announcement | None) -> Event:
        outage = Outage(self)
        while True:
            event, due = None, None
            try:
                event, due = await self._look(hub, waiter, paths)
                outage.over()
                hub.announce(announced)
            except asyncio.TimeoutError:
                outage.goes_on("no answer in time")
            except HaError as error:
                if not error.retryable:
                    return ErrorEvent(reason=str(error)).to_json()
                outage.goes_on(str(error))
            if event is not None:
                return event
            # Jitter, so that a thousand triggers do not read in the same moment.
            pause = self.pause() * random.uniform(0.8, 1.2)  # noqa: S311  # not a secret
            await waiter.wait(pause if due is None else due - time.monotonic())

    async def _look(self, hub: Hub, waiter: Waiter, paths: JobPaths) -> tuple[Event | None, float | None]:
        """Read the znodes, and the job if needed; return the event and the monotonic time of the next look.

        A time of ``None`` means the trigger's own pause.
        """
        found = await hub.nodes(waiter)
        need = self.need(found, paths)
        is_due = time.monotonic() >= self._full_look
        idle = need is ReadNeed.NONE or (need is ReadNeed.ON_CHANGE and found == self._seen)
        if idle and not is_due:
            return None, self._full_look
        event = await hub.call(self.look)
        self._seen, self._full_look = found, time.monotonic() + FULL_LOOK
        return event, None if need is ReadNeed.ALWAYS else self._full_look


class Outage:
    """Log of an outage: one line a minute while the wait lasts, and one when it is over.

    :param trigger: Trigger whose log is used.
    :param what: Description of the fault, as the beginning of a sentence.
    """

    def __init__(self, trigger: BaseTrigger, what: str = "The cluster does not answer") -> None:
        self._trigger = trigger
        self._what = what
        self._since: float | None = None
        self._said = 0.0

    def tell(self, reason: str | None) -> None:
        """Record another look, with the reason for its failure, or ``None`` if it succeeded."""
        if reason is None:
            self.over()
        else:
            self.goes_on(reason)

    def goes_on(self, reason: str) -> None:
        """Record another look that failed."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._said < LOG_EVERY:
            return
        self._said = now
        self._trigger.log.warning("%s; still waiting after %.0f s: %s", self._what, now - self._since, reason)

    def over(self) -> None:
        """Record a look that succeeded."""
        if self._since is not None:
            self._trigger.log.info("Over after %.0f s: %s", time.monotonic() - self._since, self._what)
            self._since = None
