"""All triggers of one loop share one session, and wake when something changes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, SessionState
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.fleet.notify.session import Announcements, WatchedNodes
from airflow_provider_ha.jobs.runs.watchers import LIVE, Announcement
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers import _hub as hub
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from airflow_provider_ha.triggers.live_fact import SparkHaCheckpointTrigger, SparkHaLeaderTrigger
from tests.support.clusters.airflow_helpers import connection_json
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.jobs_helpers import an_exit, lead, submit
from tests.support.clusters.trigger_helpers import NEVER, cancelled, first_event, looks_of, until


pytestmark = pytest.mark.usefixtures("airflow_connection")


def hub_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("spark-ha-hub")}


def test_many_triggers_share_one_session_and_are_woken_by_a_watch(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)
    triggers = [SparkHaLeaderTrigger(job_id="flights", poll_interval=NEVER) for _ in range(20)]
    looks = [looks_of(trigger) for trigger in triggers]

    async def watch() -> list[dict[str, Any]]:
        waiting = [asyncio.ensure_future(first_event(trigger)) for trigger in triggers]
        await until(lambda: all(looks), "a look of every trigger")
        leadership = await asyncio.to_thread(lead, coordinator, paths, config)
        try:
            return await asyncio.wait_for(asyncio.gather(*waiting), 10)
        finally:
            await asyncio.to_thread(leadership.release)

    events = asyncio.run(watch())

    assert {event["status"] for event in events} == {"success"}
    assert {event["epoch"] for event in events} == {1}
    assert len(opened) == 1
    assert opened[0].coordinator.state is not SessionState.CONNECTED, "the last one closed the session"


def test_a_trigger_that_is_cancelled_leaves_the_session_to_the_others(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)

    async def watch() -> dict[str, Any]:
        moved = asyncio.ensure_future(first_event(SparkHaLeaderTrigger(job_id="flights", poll_interval=NEVER)))
        stays = asyncio.ensure_future(first_event(SparkHaLeaderTrigger(job_id="flights", poll_interval=NEVER)))
        await asyncio.sleep(0)  # both have asked for the session, none has it
        moved.cancel()
        await until(lambda: opened, "a session")
        leadership = await asyncio.to_thread(lead, coordinator, paths, config)
        try:
            return await asyncio.wait_for(stays, 10)
        finally:
            await asyncio.to_thread(leadership.release)

    assert asyncio.run(watch())["status"] == "success"
    assert len(opened) == 1


def test_two_watches_that_fire_at_the_same_moment_wake_both(config: HaConfig) -> None:
    """Each of two threads notes its node before the other one has asked the loop to wake what waits."""

    class Together(deque[str]):
        def append(self, path: str) -> None:
            super().append(path)
            with suppress(threading.BrokenBarrierError):
                both.wait(0.5)

    async def woken() -> None:
        async with hub.borrow(config) as borrowed:
            with borrowed.waiter(["/a"]) as first, borrowed.waiter(["/b"]) as second:
                borrowed._fired = Together()
                fired = [asyncio.to_thread(borrowed.wake, path) for path in ("/a", "/b")]
                await asyncio.wait_for(asyncio.gather(*fired, first.wait(NEVER), second.wait(NEVER)), 20)

    both = threading.Barrier(2)
    asyncio.run(woken())


def test_a_lost_session_is_replaced_with_its_watches(
    config: HaConfig, coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)

    trigger = SparkHaLeaderTrigger(job_id="flights", poll_interval=NEVER)
    looks = looks_of(trigger)

    async def watch() -> dict[str, Any]:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: looks, "a look")
        opened[0].coordinator.close()  # for good: no watch of this session will ever fire
        await until(lambda: len(opened) == 2, "a second session")
        leadership = await asyncio.to_thread(lead, coordinator, paths, config)
        try:
            return await asyncio.wait_for(waiting, 10)
        finally:
            await asyncio.to_thread(leadership.release)

    assert asyncio.run(watch())["status"] == "success"


def test_a_watch_is_set_once_however_often_a_trigger_looks(
    coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)
    watched: list[str] = []
    trigger = SparkHaLeaderTrigger(job_id="flights", poll_interval=0.01)
    looks = looks_of(trigger)

    async def watch() -> None:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: looks, "a session")
        client = opened[0].coordinator
        real = client.read

        def counted(reads: Any, **options: Any) -> Any:
            if options.get("watch"):
                watched.extend(reads.nodes)
            return real(reads, **options)

        client.read = counted
        seen = len(looks)
        await until(lambda: len(looks) > seen + 10, "ten looks")
        await cancelled(waiting)

    asyncio.run(watch())

    assert watched == []


def test_the_loop_is_never_blocked_while_the_cluster_does_not_answer(
    config: HaConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = config.model_copy(update={"zookeeper": "127.0.0.1:1"})  # no server listens there
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_HA_DEFAULT", connection_json(away))
    monkeypatch.setattr(
        hub, "_open_client", lambda config: HaClient(config, KazooCoordinator.connect(config, timeout=3.0))
    )
    gaps: list[float] = []
    of_other_tests = hub_threads()  # a look of theirs may wait for a storage that hangs

    async def watch() -> bool:
        waiting = asyncio.ensure_future(first_event(SparkHaLeaderTrigger(job_id="flights", poll_interval=0.1)))
        for _ in range(40):
            before = time.monotonic()
            await asyncio.sleep(0.02)
            gaps.append(time.monotonic() - before)
        still_waiting = not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return still_waiting

    assert asyncio.run(watch()), "an outage is waited out"
    assert max(gaps) < 1.5, "a loop that connects by itself is away for 3 s"
    wait_until(lambda: hub_threads() <= of_other_tests, timeout=60, what="the last attempt to connect to be over")


def follower(**kwargs: Any) -> SparkHaJobTrigger:
    return SparkHaJobTrigger(job_id="flights", run=1, wait_for="finished", poll_interval=NEVER, **kwargs)


def test_a_loss_that_could_not_be_recovered_is_due_again_after_its_delay_and_not_before(
    coordinator: Coordinator, paths: JobPaths, opened: list[Any]
) -> None:
    submit(coordinator, paths)
    coordinator.commit(Create(paths.submission_exit(1, 1), an_exit().to_bytes()))

    before = time.monotonic()
    due = asyncio.run(first_event(follower(recover_after=0.5, lost_attempt=1)))
    waited = time.monotonic() - before

    assert due["status"] == "recover"
    assert waited >= 0.4
    assert len(opened) == 1


@pytest.mark.usefixtures("opened")
def test_a_first_loss_with_a_proof_of_death_is_due_at_once(cluster: Cluster) -> None:
    cluster.exited("flights", restart_delay=500.0)

    event = asyncio.run(asyncio.wait_for(first_event(follower()), 30))

    assert (event["status"], event["attempt"]) == ("recover", 1)


@pytest.mark.usefixtures("opened")
def test_the_delay_of_a_further_loss_is_waited_out_in_the_same_trigger(cluster: Cluster) -> None:
    cluster.exited("flights", restart_delay=4.0)
    cluster.client.job("flights").recover(by="test", wait=False)
    cluster.exit("flights")
    trigger = follower()
    looks = looks_of(trigger)

    event = asyncio.run(asyncio.wait_for(first_event(trigger), 30))

    assert (event["status"], event["attempt"]) == ("recover", 2)
    assert looks[0] is None, "it was seen first, and not handed to a worker"


@pytest.mark.usefixtures("opened")
def test_a_proof_of_death_ends_the_wait_of_a_loss_that_was_seen_before_it(cluster: Cluster) -> None:
    cluster.lost("flights", restart_delay=500.0)
    trigger = SparkHaJobTrigger(job_id="flights", run=1, wait_for="finished", poll_interval=1.0)
    looks = looks_of(trigger)

    async def watch() -> dict[str, Any]:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: looks, "the loss to be seen")
        assert not waiting.done()
        await asyncio.to_thread(cluster.exit, "flights")
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(watch())["status"] == "recover"


@pytest.mark.usefixtures("opened")
def test_options_that_cannot_be_read_now_are_waited_for(cluster: Cluster) -> None:
    cluster.exited("flights")
    store = Path(cluster.client.store.uri.removeprefix("file://"))
    away = store.with_name("away")
    store.rename(away)
    store.write_text("no directory")
    trigger = SparkHaJobTrigger(job_id="flights", run=1, wait_for="finished", poll_interval=0.05)
    outages = []
    look = trigger.look

    def noted(client: Any) -> Any:
        try:
            return look(client)
        except StorageUnavailableError as error:
            outages.append(error)
            raise

    def come_back() -> None:
        store.unlink()
        away.rename(store)

    trigger.look = noted  # type: ignore[method-assign]

    async def watch() -> dict[str, Any]:
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: len(outages) > 2, "three looks without an answer")
        await asyncio.to_thread(come_back)
        return await asyncio.wait_for(waiting, 30)

    assert asyncio.run(watch())["status"] == "recover"


def test_an_invalid_job_id_ends_the_wait_with_what_to_do(opened: list[Any]) -> None:
    event = asyncio.run(first_event(SparkHaCheckpointTrigger(job_id="to_delete")))

    assert event["status"] == "error"
    assert "reserved" in event["reason"]
    assert not opened


def test_people_are_shown_a_wait_after_the_first_looks_of_others(
    coordinator: Coordinator, paths: JobPaths, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(coordinator, paths)
    monkeypatch.setattr(hub, "_TICK", 0.0)
    monkeypatch.setattr(hub, "_HELD_BACK", 10**9)
    monkeypatch.setattr(hub, "_BATCH", 1)  # so that there is time for it between any two of them
    calls: list[str] = []
    keep, read = Announcements.keep, WatchedNodes.read

    def noted_keep(self: Announcements, wanted: Iterable[Announcement]) -> None:
        calls.append("announcements")
        keep(self, wanted)

    def noted_read(self: WatchedNodes, *nodes: Any) -> Any:
        calls.append("look")
        return read(self, *nodes)

    monkeypatch.setattr(Announcements, "keep", noted_keep)
    monkeypatch.setattr(WatchedNodes, "read", noted_read)

    async def watch() -> None:
        triggers = [SparkHaJobTrigger(job_id="flights", run=1, poll_interval=NEVER) for _ in range(20)]
        waiting = [asyncio.ensure_future(first_event(trigger)) for trigger in triggers]
        await until(lambda: len(present(coordinator, paths)) == 20, "all announcements")
        await cancelled(*waiting)

    asyncio.run(watch())

    first = calls.index("look")
    assert calls[first : first + 20] == ["look"] * 20


def test_a_stream_of_looks_does_not_hide_a_wait_from_people(
    coordinator: Coordinator, paths: JobPaths, opened: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(coordinator, paths)
    monkeypatch.setattr(hub, "_TICK", 0.01)

    async def watch() -> None:
        trigger = SparkHaJobTrigger(job_id="flights", run=1, poll_interval=NEVER)
        looks = looks_of(trigger)
        waiting = asyncio.ensure_future(first_event(trigger))
        await until(lambda: looks, "a look")
        (the_hub,) = hub._hubs.values()
        the_hub._reading = asyncio.ensure_future(asyncio.sleep(NEVER))
        the_hub.announce(Announcement.of_task(paths, "another"))
        await until(lambda: len(present(coordinator, paths)) == 2, "both announcements")
        await cancelled(waiting)

    asyncio.run(watch())


def present(coordinator: Coordinator, paths: JobPaths) -> list[str]:
    """Return the names of the waits that are shown to people."""
    return [name for name in coordinator.children(paths.watchers) if name.startswith(LIVE)]
