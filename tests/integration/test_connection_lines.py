"""One line in the log for each change of a connection to a real ZooKeeper, and none for an end in order."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import Coordinator, SessionState
from airflow_provider_ha.coordination.raw_socket import close_session, unresolved
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until


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
