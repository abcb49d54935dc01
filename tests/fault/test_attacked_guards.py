"""Guards attacked one by one, each by the history that it was made for. T is 3 s."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient  # noqa: TID253  # what a client without our lease believes
from kazoo.protocol.connection import _SESSION_EXPIRED  # noqa: TID253  # makes kazoo take its session for expired
from kazoo.protocol.states import KeeperState  # noqa: TID253  # as above

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_transaction import build_transaction
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, Op, SessionState, SetData
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import LeadershipLostError
from airflow_provider_ha.host.process_tree import DeathWatch
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.coordination_helpers import job_paths, lead, outcome, session_through
from tests.support.ensemble.servers import EmbeddedEnsemble
from tests.support.leadership.job_process import LOST
from tests.support.leadership.job_processes import JobProcess, submit_job


NOWHERE = "127.0.0.1:1"


# 1. The data of a job is deleted and created again while a stopped leader of the old one comes back.


def delete_job(coordinator: Coordinator, paths: JobPaths) -> None:
    """Remove all that a job has, but its lock: the epoch is a tombstone that stays (contract 1)."""
    coordinator.commit(Delete(paths.leader))
    kept = (paths.epoch, paths.heartbeat)
    for path in _below(coordinator, paths.base):
        if not any(name == path or name.startswith(f"{path}/") for name in kept):
            coordinator.commit(Delete(path))


def _below(coordinator: Coordinator, path: str) -> list[str]:
    deeper = [below for name in coordinator.children(path) for below in _below(coordinator, f"{path}/{name}")]
    return [*deeper, path]


@pytest.fixture
def stopped(config: HaConfig, coordinator: KazooCoordinator, tmp_path: Path) -> Iterator[JobProcess]:
    """A leader that is frozen when its result is made and not sent; no clock of the process shows that."""
    paths = job_paths(config)
    submit_job(config, coordinator, paths)
    process = JobProcess(config, tmp_path, "stopped", job_id=paths.job_id, attempt=1, freeze=True, blind=True)
    process.await_events("committed", 2)
    process.signal(signal.SIGTERM)
    process.await_event("frozen")
    yield process
    process.kill()


def test_a_stopped_leader_of_a_job_that_was_deleted_and_made_again_is_fenced(
    config: HaConfig, coordinator: KazooCoordinator, stopped: JobProcess
) -> None:
    """Its session lives, its lease lasts, and there is a leader node: only the epoch tells the two jobs apart."""
    paths = job_paths(config)
    delete_job(coordinator, paths)
    submit_job(config, coordinator, paths)
    with lead(config, coordinator) as new:
        stopped.signal(signal.SIGCONT)

        assert stopped.wait() == LOST
        # The fence of its next write, or the watch on the leader node: whichever is first.
        assert re.search("was taken from epoch 1|belongs to session", stopped.await_event("lost")["reason"])
        assert new.epoch == 2
        assert coordinator.find(paths.run_result(1)) is None
        assert coordinator.find(paths.job_graph) is not None


# 2. The driver's Python is killed while its JVM is stopped: no process leads before the JVM is gone.


@pytest.fixture
def job(
    config: HaConfig, coordinator: Coordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[JobContext]:
    monkeypatch.setenv("SPARK_HOME", str(helpers.stand_in_spark(tmp_path / "spark")))
    context = helpers.context(config, coordinator, job_id="flights")
    yield context
    helpers.kill_all(context)


def test_nobody_leads_before_a_stopped_jvm_whose_python_was_killed_is_gone(
    config: HaConfig, coordinator: KazooCoordinator, job: JobContext, tmp_path: Path
) -> None:
    """Fails when only the JVM's own end counts: it never comes, and the lock is free after T."""
    helpers.submit(job, helpers.script(tmp_path), mode="lead")
    python = _pid(job, "driver.pid")
    jvm = DeathWatch(_pid(job, "jvm.pid"))
    wait_until(lambda: coordinator.find(job.paths.leader), timeout=10, what="the driver to lead")
    os.kill(jvm.pid, signal.SIGSTOP)

    os.kill(python, signal.SIGKILL)
    with lead(config, coordinator, timeout=20) as successor:
        assert jvm.dead()
        assert successor.epoch == 2


def _pid(job: JobContext, name: str) -> int:
    return wait_until(lambda: helpers.pid_in(job, name), timeout=20, what=name)


# 3. A write that is queued in one session is sent again by kazoo in the next one.


class Queued:
    """A leader's session that is over, and a client that looks for a server to begin the next one with.

    What is written in this moment, after the coordinator's look at the connection and before kazoo's own, is queued and
    sent under the next session. A process that is stopped just there meets it; the test makes the moment last.
    """

    def __init__(self, config: HaConfig) -> None:
        self.session = KazooCoordinator.connect(config)
        self.leadership: Leadership = lead(config, self.session)
        credentials = self.session.session
        assert credentials is not None
        self.first_session = credentials.session_id
        self._hosts = config.zookeeper
        self._client: Any = self.session._client
        self._client.set_hosts(NOWHERE)
        self._client._call(_SESSION_EXPIRED, self._client.handler.async_result())
        wait_until(self._looks_for_a_server, timeout=5, what="the end of the session")
        assert close_session(config, credentials)

    def _looks_for_a_server(self) -> bool:
        return self.session.state is SessionState.LOST and self._client._state == KeeperState.CONNECTING

    def send(self, *ops: Op) -> Callable[[], object]:
        """Queue a transaction; returns how to wait for its outcome."""
        pending = build_transaction(self._client, ops).commit_async()
        return lambda: pending.get(timeout=10)

    def reconnect(self) -> None:
        """Let the client find a server; returns in the next session."""
        self._client.set_hosts(self._hosts)
        wait_until(lambda: self.session.session, timeout=10, what="the next session")
        assert self.session.session is not None
        assert self.session.session.session_id != self.first_session

    def commit(self, *ops: Op) -> str:
        """Have the leader queue a write, then reconnect; returns the outcome."""
        self.session._wait_until_connected = lambda timeout: None  # type: ignore[method-assign]
        with ThreadPoolExecutor() as pool:
            result = pool.submit(outcome, lambda: self.leadership._guarded(ops, timeout=10))
            wait_until(lambda: self._client._queue, timeout=5, what="the write to be queued")
            self.reconnect()
            return result.result()


@pytest.fixture
def queued(config: HaConfig) -> Iterator[Queued]:
    queued = Queued(config)
    yield queued
    queued.session.close()


def test_kazoo_does_send_a_queued_write_under_the_next_session(
    config: HaConfig, coordinator: KazooCoordinator, queued: Queued
) -> None:
    """The hazard itself: were it gone, the guards below would be tested against nothing."""
    path = f"{job_paths(config).base}/unguarded"
    result = queued.send(Create(path, ephemeral=True))

    queued.reconnect()
    result()

    node = coordinator.find(path)
    assert node is not None
    assert node.ephemeral_owner != queued.first_session


def test_a_queued_write_is_rejected_although_nobody_else_has_led(
    config: HaConfig, coordinator: KazooCoordinator, queued: Queued
) -> None:
    """Fails without the check that the leader node exists: the epoch is still the same."""
    path = f"{job_paths(config).base}/late"

    assert queued.commit(Create(path)) == "FencedError"
    assert coordinator.find(path) is None
    assert coordinator.get(job_paths(config).epoch).version == queued.leadership.epoch


def test_a_queued_write_is_rejected_when_another_leads(
    config: HaConfig, coordinator: KazooCoordinator, queued: Queued
) -> None:
    """Fails without the check of the epoch: there is a leader node again."""
    path = f"{job_paths(config).base}/late"
    with lead(config, coordinator):
        assert queued.commit(Create(path)) == "FencedError"
    assert coordinator.find(path) is None


def test_a_request_after_the_end_of_the_session_is_never_queued(config: HaConfig, queued: Queued) -> None:
    """Fails without comparing sessions: in the new session the write would be sent, and only the fence be left."""
    queued.reconnect()
    sent: list[object] = []

    def send(*ops: Op, timeout: float | None = None) -> list[int]:
        sent.append(ops)
        return []

    queued.session.commit = send  # type: ignore[method-assign]  # nothing is to come so far

    with pytest.raises(LeadershipLostError, match="has ended"):
        queued.leadership.commit(SetData(job_paths(config).heartbeat, b""))

    assert not sent


# 4. A follower is cut off from the ensemble together with its client, which goes on reading what was true before.

LOCK = "/lock-of-a-client-without-a-lease"


@pytest.fixture
def slow_ensemble(tmp_path: Path) -> Iterator[EmbeddedEnsemble]:
    """Its followers notice a cut only after 6 s: much later than T."""
    with EmbeddedEnsemble(tmp_path / "ensemble", sync_ticks=30) as ensemble:
        yield ensemble


@pytest.mark.long
def test_a_follower_that_is_cut_off_deceives_a_client_but_no_leader_of_ours(
    config: HaConfig, slow_ensemble: EmbeddedEnsemble, record_property: Callable[[str, object], None]
) -> None:
    """The client without a lease shows that the deception is real; our leader ends before its successor begins."""
    clock = SystemClock()
    follower = slow_ensemble.followers()[0]
    others = ",".join(member.hosts for member in slow_ensemble.members if member is not follower)
    naive = KazooClient(follower.hosts, timeout=config.timings.session_timeout)
    naive.start()
    naive.create(LOCK, ephemeral=True)
    session, rival = session_through(config, follower.hosts), session_through(config, others)
    old = lead(config, session)
    ends: list[float] = []
    old.start_heartbeats(lambda reason: ends.append(clock.lease_time()))
    wait_until(lambda: old.lease_left() > 0, timeout=3, what="a heartbeat")

    cut_at = clock.lease_time()
    slow_ensemble.isolate(follower)
    new = lead(config, rival, timeout=20)
    led_at = clock.lease_time()
    wait_until(lambda: not rival.find(LOCK), timeout=5, what="the end of the client's session")
    deceived = naive.connected and naive.exists(LOCK) is not None
    wait_until(lambda: not naive.connected, timeout=20, what="the follower to notice")
    noticed_at = clock.lease_time()
    slow_ensemble.heal()

    assert deceived, "connected, and reads its own lock as held, while it is free for any process"
    assert new.epoch == old.epoch + 1
    assert ends[0] < led_at
    assert old._lease.deadline < led_at
    assert outcome(lambda: old.commit(SetData(job_paths(config).heartbeat, b""))) == "LeadershipLostError"
    figures = {
        "our leader believes until": ends[0],
        "its successor believes from": led_at,
        "the client without a lease believes until": noticed_at,
    }
    for what, at in figures.items():
        record_property(what, round(at - cut_at, 2))
        print(f"{what} {at - cut_at:.2f} s after the cut")
    for client in (session, rival):
        client.close()
    naive.stop()
    naive.close()
