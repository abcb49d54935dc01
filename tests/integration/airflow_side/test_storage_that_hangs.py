"""Storage, or a read of jobs' health, that does not answer: a lost leader is told, and other triggers are served."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.errors import NotConnectedError, StorageUnavailableError
from airflow_provider_ha.fleet.notify import health, leadership
from airflow_provider_ha.fleet.notify.health import NewestDrills
from airflow_provider_ha.fleet.notify.leadership import ClusterView
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID
from airflow_provider_ha.jobs.observe import survey
from airflow_provider_ha.jobs.verification.verification_records import DrillStore
from airflow_provider_ha.testing.waiting import wait_until
from airflow_provider_ha.triggers import _hub
from airflow_provider_ha.triggers._base import Outage, config_of
from airflow_provider_ha.triggers._hub import _THREADS
from airflow_provider_ha.triggers.cluster import SparkHaClusterTrigger
from airflow_provider_ha.triggers.job import SparkHaJobTrigger
from tests.support.clusters.cluster_helpers import Cluster
from tests.support.clusters.trigger_helpers import NEVER, cancelled, drilled, first_event, looks_of, told_by, until


pytestmark = pytest.mark.usefixtures("airflow_connection", "opened")


class Hanging:
    """Calls that do not answer until the end of the test; beyond each limit of the hub."""

    def __init__(self) -> None:
        self.calls = 0
        self.over = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, *_: Any, **__: Any) -> Any:
        with self._lock:
            self.calls += 1
        self.over.wait()
        raise StorageUnavailableError("the bucket does not answer")


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    made = Hanging()
    yield made
    made.over.set()


@pytest.fixture
def drills(hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    """Every read of drills, which hangs."""
    monkeypatch.setattr(DrillStore, "newest", hanging)
    return hanging


def the_loss_is_told() -> None:
    assert told_by(1, emit=["no_leader", "drill_failed"])[0]["event"] == "no_leader"


def test_storage_that_hangs_hides_no_lost_leader(cluster: Cluster, drills: Hanging) -> None:
    cluster.lost("flights")

    the_loss_is_told()

    assert drills.calls == 1, "no second thread waits for it"


def told_to_follower(cluster: Cluster, *, watchers: int, once: Callable[[], bool]) -> str:
    """Return what the follower of a job hears that is lost *once* something has happened to watchers of the cluster."""
    leadership = cluster.led("followed", cluster.coordinator)
    follower = SparkHaJobTrigger(job_id="followed", run=1, wait_for="finished", poll_interval=0.2)
    looks = looks_of(follower)

    async def consume() -> None:
        async for _ in SparkHaClusterTrigger(grace=0.1, poll_interval=0.1).run():
            pass

    async def watch() -> str:
        following = asyncio.ensure_future(first_event(follower))
        await until(lambda: looks, "the first look of the follower")
        consuming = [asyncio.ensure_future(consume()) for _ in range(watchers)]
        await until(once, "what happens to the watchers")
        await asyncio.to_thread(leadership.release)
        try:
            return str((await asyncio.wait_for(following, 20))["status"])
        finally:
            await cancelled(following, *consuming)

    return asyncio.run(watch())


def test_storage_that_hangs_for_every_watcher_leaves_the_hub_to_the_followers(
    cluster: Cluster, drills: Hanging
) -> None:
    status = told_to_follower(cluster, watchers=_THREADS, once=lambda: drills.calls == _THREADS)

    assert status == "recover"


@pytest.fixture
def looks(cluster: Cluster, hanging: Hanging, monkeypatch: pytest.MonkeyPatch) -> Hanging:
    """The looks at two jobs whose pointers are damaged, which hang: they are looked at as a whole, with storage."""
    for job_id in ("first-unclear", "second-unclear"):
        cluster.coordinator.commit(SetData(cluster.lost(job_id).paths.job_graph, b"garbage"))
    monkeypatch.setattr(leadership, "look", hanging)
    return hanging


def test_looks_that_hang_hide_no_lost_leader_and_their_thread_ends_with_the_watcher(
    cluster: Cluster, looks: Hanging
) -> None:
    cluster.lost("flights")

    events = told_by(2, emit=["no_leader"], repeat_after=0.5)
    calls = looks.calls
    looks.over.set()

    assert {event["job_id"] for event in events} == {"flights"}
    assert calls == 1, "one look at a time"
    wait_until(
        lambda: leadership.THREAD not in {each.name for each in threading.enumerate()},
        timeout=20,
        what="the thread's end",
    )
    assert looks.calls == 1, "none begins after the end of the watcher"


def test_looks_that_hang_leave_the_hub_to_the_followers(
    cluster: Cluster, looks: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls, real = list[int](), ClusterView.leadership

    def counted(*args: Any, **kwargs: Any) -> Any:
        polls.append(1)
        return real(*args, **kwargs)

    monkeypatch.setattr(ClusterView, "leadership", counted)

    status = told_to_follower(cluster, watchers=1, once=lambda: len(polls) > _THREADS)

    assert status == "recover"
    assert looks.calls == 1


def test_a_read_of_leaders_that_hangs_is_given_up_and_leaves_the_hub_to_the_other_watchers(
    cluster: Cluster, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.lost("flights")
    real, refused, told = survey, list[str](), list[str]()
    monkeypatch.setattr(leadership, "survey", lambda *args: real(*args) if hanging.calls else hanging())
    monkeypatch.setattr(_hub, "CALL_TIMEOUT", 0.5)
    monkeypatch.setattr(Outage, "goes_on", lambda _, reason: refused.append(reason))

    async def consume() -> None:
        async for event in SparkHaClusterTrigger(grace=0.1, poll_interval=0.1).run():
            payload: Any = event.payload
            told.append(payload["event"])

    async def watch() -> None:
        hangs = asyncio.ensure_future(consume())
        await until(lambda: len(refused) > _THREADS, "polls of the watcher that hangs")
        other = asyncio.ensure_future(consume())
        try:
            await until(lambda: told, "the loss")
        finally:
            await cancelled(hangs, other)

    asyncio.run(watch())

    assert told[0] == "no_leader"
    assert hanging.calls == 1


@pytest.mark.parametrize("session_is_lost", [False, True], ids=["", "and the session is replaced"])
def test_looks_of_followers_that_hang_hide_no_lost_leader(
    cluster: Cluster, hanging: Hanging, opened: list[Any], *, session_is_lost: bool
) -> None:
    cluster.lost("flights")
    told = list[str]()

    async def consume() -> None:
        async for event in SparkHaClusterTrigger(grace=0.1, poll_interval=0.1).run():
            payload: Any = event.payload
            told.append(payload["event"])

    async def watch() -> None:
        async with _hub.borrow(await config_of(DEFAULT_CONN_ID)) as hub:
            looks = [asyncio.ensure_future(hub.call(hanging)) for _ in range(_THREADS + 1)]
            await until(lambda: hanging.calls == _THREADS, "looks in all threads of the followers")
            if session_is_lost:
                await asyncio.to_thread(opened[0].coordinator.close)
            watching = asyncio.ensure_future(consume())
            try:
                await until(lambda: told, "the loss")
            finally:
                await cancelled(watching, *looks)

    asyncio.run(watch())

    assert told[0] == "no_leader"
    assert len(opened) == 1 + session_is_lost


def test_health_that_is_read_too_late_hides_no_lost_leader(
    cluster: Cluster, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.lost("flights")
    monkeypatch.setattr(health, "_of_jobs", hanging)
    monkeypatch.setattr(_hub, "CALL_TIMEOUT", 0.5)

    the_loss_is_told()

    assert hanging.calls == 1, "no second thread reads"


def test_health_that_cannot_be_read_hides_no_lost_leader(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.lost("flights")

    def away(*_: Any) -> Any:
        raise NotConnectedError("no server answers")

    monkeypatch.setattr(health, "_of_jobs", away)

    the_loss_is_told()


def test_health_that_cannot_be_read_any_more_stays_what_it_was(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.exited("flights", restart_attempts=5)
    cluster.client.job("flights").fail("its table is gone", by="test")
    real, reads = health._of_jobs, list[int]()

    def once(*args: Any) -> Any:
        reads.append(len(reads))
        if len(reads) > 1:
            raise NotConnectedError("no server answers")
        return real(*args)

    monkeypatch.setattr(health, "_of_jobs", once)

    events = told_by(3, emit=["run_failed"], remind_after=0.5, health_interval=0.0)

    assert {event["event"] for event in events} == {"run_failed"}
    assert len(reads) > 1


def test_drills_are_read_by_one_thread_and_known_when_it_has_its_answer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, answers, real, calls = cluster.submitted("flights"), threading.Event(), DrillStore.newest, list[str]()
    drilled(job)

    def slow(store: DrillStore, known: Any) -> Any:
        calls.append("flights")
        answers.wait()
        return real(store, known)

    monkeypatch.setattr(DrillStore, "newest", slow)
    drills = NewestDrills(0.0)

    for _ in range(3):
        drills.read(cluster.client, ["flights"])
    before, version = drills.of("flights"), drills.version
    answers.set()
    after = wait_until(lambda: drills.of("flights"), timeout=20, what="the drill")

    assert before is None
    assert after.drill_id == "weekly"
    assert calls == ["flights"]
    assert drills.version != version


def test_drills_of_a_job_that_cannot_be_read_do_not_hide_those_of_the_others(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = DrillStore.newest
    for job_id in ("broken", "flights"):
        drilled(cluster.submitted(job_id))

    def refused(store: DrillStore, known: Any) -> Any:
        if "broken" in store._keys.drills:
            raise StorageUnavailableError("access to the folder is denied")
        return real(store, known)

    monkeypatch.setattr(DrillStore, "newest", refused)
    drills = NewestDrills(NEVER)

    drills.read(cluster.client, ["broken", "flights"])

    assert wait_until(lambda: drills.of("flights"), timeout=20, what="the drill")
    assert drills.of("broken") is None


def test_a_reader_that_is_closed_asks_for_no_further_job(cluster: Cluster, drills: Hanging) -> None:
    for job_id in ("flights", "other"):
        cluster.submitted(job_id)
    newest = NewestDrills(NEVER)

    newest.read(cluster.client, ["flights", "other"])
    wait_until(lambda: drills.calls, timeout=20, what="the first call")
    newest.close()
    drills.over.set()
    wait_until(
        lambda: "spark-ha-drills" not in {each.name for each in threading.enumerate()}, timeout=20, what="its end"
    )

    assert drills.calls == 1
