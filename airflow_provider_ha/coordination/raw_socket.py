"""Connections to ZooKeeper, plain or by TLS, as the cluster says."""

from __future__ import annotations

import contextlib
import socket
import ssl

from airflow_provider_ha.config import HaConfig, TlsOptions


_DEFAULT_PORT = 2181


def addresses(config: HaConfig) -> list[tuple[str, int]]:
    """Return hosts and ports of the servers."""
    return [_address(host) for host in config.zookeeper.split(",")]


def unresolved(config: HaConfig) -> str:
    """Return which host names are not known here, with the reason of the name service; empty when all are."""
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

    :param name: Name that its certificate must be for; by default that of the address.
    :raises OSError: It does not answer, or its certificate or ours is not accepted.
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

    :raises EOFError: The other end hung up before.
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
        context.load_verify_locations(tls.ca_file)  # in place of the system's, which may not vouch for an ensemble
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if tls.cert_file:
        password = tls.key_password
        context.load_cert_chain(tls.cert_file, tls.key_file, password.get_secret_value() if password else None)
    return context


def _address(host: str) -> tuple[str, int]:
    name, colon, port = host.rpartition(":")
    return (name.strip("[]"), int(port)) if colon else (host, _DEFAULT_PORT)
