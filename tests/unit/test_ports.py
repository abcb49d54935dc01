"""Ports for servers that have to be told theirs before they start."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from airflow_provider_ha.coordination import embedded
from airflow_provider_ha.coordination.embedded import free_port, free_ports, is_free


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


def test_where_the_system_takes_all_ports_one_of_those_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "range").write_text("1024\t65535\n", encoding="ascii")
    monkeypatch.setattr(embedded, "_OUTGOING", tmp_path / "range")

    assert is_free(free_port())


def test_where_the_system_does_not_tell_its_range_the_usual_one_is_avoided(
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
