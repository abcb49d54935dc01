"""Closing a session from outside, at a server that is no ZooKeeper or holds another session: nothing was closed."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.coordination.coordinator import SessionCredentials
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.errors import NotConnectedError


CREDENTIALS = SessionCredentials(session_id=7, password=b"p" * 16)
Server = Callable[[bytes], HaConfig]


@pytest.fixture
def server() -> Iterator[Server]:
    """Starts a server that sends the same bytes to its first client for any request."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threads: list[threading.Thread] = []

        def answer(data: bytes) -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(data)
                connection.recv(4096)

        def start(data: bytes) -> HaConfig:
            threads.append(threading.Thread(target=answer, args=(data,)))
            threads[0].start()
            return HaConfig.build(
                zookeeper=f"127.0.0.1:{listener.getsockname()[1]}", storage_root="file:///nowhere", cluster_id="c"
            )

        yield start
        for thread in threads:
            thread.join()


def greeting(granted: int, session_id: int) -> bytes:
    body = struct.pack("!iiq", 0, granted, session_id) + struct.pack("!i", 16) + b"p" * 16
    return struct.pack("!i", len(body)) + body


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(struct.pack("!i", 1 << 30), id="a-frame-that-is-too-long"),
        pytest.param(struct.pack("!i", 0), id="an-empty-frame"),
        pytest.param(b"HT", id="an-answer-that-is-cut", marks=pytest.mark.slow),
        pytest.param(greeting(0, 0), id="no-such-session"),
        pytest.param(greeting(4000, 8), id="another-session"),
    ],
)
def test_no_session_is_closed(answer: bytes, server: Server) -> None:
    config = server(answer)

    assert close_session(config, CREDENTIALS, timeout=5) is False


def test_a_host_that_the_name_service_does_not_know_is_named_with_its_reason() -> None:
    config = HaConfig.build(zookeeper="zk1.invalid:2181,127.0.0.1:1", storage_root="file:///data")

    with pytest.raises(NotConnectedError) as told:
        KazooCoordinator.connect(config, timeout=0.2)

    assert "zk1.invalid: " in told.value.message
    assert "127.0.0.1" not in told.value.message.partition("(")[2]
