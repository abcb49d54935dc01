"""Ports of this host for servers that need a fixed port before they start.

Invariant: the ports are outside of the range that the system uses for outgoing connections. A port of that range may be
taken by any connection of any process before the server listens on it.
"""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack, suppress
from pathlib import Path


_HOST = "127.0.0.1"
_LOWEST = 10_000
_TRIES = 1000
_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")
_DEFAULT_OUTGOING = 32_768


def free_ports(count: int) -> list[int]:
    """Return *count* different ports of the loopback that have no listener now.

    :raises OSError: There are not as many.
    """
    with ExitStack() as held:
        return [held.enter_context(_probe()).getsockname()[1] for _ in range(count)]


def free_port() -> int:
    """Return a port of the loopback that has no listener now; raises as :func:`free_ports` does."""
    return free_ports(1)[0]


def is_free(port: int) -> bool:
    """Return whether *port* of the loopback has no listener."""
    with suppress(OSError), _bound(port):
        return True
    return False


def _probe() -> socket.socket:
    others = range(_LOWEST, _first_outgoing())
    for port in random.sample(others, min(len(others), _TRIES)):
        with suppress(OSError):
            return _held(port)
    # This host gives all ports to outgoing connections, or each has a listener.
    return _held(0)


def _first_outgoing() -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(_OUTGOING.read_text().split()[0])
    return _DEFAULT_OUTGOING


def _held(port: int) -> socket.socket:
    """Bind a port and listen: without a listener, two sockets may be bound to one port (``SO_REUSEADDR``)."""
    probe = _bound(port)
    try:
        probe.listen()
    except BaseException:
        probe.close()
        raise
    return probe


def _bound(port: int) -> socket.socket:
    probe = socket.socket()
    try:
        # As servers do: a connection that has just ended is not in the way.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((_HOST, port))
    except BaseException:
        probe.close()
        raise
    return probe
