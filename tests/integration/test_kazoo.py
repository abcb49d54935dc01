"""What only the session with a real ZooKeeper can do wrong: sockets, threads, forks, access, logs."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import warnings

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import _kazoo
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Create, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import ConfigurationError, NotConnectedError
from tests.support.clusters.coordination_helpers import outcome


@pytest.fixture
def base(coordinator: KazooCoordinator, cluster_paths: ClusterPaths) -> str:
    coordinator.ensure(cluster_paths.base)
    return cluster_paths.base


def test_no_server_is_an_error_that_names_the_hosts(config: HaConfig) -> None:
    unreachable = config.model_copy(update={"zookeeper": "127.0.0.1:1"})

    with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1:1 .*Check the hosts"):
        KazooCoordinator.connect(unreachable, timeout=0.5)


def test_a_silent_server_does_not_use_up_the_session_timeout(config: HaConfig) -> None:
    """Fails without the limit for each server: kazoo gives it the session timeout by the number of servers (5 s)."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, no server answers
        hosts = f"127.0.0.1:{silent.getsockname()[1]},{config.zookeeper}"
        timings = config.timings.model_copy(update={"session_timeout": 10.0})
        both = config.model_copy(update={"zookeeper": hosts, "timings": timings})

        for _ in range(4):  # servers are tried in any order
            KazooCoordinator.connect(both, timeout=3).close()


def test_closing_never_hangs_even_when_a_watch_does(
    config: HaConfig, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kazoo, "_CLOSE_TIMEOUT", 0.5)
    session, release = KazooCoordinator.connect(config), threading.Event()

    def hang() -> None:
        release.wait(30)

    session.get(base, watch=hang)
    session.commit(SetData(base, b""))
    started = time.monotonic()

    session.close()

    assert time.monotonic() - started < 3
    release.set()


def test_a_forked_child_is_refused_instead_of_hanging(coordinator: KazooCoordinator, base: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads is what is tested
        child = os.fork()
    if child == 0:
        refused = outcome(lambda: coordinator.get(base)) == "CoordinationError"
        coordinator.close()
        os._exit(0 if refused else 1)

    _, status = os.waitpid(child, 0)

    assert os.waitstatus_to_exitcode(status) == 0
    assert coordinator.get(base).path == base


def test_nodes_are_closed_to_others_when_there_are_credentials(config: HaConfig, coordinator: KazooCoordinator) -> None:
    secured = HaConfig.build(
        **config.model_dump(exclude={"digest_auth", "root"}), digest_auth="flights:secret", root="secured"
    )
    session = KazooCoordinator.connect(secured)
    session.ensure("/secured/a")

    with pytest.raises(ConfigurationError, match="digest_auth"):
        coordinator.get("/secured/a")

    assert session.get("/secured/a").data == b""
    session.close()


def test_passwords_are_never_logged(config: HaConfig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secured = HaConfig.build(**config.model_dump(exclude={"digest_auth"}), digest_auth="flights:secret")

    session = KazooCoordinator.connect(secured)
    assert session.session is not None
    password = session.session.password
    session.close()

    assert "secret" not in caplog.text
    assert password.hex() not in caplog.text
    assert str(password) not in caplog.text


def test_several_reads_come_in_their_order(config: HaConfig, coordinator: KazooCoordinator, base: str) -> None:
    """A later read of one round trip sees at least what an earlier one saw, also when others write in between.

    Fails when the nodes are asked for in another order than they are named.
    """
    first, last = f"{base}/first", f"{base}/last"
    coordinator.commit(Create(first), Create(last))
    writer = KazooCoordinator.connect(config)

    def write() -> None:
        for _ in range(300):
            writer.commit(SetData(last, b""))
            writer.commit(SetData(first, b""))

    thread = threading.Thread(target=write)
    thread.start()
    seen = []
    while thread.is_alive():
        found = coordinator.read(Reads((first, last)))
        seen.append((found.there(first).version, found.there(last).version))
    writer.close()

    assert len(set(seen)) > 10
    assert all(later >= earlier for earlier, later in seen)
