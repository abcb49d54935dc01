"""A job's lock when processes are really killed, frozen and cut off."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SessionCredentials, SessionState, SetData
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import ignore, job_paths, lead, session_through


LEADER = Path(__file__).with_name("leader_process.py")
ROOT = Path(__file__).parents[2]
LATEST_EXPIRY = 3.0 + 2 * 0.2 + 0.6  # T, rounding to ticks, and a slow machine


class LeaderProcess:
    """A leader in a separate process."""

    def __init__(self, config: HaConfig, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(LEADER), config.to_private_json(), *options],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT)},
        )
        facts = self.next_words()
        self.epoch: int = facts["epoch"]
        self.credentials = SessionCredentials(facts["session"], bytes.fromhex(facts["password"]))

    def next_words(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        words: dict[str, Any] = json.loads(self.process.stdout.readline() or '{"silent": true}')
        return words

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def leader_process(config: HaConfig) -> Iterator[Callable[..., LeaderProcess]]:
    started: list[LeaderProcess] = []

    def start(*options: str) -> LeaderProcess:
        started.append(LeaderProcess(config, *options))
        return started[-1]

    yield start
    for process in started:
        process.end()


def test_a_killed_leader_frees_the_job_when_its_session_times_out(
    config: HaConfig, coordinator: KazooCoordinator, leader_process: Callable[..., LeaderProcess]
) -> None:
    dead = leader_process()
    dead.process.kill()
    started = time.monotonic()

    successor = lead(config, coordinator)

    assert successor.epoch == dead.epoch + 1
    assert time.monotonic() - started < LATEST_EXPIRY


def test_closing_the_session_of_a_dead_leader_frees_the_job_at_once(
    config: HaConfig, coordinator: KazooCoordinator, leader_process: Callable[..., LeaderProcess]
) -> None:
    dead = leader_process()
    dead.process.kill()
    dead.process.wait()  # the proof of death
    started = time.monotonic()

    assert close_session(config, dead.credentials)
    successor = lead(config, coordinator)

    assert successor.epoch == dead.epoch + 1
    assert time.monotonic() - started < 1.0
    assert not close_session(config, dead.credentials)


@pytest.mark.parametrize("options", [(), ("--write-only",)])
def test_a_frozen_leader_that_wakes_up_too_late_writes_nothing_and_exits(
    config: HaConfig,
    coordinator: KazooCoordinator,
    leader_process: Callable[..., LeaderProcess],
    options: tuple[str, ...],
) -> None:
    zombie = leader_process(*options)
    zombie.process.send_signal(signal.SIGSTOP)
    successor = lead(config, coordinator)
    (version,) = successor.commit(SetData(job_paths(config).status, b"the successor's"))

    zombie.process.send_signal(signal.SIGCONT)
    words = zombie.next_words()

    assert zombie.process.wait(10) == 3
    assert words.get("error") in {"LeadershipLostError", "FencedError"} or "lost" in words
    status = coordinator.get(job_paths(config).status)
    assert (status.data, status.version) == (b"the successor's", version)


def test_a_leader_frozen_for_less_than_its_lease_goes_on(
    config: HaConfig, coordinator: KazooCoordinator, leader_process: Callable[..., LeaderProcess]
) -> None:
    leader, paths = leader_process(), job_paths(config)
    wait_until(lambda: coordinator.get(paths.heartbeat).version >= 3, timeout=5, what="regular heartbeats")
    leader.process.send_signal(signal.SIGSTOP)
    resume = threading.Timer(0.6 * config.timings.tolerated_cut(1), leader.process.send_signal, [signal.SIGCONT])
    resume.start()
    resume.join()

    before = coordinator.get(paths.status).version

    wait_until(lambda: coordinator.get(paths.status).version > before + 5, timeout=5, what="the leader's next writes")
    assert coordinator.get(paths.epoch).version == leader.epoch


class Cut:
    """A leader behind a proxy, and what it is told."""

    def __init__(self, config: HaConfig, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.session = session_through(config, proxy.hosts)
        self.leadership: Leadership = lead(config, self.session)
        self.reasons: list[str] = []
        self.lost_at = 0.0
        self.leadership.start_heartbeats(self.lost)
        first = self.leadership._lease.deadline
        wait_until(lambda: self.leadership._lease.deadline > first, timeout=3, what="regular heartbeats")

    def lost(self, reason: str) -> None:
        self.lost_at = time.monotonic()
        self.reasons.append(reason)


@pytest.fixture
def cut(config: HaConfig) -> Iterator[Cut]:
    with FaultProxy(config.zookeeper) as proxy:
        leader = Cut(config, proxy)
        yield leader
        proxy.heal()
        leader.leadership.release()
        leader.session.close()


@pytest.mark.parametrize("fault", ["cut", "black_hole", "drop_replies"])
def test_a_cut_shorter_than_the_figure_costs_nothing(
    config: HaConfig, coordinator: KazooCoordinator, cut: Cut, fault: str
) -> None:
    figure = config.timings.tolerated_cut(1)
    before = cut.leadership._lease.deadline
    getattr(cut.proxy, fault)()
    threading.Timer(0.85 * figure, cut.proxy.heal).start()

    wait_until(lambda: cut.leadership._lease.deadline > before + figure, timeout=6, what="heartbeats after the cut")

    assert not cut.leadership.lost.is_set()
    assert cut.leadership.commit(SetData(job_paths(config).heartbeat, b""))
    assert coordinator.get(job_paths(config).epoch).version == cut.leadership.epoch


def test_a_link_that_dies_in_silence_is_dropped_and_another_one_made(cut: Cut) -> None:
    """Fails without dropping the connection on an unanswered heartbeat: kazoo alone never notices."""
    before = cut.leadership._lease.deadline

    cut.proxy.stall()

    wait_until(lambda: cut.leadership._lease.deadline > before + 2, timeout=6, what="heartbeats by another connection")
    assert not cut.leadership.lost.is_set()


@pytest.mark.parametrize("fault", ["cut", "black_hole"])
def test_a_leader_that_is_cut_off_knows_it_before_another_one_leads(
    config: HaConfig, coordinator: KazooCoordinator, cut: Cut, fault: str
) -> None:
    """Fails without the lease: kazoo reports the loss of a session only when a server tells it."""
    getattr(cut.proxy, fault)()

    successor = lead(config, coordinator)
    led_at = time.monotonic()

    assert successor.epoch == cut.leadership.epoch + 1
    assert cut.reasons == [cut.leadership._reason]
    assert "lease ran out" in cut.reasons[0]
    assert cut.lost_at < led_at
    assert cut.session.state is SessionState.SUSPENDED


def test_a_frozen_server_costs_the_leadership_when_the_lease_is_over(config: HaConfig, tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper", tick_ms=200) as server:
        session = session_through(config, server.hosts)
        reasons: list[str] = []
        leadership = lead(config, session)
        leadership.start_heartbeats(reasons.append)

        server.freeze()
        wait_until(lambda: reasons, timeout=6, what="the loss to be noticed")

        server.thaw()
        session.close()


def test_a_server_that_is_killed_and_comes_back_soon_keeps_its_leader(config: HaConfig, tmp_path: Path) -> None:
    patient = config.model_copy(update={"timings": config.timings.model_copy(update={"session_timeout": 15.0})})
    with EmbeddedZooKeeper(tmp_path / "zookeeper", tick_ms=200) as server:
        session = session_through(patient, server.hosts)
        leadership = lead(patient, session)
        leadership.start_heartbeats(ignore)

        server.kill()
        server.start()

        deadline = leadership._lease.deadline
        wait_until(lambda: leadership._lease.deadline > deadline, timeout=10, what="heartbeats after the restart")
        assert session.get(job_paths(patient).epoch).version == leadership.epoch == 1
        leadership.release()
        session.close()
