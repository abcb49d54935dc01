"""Event trigger for a whole cluster: leaders lost and recovered, runs given up, jobs that hang, failing checkpoints.

It holds no lock and recovers no jobs. A triggerer has no place to run a driver, and a lock held by a process that
cannot act would exclude every process that can. So the trigger only reports; the task that acts on the event then
contends for the cluster (``operators.recover_jobs``).

All watchers of the same connection with the same timings share a stream of events, so a second asset costs neither a
session nor reads. Airflow shares streams from 3.3 on; in earlier releases each watcher reads separately, through the
shared session.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import Any

from airflow_provider_ha.airflow_side.compat.sdk import BaseEventTrigger, TriggerEvent
from airflow_provider_ha.airflow_side.job_stats import ReportedJobs
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.fleet.notify.health import ExclusiveCalls, HealthView
from airflow_provider_ha.fleet.notify.health_rules import HealthLimits, of_leaders
from airflow_provider_ha.fleet.notify.leadership import ClusterView, JobList
from airflow_provider_ha.fleet.notify.notices import (
    CLUSTER,
    DRILL_KINDS,
    HEALTH_KINDS,
    KINDS,
    LEADER,
    LEADERSHIP_KINDS,
    NO_LEADER,
    Condition,
    Event,
    Notices,
    Watched,
)
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.jobs.runs.watchers import Announcement
from airflow_provider_ha.triggers._base import Outage, config_of
from airflow_provider_ha.triggers._hub import Hub, borrow


__all__ = ["SparkHaClusterTrigger"]


class SparkHaClusterTrigger(BaseEventTrigger):
    """Report events of all jobs of the cluster, also of jobs without a task. For an ``AssetWatcher``.

    Events are plain JSON, derived from the state in ZooKeeper and storage, never from a watch alone. Each has
    ``event``, ``job_id``, ``run`` and ``lasted``, the seconds that the trigger has observed it;
    docs/reference/events.md lists them. A lasting event is reported again, and again after a restart of the triggerer.

    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param emit: Events for this watcher; all by default. Events without a watcher are not read.
    :param job_ids: Jobs for this watcher; all jobs of the cluster by default.
    :param grace: Seconds that the absence of a leader, a new leader or STALLED has to last before it is reported.
        Within this time the tasks that follow a job recover its loss.
    :param start_timeout: Seconds from a submission to its leader before the job counts as leaderless.
    :param repeat_after: Seconds after which a job that is still leaderless is reported again. If the DAG *recovers*, a
        new attempt without a leader is an event too.
    :param poll_interval: Seconds between two reads of the leaders if no watch fires.
    :param checkpoint_grace: Seconds for which checkpoints may fail before ``checkpoint_failing``, and that a leader has
        to take one before ``checkpoint_old``.
    :param max_checkpoint_age: Age of the newest checkpoint, in seconds, before ``checkpoint_old``; counts only while
        later batches are committed.
    :param max_recovery_point: Largest age of the data that the newest drill restored (RPO), in seconds; no limit by
        default.
    :param max_recovery_time: Longest duration of the newest drill (RTO), in seconds; no limit by default.
    :param remind_after: Seconds after which any condition other than a missing leader is reported again.
    :param health_interval: Seconds between two reads of results and checkpoints.
    :param drill_interval: Seconds between two reads of drills; each lists a storage folder per job.
    :param recovers: Set if the DAG that is started recovers lost jobs. Only then does `spark-ha job show` list this
        trigger among the processes that recover a job, and omit its warning.
    """

    def __init__(
        self,
        *,
        spark_ha_conn_id: str = DEFAULT_CONN_ID,
        emit: Sequence[str] | None = None,
        job_ids: Sequence[str] | None = None,
        grace: float = 10.0,
        start_timeout: float = 120.0,
        repeat_after: float = 300.0,
        poll_interval: float = 5.0,
        checkpoint_grace: float = 60.0,
        max_checkpoint_age: float = 900.0,
        max_recovery_point: float | None = None,
        max_recovery_time: float | None = None,
        remind_after: float = 14_400.0,
        health_interval: float = 60.0,
        drill_interval: float = 900.0,
        recovers: bool = True,
        **_later: Any,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's triggers are not annotated
        self.spark_ha_conn_id = spark_ha_conn_id
        self.emit = sorted(emit or KINDS)
        self.job_ids = sorted(job_ids) if job_ids is not None else None
        self.grace = grace
        self.start_timeout = start_timeout
        self.repeat_after = repeat_after
        self.poll_interval = poll_interval
        self.checkpoint_grace = checkpoint_grace
        self.max_checkpoint_age = max_checkpoint_age
        self.max_recovery_point = max_recovery_point
        self.max_recovery_time = max_recovery_time
        self.remind_after = remind_after
        self.health_interval = health_interval
        self.drill_interval = drill_interval
        self.recovers = recovers

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and keyword arguments that recreate this trigger in another process."""
        kind = type(self)
        wanted = {"emit": self.emit, "job_ids": self.job_ids}
        return f"{kind.__module__}.{kind.__qualname__}", {**self._stream(), **wanted}

    def shared_stream_key(self) -> Hashable:
        """Return the settings that watchers must agree on to share a stream: the state to read, and its intervals."""
        return (type(self).__qualname__, self._reads_health, self._reads_drills, *self._stream().items())

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[Event]:
        """Yield every event of the cluster for all kinds that are read, without end."""
        # All watchers share the stream, so the kinds for a single watcher do not show whether a DAG acts on a loss.
        one = cls(**kwargs)
        health = HEALTH_KINDS if one._reads_health else ()
        drills = DRILL_KINDS if one._reads_drills else ()
        async for event in cls(**kwargs | {"emit": (*LEADERSHIP_KINDS, *health, *drills)}).events():
            yield event

    async def filter_shared_stream(self, shared_stream: AsyncIterator[Event]) -> AsyncIterator[TriggerEvent]:
        """Yield the events for this watcher."""
        async for event in shared_stream:
            if self.wants(event):
                yield TriggerEvent(event)  # type: ignore[no-untyped-call]  # as above

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield the events for this watcher, from a stream that it does not share."""
        async for event in self.filter_shared_stream(self.events()):
            yield event

    def wants(self, event: Event) -> bool:
        """Return whether an event of the cluster is for this watcher."""
        # An event without a job concerns all jobs.
        return event["event"] in self.emit and (self.job_ids is None or event["job_id"] in ("", *self.job_ids))

    def notices(self) -> Notices:
        """Return the rules by which observations become events."""
        return Notices(self.repeat_after, self.remind_after, by_outage=not self.recovers)

    async def events(self) -> AsyncIterator[Event]:
        """Yield every event of the cluster; an outage of the cluster is no fact about its jobs."""
        notices, outage = self.notices(), Outage(self)
        while True:
            try:
                config = await config_of(self.spark_ha_conn_id)
            except HaError as error:
                outage.goes_on(str(error))
                await asyncio.sleep(self.poll_interval)
                continue
            cluster = ClusterPaths(config.root, config.cluster_id)
            announced = self.announcement(cluster)
            health = self._health()
            async with borrow(config) as hub:
                view = ClusterView(
                    grace=self.grace,
                    start_timeout=self.start_timeout,
                    look_again=self.repeat_after,
                    wake=partial(hub.wake, cluster.base),
                )
                with (
                    hub.announcing(announced),
                    hub.reporting() as report,
                    closing(view),
                    closing(health) if health is not None else nullcontext(),
                ):
                    async for event in self._follow(
                        hub, cluster, notices, outage, view=view, announced=announced, health=health, report=report
                    ):
                        yield event

    def announcement(self, cluster: ClusterPaths) -> Announcement | None:
        """Return the announcement of this trigger for people; ``None`` unless its DAG recovers lost jobs."""
        if NO_LEADER not in self.emit or not self.recovers:
            return None
        return Announcement.of_cluster(cluster, f"event trigger of {self.spark_ha_conn_id}")

    async def _follow(
        self,
        hub: Hub,
        cluster: ClusterPaths,
        notices: Notices,
        outage: Outage,
        *,
        view: ClusterView,
        announced: Announcement | None,
        health: HealthView | None,
        report: ReportedJobs,
    ) -> AsyncIterator[Event]:
        listed, alone, unread = JobList(), ExclusiveCalls(), Outage(self, "The health of the jobs cannot be read")
        unseen = Outage(self, "Some jobs cannot be read, so they have no new events")
        while True:
            jobs = listed.jobs
            report.jobs = frozenset(jobs)
            with hub.waiter([cluster.base, *view.nodes(cluster, jobs)]) as waiter:
                while listed.jobs == jobs:
                    try:
                        found = await hub.nodes(waiter)  # first, so that any later change wakes the waiter
                        refresh = partial(listed.refresh, wake=partial(hub.wake, cluster.base))
                        await hub.call(refresh, of_cluster=True)
                        if listed.jobs != jobs:
                            break  # to watch the new jobs too
                        look = alone(partial(view.leadership, jobs=jobs, found=found))
                        led = await hub.call(look, of_cluster=True)
                        inspected = await hub.call(view.inspections, of_cluster=True) if jobs else Condition()
                    except asyncio.TimeoutError:
                        outage.goes_on("no answer in time")
                    except HaError as error:
                        outage.goes_on(str(error))
                    else:
                        outage.over()
                        unseen.tell(view.trouble)
                        hub.announce(announced)
                        seen = {(job_id, LEADER): condition for job_id, condition in led.items()}
                        seen[CLUSTER] = inspected
                        if health is not None:
                            seen |= await _read_last(hub, health, jobs, unread)
                            seen = of_leaders(seen)
                        events = notices.take(seen, time.monotonic())
                        report.alerts = notices.alerts
                        for event in events:
                            yield event
                    pause = min(self.poll_interval, notices.next_due(time.monotonic()))
                    # Jitter, so that many deployments do not read in the same moment.
                    await waiter.wait(pause * random.uniform(1.0, 1.2))  # noqa: S311  # not a secret

    @property
    def _reads_drills(self) -> bool:
        return not set(self.emit).isdisjoint(DRILL_KINDS)

    @property
    def _reads_health(self) -> bool:
        return self._reads_drills or not set(self.emit).isdisjoint(HEALTH_KINDS)

    def _health(self) -> HealthView | None:
        """Return the reader of the jobs' health; ``None`` if no watcher of the stream subscribes to it."""
        if not self._reads_health:
            return None
        bounds = HealthLimits(
            checkpoint_grace=self.checkpoint_grace,
            checkpoint_age=self.max_checkpoint_age,
            stall_grace=self.grace,
            recovery_point=self.max_recovery_point,
            recovery_time=self.max_recovery_time,
        )
        return HealthView(
            bounds, interval=self.health_interval, drills=self._reads_drills, drill_interval=self.drill_interval
        )

    def _stream(self) -> dict[str, Any]:
        return {
            "spark_ha_conn_id": self.spark_ha_conn_id,
            "grace": self.grace,
            "start_timeout": self.start_timeout,
            "repeat_after": self.repeat_after,
            "poll_interval": self.poll_interval,
            "checkpoint_grace": self.checkpoint_grace,
            "max_checkpoint_age": self.max_checkpoint_age,
            "max_recovery_point": self.max_recovery_point,
            "max_recovery_time": self.max_recovery_time,
            "remind_after": self.remind_after,
            "health_interval": self.health_interval,
            "drill_interval": self.drill_interval,
            "recovers": self.recovers,
        }


async def _read_last(hub: Hub, health: HealthView, jobs: Sequence[str], unread: Outage) -> dict[Watched, Condition]:
    """Return the health of jobs from the latest successful read; events of leaders do not depend on it."""
    try:
        await hub.call(partial(health.read, jobs=jobs), of_cluster=True)
    except asyncio.TimeoutError:
        unread.goes_on("no answer in time")
    except HaError as error:
        unread.goes_on(str(error))
    else:
        unread.over()
    return health.known(jobs)
