"""Base of all triggers: observe, wait for a change, and fire one event.

A look reads the whole job. The nodes that a trigger watches say by themselves whether one is needed: an idle job that
is led costs its nodes once, and a comparison of them once a minute, which the session makes for all.

Invariants:

* An event is derived from durable state, read after the watches were set; never from a watch event.
* The one event is computed before it is yielded, with nothing left to do after the ``yield``: a trigger that goes on
  running after its event gets ``on_kill`` (Airflow 3.3.2).
* A deferred task outlives a deploy: every keyword has a default, none is ever renamed, none holds a secret.
* ZooKeeper that cannot be reached says nothing about the job: the trigger goes on waiting, and says so once a minute.

A triggerer that starts makes thousands of triggers of one connection, and reading it costs each of them a request to
Airflow and the making of a configuration.
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
from airflow_provider_ha.api.documents.events import error_event
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.notify.session import Nodes, Waiter
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.triggers._hub import Hub, borrow


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.jobs.runs.watchers import Announcement


_SHARED_SECONDS = 5.0  # a connection that was edited is read again after them


@dataclass(frozen=True, slots=True)
class _Lookup:
    loop: asyncio.AbstractEventLoop
    task: asyncio.Task[HaConfig]
    since: float

    def holds(self) -> bool:
        """Whether another trigger of the same loop may have its answer."""
        if self.loop is not asyncio.get_running_loop() or time.monotonic() - self.since > _SHARED_SECONDS:
            return False
        return not self.task.done() or not (self.task.cancelled() or self.task.exception())


_lookups: dict[str, _Lookup] = {}


async def config_of(spark_ha_conn_id: str) -> HaConfig:
    """Return the configuration of a connection; errors as :meth:`SparkHaHook.aget_config` has them."""
    lookup = _lookups.get(spark_ha_conn_id)
    if lookup is None or not lookup.holds():
        task = asyncio.ensure_future(SparkHaHook(spark_ha_conn_id).aget_config())
        lookup = _lookups[spark_ha_conn_id] = _Lookup(asyncio.get_running_loop(), task, time.monotonic())
    if lookup.task.done():
        return lookup.task.result()
    # Shielded: a trigger that is cancelled must not take the answer away from the others.
    return await asyncio.shield(lookup.task)


Event = dict[str, Any]

LOG_EVERY = 60.0  # seconds between two lines about a ZooKeeper that does not answer
FULL_LOOK = 900.0  # seconds after which a job is read as a whole, also when its nodes stay as they are


class ReadNeed(Enum):
    """What the nodes of a trigger say about a look at the whole job."""

    NONE = "none"  # there is nothing to report
    ON_CHANGE = "on_change"  # one look, and another one when they change
    ALWAYS = "always"  # what is waited for may come without a change of theirs


class SparkHaTrigger(BaseTrigger):
    """Wait until :meth:`look` sees something to report.

    :param job_id: The job.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
    :param poll_interval: Seconds between two looks at a job whose change no watch would tell of.
    """

    def __init__(
        self, *, job_id: str = "", spark_ha_conn_id: str = DEFAULT_CONN_ID, poll_interval: float = 5.0, **_later: Any
    ) -> None:
        # What a later release may have stored is ignored rather than refused: a rollback must not fail every wait.
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not annotated
        self.job_id = job_id
        self.spark_ha_conn_id = spark_ha_conn_id
        self.poll_interval = poll_interval
        self._seen: Nodes | None = None
        # Spread: triggers that a restart of the triggerer makes at once shall not look at once again and again.
        self._full_look = time.monotonic() + random.uniform(0.0, FULL_LOOK)  # noqa: S311  # not a secret

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what makes this trigger again in another process."""
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
        """Return the znodes whose change is worth a look."""
        raise NotImplementedError

    def absent(self, paths: JobPaths) -> Sequence[str]:
        """Return those of the nodes that are likely not to exist when the wait begins."""
        del paths
        return ()

    def need(self, found: Nodes, paths: JobPaths) -> ReadNeed:
        """Return whether the nodes, as they are now, need a look at the whole job."""
        del found, paths
        return ReadNeed.ALWAYS

    def announcement(self, paths: JobPaths) -> Announcement | None:
        """Return how the wait is announced to people; ``None`` when it recovers nothing."""
        del paths
        return None

    def look(self, client: HaClient) -> Event | None:
        """Read the durable state and return the event, or ``None`` to go on waiting. Called in a thread.

        :raises HaError: A retryable one is waited out; any other becomes the event ``{"status": "error", ...}``.
        """
        raise NotImplementedError

    def pause(self) -> float:
        """Return the seconds until the next look when no watch fires."""
        return self.poll_interval

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield exactly one event."""
        yield TriggerEvent(await self._event())  # type: ignore[no-untyped-call]  # as above

    async def config(self) -> HaConfig:
        """Read the connection."""
        return await config_of(self.spark_ha_conn_id)

    def paths(self, config: HaConfig) -> JobPaths:
        """Return where the job lies."""
        return ClusterPaths(config.root, config.cluster_id).job(self.job_id)

    async def _event(self) -> Event:
        try:
            config = await self.config()
            paths = self.paths(config)
            nodes, announced = self.nodes(paths), self.announcement(paths)
        except HaError as error:
            return error_event(error).to_json()
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
                    return error_event(error).to_json()
                outage.goes_on(str(error))
            if event is not None:
                return event
            # Jitter, so that a thousand triggers do not ask in one moment.
            pause = self.pause() * random.uniform(0.8, 1.2)  # noqa: S311  # not a secret
            await waiter.wait(pause if due is None else due - time.monotonic())

    async def _look(self, hub: Hub, waiter: Waiter, paths: JobPaths) -> tuple[Event | None, float | None]:
        """Read the nodes, and the job if they need it; return the event and when to look again if no watch fires.

        ``None`` for the latter is the trigger's own pause.
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
    """Says once a minute that something is still waited for, and once that it is over.

    :param trigger: Whose log to write to.
    :param what: What is wrong, as the beginning of a sentence.
    """

    def __init__(self, trigger: BaseTrigger, what: str = "The cluster does not answer") -> None:
        self._trigger = trigger
        self._what = what
        self._since: float | None = None
        self._said = 0.0

    def tell(self, reason: str | None) -> None:
        """Note one more look: why it has no answer, ``None`` for one that has."""
        if reason is None:
            self.over()
        else:
            self.goes_on(reason)

    def goes_on(self, reason: str) -> None:
        """Note one more look without an answer."""
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._said < LOG_EVERY:
            return
        self._said = now
        self._trigger.log.warning("%s; still waiting after %.0f s: %s", self._what, now - self._since, reason)

    def over(self) -> None:
        """Note a look that was answered."""
        if self._since is not None:
            self._trigger.log.info("Over after %.0f s: %s", time.monotonic() - self._since, self._what)
            self._since = None
