"""Links and proxies refuse as a real port does: what is accepted and hung up is not tried again by its client."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.testing._gate import Gate
from airflow_provider_ha.testing.proxy import FaultProxy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ensemble.links import Link


HOST = "127.0.0.1"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def a_link(stack: ExitStack, target: int) -> Link:
    link = Link(target)
    stack.callback(link.close)
    return link


def refuses(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:
        return False  # the listener was closed with this connection in its queue; the next one is refused
    return False


def test_a_link_to_a_member_that_does_not_listen_refuses(stack: ExitStack) -> None:
    link = a_link(stack, free_port())

    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, link.port), timeout=5)


def test_a_link_accepts_once_the_member_listens_and_refuses_again_after_its_end(stack: ExitStack) -> None:
    target = free_port()
    link = a_link(stack, target)

    with socket.create_server((HOST, target)) as member:
        wait_until(lambda: not refuses(link.port), timeout=10, what="the link to accept")
        member.accept()[0].close()

    wait_until(lambda: refuses(link.port), timeout=10, what="the link to refuse")


def test_a_silent_link_accepts_as_a_route_without_an_answer_does(stack: ExitStack) -> None:
    link = a_link(stack, free_port())

    link.silence()

    assert not refuses(link.port)


def test_a_gate_that_is_shut_keeps_its_port(stack: ExitStack) -> None:
    gate = Gate(lambda: False)
    stack.callback(gate.close)

    with pytest.raises(OSError, match="in use"):
        stack.enter_context(socket.socket()).bind((HOST, gate.port))


def test_a_proxy_that_is_cut_refuses_until_it_is_healed(stack: ExitStack) -> None:
    server = stack.enter_context(socket.create_server((HOST, 0)))
    proxy = stack.enter_context(FaultProxy(f"{HOST}:{server.getsockname()[1]}"))
    port = int(proxy.hosts.rpartition(":")[2])

    proxy.cut()
    while_cut = refuses(port)
    proxy.heal()

    assert (while_cut, refuses(port)) == (True, False)


def test_a_proxy_of_a_server_that_is_dead_refuses(stack: ExitStack) -> None:
    proxy = stack.enter_context(FaultProxy(f"{HOST}:{free_port()}"))

    assert refuses(int(proxy.hosts.rpartition(":")[2]))
