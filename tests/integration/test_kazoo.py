"""What only the session with a real ZooKeeper can do wrong: sockets, threads, forks, access, logs."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import warnings

import pytest
from kazoo.protocol.states import KeeperState  # noqa: TID253  # what kazoo itself says
from kazoo.security import make_acl  # noqa: TID253  # the same
from pydantic import SecretStr

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import _kazoo
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_acls import KazooAcls
from airflow_provider_ha.coordination.coordinator import Create, Reads, SessionState, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ConfigurationError, NotConnectedError, OutcomeUnknownError
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.coordination_helpers import outcome, session_through


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


def test_a_write_that_meets_the_close_of_its_connection_may_have_been_sent(
    coordinator: KazooCoordinator, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kazoo queues a request before it finds its own wake-up socket closed."""
    connection = coordinator._client._connection
    wake_up, closed = connection._write_sock, socket.socket()
    closed.close()
    with monkeypatch.context() as patch:
        patch.setattr(connection, "_write_sock", closed)

        with pytest.raises(OutcomeUnknownError, match=f"{base}/a"):
            coordinator.commit(Create(f"{base}/a"))

    wake_up.send(b"\0")
    assert coordinator.get(f"{base}/a").path == f"{base}/a"


def test_a_write_that_meets_refused_credentials_says_so(
    coordinator: KazooCoordinator, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kazoo learns of the refusal after the look at the connection, and before the state reaches any listener."""
    monkeypatch.setattr(coordinator._client, "_state", KeeperState.AUTH_FAILED)

    with pytest.raises(ConfigurationError, match="refuses these credentials"):
        coordinator.commit(Create(f"{base}/a"))


def test_a_server_that_keeps_its_answers_is_an_error_that_names_the_node(
    config: HaConfig, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultProxy(config.zookeeper) as proxy:
        session = session_through(config, proxy.hosts)
        monkeypatch.setattr(session, "_timeout", 0.2)
        proxy.drop_replies()

        with pytest.raises(NotConnectedError, match=rf"did not answer a read of {base} \(KazooTimeoutError\)"):
            session.get(base)
        with pytest.raises(OutcomeUnknownError, match=f"{base}/a"):
            session._ensure_one(f"{base}/a")  # after its find

        session.close()


def test_an_error_of_one_listener_does_not_keep_a_change_from_the_next(
    config: HaConfig, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[SessionState] = []

    def clumsy(state: SessionState) -> None:
        raise RuntimeError(f"a mistake about {state}")

    session = KazooCoordinator.connect(config)
    session.add_state_listener(clumsy)
    session.add_state_listener(heard.append)

    session.drop_connection()

    wait_until(lambda: heard[-1:] == [SessionState.CONNECTED], timeout=10, what="the connection again")
    assert heard[0] is SessionState.SUSPENDED
    assert "a mistake about" in caplog.text
    session.close()


def test_a_session_that_cannot_be_ended_in_order_is_left_with_a_line_in_the_log(
    config: HaConfig, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = KazooCoordinator.connect(config)
    stop = session._client.stop

    def fail() -> None:
        stop()
        raise RuntimeError("kazoo")

    monkeypatch.setattr(session._client, "stop", fail)

    session.close()

    assert f"the session with {config.zookeeper} was not ended in order" in caplog.text
    session._client.close()


def test_servers_that_do_not_know_the_kind_of_credentials_set_no_acl(
    coordinator: KazooCoordinator, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coordinator._client, "default_acl", [make_acl("no-such-scheme", "user", all=True)])
    acls = KazooAcls(coordinator)

    with pytest.raises(ConfigurationError, match=rf"no ACL with these credentials for {base}.*digest, sasl"):
        acls.put(acls.look([base]))


def test_sasl_without_its_package_names_what_to_install(config: HaConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(ConfigurationError, match=r"airflow-provider-ha\[sasl\]"):
        KazooCoordinator(config.model_copy(update={"sasl_auth": SecretStr("user:password")}))
