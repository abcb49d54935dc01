"""Ports for servers, and proxies that refuse as a real port does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from airflow_provider_ha.coordination import embedded
from airflow_provider_ha.coordination.embedded import free_port, free_ports, is_free
from airflow_provider_ha.testing.proxy import FaultProxy, Gate
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.ensemble.links import Link


def test_no_port_is_one_that_the_system_gives_to_outgoing_connections() -> None:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])

    found = free_ports(50)

    assert len(set(found)) == 50
    assert max(found) < first


def test_ports_that_are_asked_for_together_are_different(monkeypatch: pytest.MonkeyPatch) -> None:
    # Few to choose from: a draw with repetition would repeat one of them.
    monkeypatch.setattr(embedded, "_LOWEST", embedded._first_outgoing() - 100)

    found = free_ports(50)

    assert len(set(found)) == 50


def test_a_port_with_a_listener_is_not_free() -> None:
    port = free_port()
    assert is_free(port)

    with socket.create_server(("127.0.0.1", port)):
        assert not is_free(port)


def test_a_look_at_a_port_does_not_keep_its_server_from_listening() -> None:
    """A gate looks fifty times a second; a look that listened itself would make the server's own listen fail."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", free_port()))

        with embedded._bound(server.getsockname()[1]):
            server.listen()


def test_a_free_port_is_found_although_the_ephemeral_range_covers_all_ports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "range").write_text("1024\t65535\n", encoding="ascii")
    monkeypatch.setattr(embedded, "_OUTGOING", tmp_path / "range")

    assert is_free(free_port())


def test_the_default_ephemeral_range_is_avoided_if_the_system_reports_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "_OUTGOING", tmp_path / "no-such-file")

    assert max(free_ports(50)) < 32_768


def test_a_port_whose_server_begins_to_listen_during_the_look_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, probes = embedded._bound, []
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", free_port()))

        def be_late(port: int) -> socket.socket:
            probes.append(bound(port))
            server.listen()
            return probes[0]

        monkeypatch.setattr(embedded, "_bound", be_late)

        with pytest.raises(OSError, match="in use"):
            embedded._held(server.getsockname()[1])

    assert probes[0].fileno() == -1, "it would keep the port from the server's next start"


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
