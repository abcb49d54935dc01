"""Closing the session of a dead process from outside, so that its lock is free before the session timeout.

Only after proof of death (design, contract 10): attaching to a session closes its owner's connection even before the
password is looked at, and a closed session frees the lock while its owner may still write elsewhere.

The protocol is two frames (Connect with session id and password, CloseSession), written here by hand: kazoo would open
a new session when the old one is gone, and keep it alive.
"""

from __future__ import annotations

import logging
import socket
import struct

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import SessionCredentials
from airflow_provider_ha.coordination.raw_socket import addresses, open_socket, receive


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
