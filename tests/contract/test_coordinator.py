"""What every coordinator keeps, on a real ZooKeeper."""

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
from airflow_provider_ha.coordination.coordinator import Check, Create, Delete, SessionState, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import (
    ConfigurationError,
    CoordinationError,
    NodeExistsError,
    NodeMissingError,
    NotConnectedError,
    OutcomeUnknownError,
    VersionConflictError,
)
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.coordination_helpers import outcome, session_through


@pytest.fixture
def base(coordinator: KazooCoordinator, cluster_paths: ClusterPaths) -> str:
    coordinator.ensure(cluster_paths.base)
    return cluster_paths.base


def test_a_node_is_read_with_its_version_and_owner(coordinator: KazooCoordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a", b"1", ephemeral=True))
    coordinator.commit(SetData(f"{base}/a", b"2"))

    node = coordinator.get(f"{base}/a")

    assert (node.data, node.version) == (b"2", 1)
    assert coordinator.session is not None
    assert node.ephemeral_owner == coordinator.session.session_id


def test_versions_come_back_in_the_order_of_the_operations(coordinator: KazooCoordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a"), Create(f"{base}/b"))

    versions = coordinator.commit(
        Check(f"{base}/a"), SetData(f"{base}/a", b"x", 0), Create(f"{base}/c"), Delete(f"{base}/b")
    )

    assert versions == [-1, 1, 0, -1]


@pytest.mark.parametrize(("name", "version", "error"), [("gone", -1, NodeMissingError), ("a", 7, VersionConflictError)])
def test_one_rejected_operation_rejects_all(
    coordinator: KazooCoordinator, base: str, name: str, version: int, error: type[CoordinationError]
) -> None:
    coordinator.commit(Create(f"{base}/a"))

    with pytest.raises(error) as caught:
        coordinator.commit(Create(f"{base}/b"), Check(f"{base}/{name}", version))

    assert caught.value.path == f"{base}/{name}"
    assert coordinator.children(base) == ["a"]


def test_a_name_is_created_once(coordinator: KazooCoordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a"))

    with pytest.raises(NodeExistsError, match=f"{base}/a exists"):
        coordinator.commit(Create(f"{base}/a"))


def test_what_does_not_exist_is_found_as_none_and_has_no_children(coordinator: KazooCoordinator, base: str) -> None:
    assert coordinator.find(f"{base}/a") is None
    assert coordinator.children(f"{base}/a") == []
    with pytest.raises(NodeMissingError):
        coordinator.get(f"{base}/a")


def test_ensure_makes_parents_and_leaves_what_is_there(coordinator: KazooCoordinator, base: str) -> None:
    coordinator.commit(Create(f"{base}/a", b"kept"))

    coordinator.ensure(f"{base}/a/b/c", f"{base}/a")

    assert coordinator.get(f"{base}/a").data == b"kept"
    assert coordinator.children(f"{base}/a/b") == ["c"]


def test_a_watch_tells_of_a_creation_a_change_and_a_new_child(coordinator: KazooCoordinator, base: str) -> None:
    created, changed, child = threading.Event(), threading.Event(), threading.Event()
    coordinator.find(f"{base}/a", watch=created.set)

    coordinator.commit(Create(f"{base}/a"))
    coordinator.get(f"{base}/a", watch=changed.set)
    coordinator.children(f"{base}/a", watch=child.set)
    coordinator.commit(SetData(f"{base}/a", b"x"), Create(f"{base}/a/b"))

    assert created.wait(5)
    assert changed.wait(5)
    assert child.wait(5)


def test_a_lost_connection_fires_the_watches_because_they_are_gone(coordinator: KazooCoordinator, base: str) -> None:
    doubt = threading.Event()
    coordinator.get(base, watch=doubt.set)

    coordinator.drop_connection()

    assert doubt.wait(5)


def test_a_dropped_connection_comes_back_with_the_same_session(coordinator: KazooCoordinator, base: str) -> None:
    states: list[SessionState] = []
    coordinator.add_state_listener(states.append)
    before = coordinator.session

    coordinator.drop_connection()
    wait_until(lambda: states[-1:] == [SessionState.CONNECTED], timeout=5, what="the session to be back")

    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert coordinator.session == before
    assert coordinator.get(base).path == base


def test_the_granted_timeout_is_known_not_only_the_one_asked_for(config: HaConfig) -> None:
    greedy = config.model_copy(update={"timings": config.timings.model_copy(update={"session_timeout": 3600.0})})

    session = KazooCoordinator.connect(greedy)

    assert session.negotiated_timeout == 60.0
    session.close()


def test_an_unanswered_write_is_unknown_and_the_next_read_sees_it(config: HaConfig, base: str) -> None:
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        proxy.cut_after_transaction(containing=f"{base}/a")

        with pytest.raises(OutcomeUnknownError, match=f"{base}/a"):
            session.commit(Create(f"{base}/a", b"1"))

        assert session.get(f"{base}/a").data == b"1"
        session.close()


def test_a_write_without_a_server_is_not_sent_and_not_kept_for_later(
    config: HaConfig, coordinator: KazooCoordinator, base: str
) -> None:
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        proxy.cut()
        wait_until(lambda: session.state is SessionState.SUSPENDED, timeout=5, what="the cut to be noticed")

        with pytest.raises(NotConnectedError, match="nothing was sent"):
            session.commit(Create(f"{base}/a"), timeout=0.2)

        proxy.heal()
        session.get(base)
        assert coordinator.find(f"{base}/a") is None
        session.close()


def test_a_read_survives_a_cut(config: HaConfig, base: str) -> None:
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        proxy.cut()
        threading.Timer(0.3, proxy.heal).start()

        assert session.get(base).path == base
        session.close()


def test_no_server_is_an_error_that_names_the_hosts(config: HaConfig) -> None:
    nobody = config.model_copy(update={"zookeeper": "127.0.0.1:1"})

    with pytest.raises(NotConnectedError, match=r"127\.0\.0\.1:1 .*Check the hosts"):
        KazooCoordinator.connect(nobody, timeout=0.5)


def test_a_silent_server_does_not_use_up_the_session_timeout(config: HaConfig) -> None:
    """Fails without the limit for each server: kazoo gives it the session timeout by the number of servers (5 s)."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # the kernel accepts, nobody answers
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


def test_a_closed_session_says_so(config: HaConfig, base: str) -> None:
    session = KazooCoordinator.connect(config)
    session.close()

    with pytest.raises(CoordinationError, match="was closed"):
        session.get(base)


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


def test_too_much_data_is_refused_before_it_breaks_the_connection(coordinator: KazooCoordinator, base: str) -> None:
    with pytest.raises(CoordinationError, match="only a pointer"):
        coordinator.commit(Create(f"{base}/a", b"x" * 1_100_000))

    assert coordinator.state is SessionState.CONNECTED


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
