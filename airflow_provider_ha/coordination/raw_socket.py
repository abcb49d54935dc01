"""Requests to ZooKeeper over plain sockets, without kazoo: connection, close of a session, server tick.

A session is closed only after proof of its owner's death (design, contract 10): attaching to a session closes its
owner's connection even before the password is checked, and a closed session frees the lock while its owner may still
write elsewhere. The close is two frames (Connect with session id and password, CloseSession), written by hand: kazoo
would open a new session when the old one is gone, and keep it alive.

ZooKeeper's protocol does not contain the server tick. The four-letter word ``conf`` returns it, but servers refuse that
word by default; the operator of the ensemble then checks the tick, as the docs describe.
"""

from __future__ import annotations

import contextlib
import logging
import re
import socket
import ssl
import struct

from airflow_provider_ha.config import HaConfig, TlsOptions
from airflow_provider_ha.coordination.coordinator import SessionCredentials


_DEFAULT_PORT = 2181


def addresses(config: HaConfig) -> list[tuple[str, int]]:
    """Return hosts and ports of the servers."""
    return [_address(host) for host in config.zookeeper.split(",")]


def unresolved(config: HaConfig) -> str:
    """Return the host names that do not resolve here, with the resolver's reason; empty if all resolve."""
    reasons = []
    for host, port in addresses(config):
        try:
            socket.getaddrinfo(host, port)
        except OSError as error:  # noqa: PERF203  # each name separately
            reasons.append(f"{host}: {error.strerror or error}")
    return "; ".join(reasons)


def open_socket(
    tls: TlsOptions | None, address: tuple[str, int], timeout: float, *, name: str | None = None
) -> socket.socket:
    """Connect to a server.

    :param name: Name that the server's certificate must be for; by default that of the address.
    :raises OSError: The server does not answer, or one side refuses the other's certificate.
    """
    plain = socket.create_connection(address, timeout)
    if tls is None:
        return plain
    try:
        return _context(tls).wrap_socket(plain, server_hostname=name or address[0])
    except BaseException:
        plain.close()
        raise


def receive(connection: socket.socket, length: int) -> bytes:
    """Return the next *length* bytes.

    :raises EOFError: The other end closed the connection before.
    """
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise EOFError("the server closed the connection")
        data += part
    return data


def hang_up(connection: socket.socket) -> None:
    """End a connection, and wake the thread that reads from it. Idempotent."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _context(tls: TlsOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_hostname
    if tls.ca_file:
        context.load_verify_locations(tls.ca_file)  # replace the system's CAs, which may not vouch for an ensemble
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.cert_file:
        password = tls.key_password
        context.load_cert_chain(tls.cert_file, tls.key_file, password.get_secret_value() if password else None)
    return context


def _address(host: str) -> tuple[str, int]:
    name, colon, port = host.rpartition(":")
    return (name.strip("[]"), int(port)) if colon else (host, _DEFAULT_PORT)


_log = logging.getLogger(__name__)

_LENGTH = struct.Struct("!i")
_CONNECT = struct.Struct("!iqiq")  # protocol version, last zxid seen, timeout in ms, session id
_GREETING = struct.Struct("!iiq")  # protocol version, granted timeout in ms (0: no such session), session id
_REQUEST = struct.Struct("!ii")  # xid, operation
_REPLY = struct.Struct("!iqi")  # xid, zxid, error
_CLOSE_SESSION = -11
_MAX_FRAME = 1024 * 1024


def close_session(config: HaConfig, credentials: SessionCredentials, *, timeout: float = 2.0) -> bool:
    """Close a session whose owner is proven dead.

    :param config: The ensemble.
    :param credentials: Session id and password, as recorded by the dead process.
    :param timeout: Seconds for each server.
    :returns: True when this call closed it. False when the session is closed already or has another password (both look
        the same), or without a response; then the session ends by its timeout.
    """
    for address in addresses(config):
        try:
            with open_socket(config.tls, address, timeout) as connection:
                closed = _close_by(connection, credentials, timeout)
        except (OSError, EOFError, struct.error) as error:
            _log.warning("closing %s: %s:%d does not answer (%s)", credentials, *address, error)
            continue
        _log.info("closing %s at %s:%d: %s", credentials, *address, "closed" if closed else "it was gone")
        return closed
    return False


def _close_by(connection: socket.socket, credentials: SessionCredentials, timeout: float) -> bool:
    greeting = _exchange(connection, _connect_request(credentials, timeout))
    _, granted, session_id = _GREETING.unpack_from(greeting)
    if granted <= 0 or session_id != credentials.session_id:
        return False
    reply = _exchange(connection, _REQUEST.pack(1, _CLOSE_SESSION))
    _, _, error = _REPLY.unpack_from(reply)
    return bool(error == 0)


def _connect_request(credentials: SessionCredentials, timeout: float) -> bytes:
    head = _CONNECT.pack(0, 0, int(timeout * 1000), credentials.session_id)
    read_only = b"\0"
    return head + _LENGTH.pack(len(credentials.password)) + credentials.password + read_only


def _exchange(connection: socket.socket, frame: bytes) -> bytes:
    connection.sendall(_LENGTH.pack(len(frame)) + frame)
    (length,) = _LENGTH.unpack(receive(connection, _LENGTH.size))
    if not 0 < length <= _MAX_FRAME:
        raise EOFError(f"a frame of {length} bytes is not ZooKeeper's")
    return receive(connection, length)


_TICK = re.compile(rb"^tickTime=(\d+)", re.MULTILINE)
_LONGEST_ANSWER = 64 * 1024


def server_tick(config: HaConfig, *, timeout: float = 1.0) -> float | None:
    """Return the longest tick of all servers, in seconds; ``None`` if no server reports it.

    :param timeout: Seconds for each server.
    """
    found = [_TICK.search(_ask(config, address, timeout)) for address in addresses(config)]
    return max((int(match[1]) / 1000 for match in found if match), default=None)


def check_tick(config: HaConfig) -> None:
    """Check that the servers' tick fits the heartbeats, if the servers report it.

    :raises ConfigurationError: It does not fit.
    """
    tick = server_tick(config)
    if tick is not None:
        config.timings.check_tick(tick)


def _ask(config: HaConfig, address: tuple[str, int], timeout: float) -> bytes:
    answer = b""
    try:
        with open_socket(config.tls, address, timeout) as connection:
            connection.sendall(b"conf")
            while len(answer) < _LONGEST_ANSWER and (part := connection.recv(4096)):
                answer += part
    except OSError:
        return answer  # a closed word may also end in a closed connection
    return answer
