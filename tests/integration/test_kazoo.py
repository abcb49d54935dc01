"""Session with a real ZooKeeper: sockets, threads, forks, access and its lines in the log."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import warnings
from collections.abc import Iterator

import pytest
from kazoo.protocol.states import KeeperState  # noqa: TID253  # what kazoo itself says
from kazoo.security import make_acl  # noqa: TID253  # the same
from pydantic import SecretStr

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination import _kazoo
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination._kazoo_acls import KazooAcls
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Reads, SessionState, SetData
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.coordination.raw_socket import close_session, unresolved
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


@pytest.fixture
def session(config: HaConfig, proxy: FaultProxy, caplog: pytest.LogCaptureFixture) -> Iterator[KazooCoordinator]:
    """A session through the proxy; only what is logged after it was opened is in the log."""
    caplog.set_level(logging.INFO)
    session = KazooCoordinator.connect(config.model_copy(update={"zookeeper": proxy.hosts}))
    wait_until(lambda: lines(caplog), timeout=10, what="the first line")
    caplog.clear()
    yield session
    session.close()


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged about connections, kazoo's own lines included."""
    loggers = ("airflow_provider_ha.coordination", "airflow_provider_ha.kazoo", "kazoo")
    return [record.getMessage() for record in caplog.records if record.name.startswith(loggers)]


def test_a_session_that_opens_and_closes_is_one_line(config: HaConfig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    session = KazooCoordinator.connect(config)
    number = session.session.session_id if session.session else 0
    wait_until(lambda: lines(caplog), timeout=10, what="the line")
    session.close()

    assert lines(caplog) == [f"connected to ZooKeeper ({config.zookeeper}), session 0x{number:x}"]


def test_a_cut_is_one_line_however_often_it_connects_in_vain_and_its_end_another(
    session: KazooCoordinator, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = session._client.handler  # it keeps why the newest attempt failed

    proxy.cut()
    wait_until(lambda: attempts.last_error, timeout=10, what="an attempt that failed")
    proxy.heal()
    wait_until(lambda: len(lines(caplog)) > 1, timeout=10, what="both lines")

    cut, healed = lines(caplog)
    assert cut.startswith(f"the connection to ZooKeeper ({proxy.hosts}) is interrupted: ")
    assert healed.startswith(f"connected to ZooKeeper ({proxy.hosts}) again after ")
    assert healed.endswith("goes on")


def test_a_connection_that_is_dropped_on_purpose_says_why(
    session: KazooCoordinator, caplog: pytest.LogCaptureFixture
) -> None:
    session.drop_connection()
    wait_until(lambda: len(lines(caplog)) > 1, timeout=10, what="both lines")

    assert "the server does not answer" in lines(caplog)[0]
    assert len(lines(caplog)) == 2


def test_an_expired_session_and_the_one_that_replaces_it_are_lines_of_their_own(
    config: HaConfig, session: KazooCoordinator, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = session.session
    assert credentials is not None

    proxy.cut()
    wait_until(lambda: session.state is SessionState.SUSPENDED, timeout=10, what="the cut")
    assert close_session(config, credentials)
    proxy.heal()
    wait_until(lambda: len(lines(caplog)) > 3, timeout=15, what="the lines")  # one is of the closing

    told = [line for line in lines(caplog) if not line.startswith("closing ")]
    assert [line.split(" (")[0] for line in told] == [
        "the connection to ZooKeeper",
        f"the ZooKeeper session 0x{credentials.session_id:x} with {proxy.hosts} has expired",
        "connected to ZooKeeper",
    ]
    assert told[2].endswith("is a new one")


def test_a_close_during_a_cut_adds_no_line(
    session: KazooCoordinator, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.cut()
    wait_until(lambda: lines(caplog), timeout=10, what="the cut")

    session.close()

    assert len(lines(caplog)) == 1


def test_no_server_at_all_is_an_error_and_no_line(config: HaConfig, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    with pytest.raises(Exception, match="no ZooKeeper server"):
        KazooCoordinator.connect(config.model_copy(update={"zookeeper": "127.0.0.1:1"}), timeout=1)

    assert lines(caplog) == []


def test_the_change_is_heard_before_it_is_logged(
    session: Coordinator, proxy: FaultProxy, caplog: pytest.LogCaptureFixture
) -> None:
    """A log that blocks must not keep it from who has to act on it."""
    logged: list[int] = []
    session.add_state_listener(lambda _: logged.append(len(lines(caplog))))

    proxy.cut()
    wait_until(lambda: logged, timeout=10, what="the listener")

    assert logged[0] == 0


def test_a_host_name_that_does_not_resolve_is_named_with_the_resolvers_reason() -> None:
    config = HaConfig.build(zookeeper="127.0.0.1:2181,zk.invalid:2181", storage_root="file:///s")

    reason = unresolved(config)

    assert reason.startswith("zk.invalid: ")
    assert len(reason) > len("zk.invalid: ")
    assert "127.0.0.1" not in reason
