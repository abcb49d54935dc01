"""Client properties file for the Kafka login: checks of its owner and content.

The path comes from the author of a job, and the user who plans a restore opens the file. Some properties of librdkafka
run code as that user: ``sasl.kerberos.kinit.cmd`` is a shell command, into which the principal and the keytab are
pasted; ``plugin.library.paths``, ``ssl.engine.location`` and ``ssl.providers`` load shared objects. So only properties
known to be data are accepted, and only from a file that the reading user owns.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from airflow_provider_ha.errors import ConfigurationError


_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ROOT = 0
_MOST = 1 << 20  # bytes: a chain of certificates takes some ten thousand

# CONFIGURATION.md of librdkafka 2.16: properties that a client needs to reach brokers and to log in.
_ALLOWED = frozenset(
    {
        "broker.address.family",
        "broker.address.ttl",
        "client.dns.lookup",
        "connections.max.idle.ms",
        "enable.ssl.certificate.verification",
        "https.ca.location",
        "https.ca.pem",
        "receive.message.max.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.kerberos.keytab",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal",
        "sasl.kerberos.service.name",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "socket.connection.setup.timeout.ms",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.timeout.ms",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.cipher.suites",
        "ssl.crl.location",
        "ssl.curves.list",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.sigalgs.list",
    }
)
_ALLOWED_PREFIX = "sasl.oauthbearer."  # endpoints, ids, secrets, files of assertions
# Pasted into a shell command: only characters without a special meaning in a shell.
_IN_SHELL = frozenset({"sasl.kerberos.keytab", "sasl.kerberos.principal", "sasl.kerberos.service.name"})
_PLAIN = re.compile(r"[A-Za-z0-9_@./:+-]*")
_NAME = re.compile(r"[a-z][a-z0-9._]*")


def read_properties(path: Path | None) -> dict[str, str]:
    """Return the client properties of a file of ``name=value`` lines; empty without a file.

    :raises ConfigurationError: It cannot be read, belongs to another user, is readable by others, has a line that is
        not
        a property, or a property not known to be data. The message has no values.
    """
    if path is None:
        return {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block the open
        with os.fdopen(descriptor, encoding="utf-8") as lines:
            _check_owner(path, os.fstat(lines.fileno()))
            return dict(_property(path, number, line) for number, line in enumerate(lines, 1) if _says_something(line))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise ConfigurationError(
            f"Kafka's client properties {path} cannot be read: {reason}", next_step="Name another file"
        ) from error


def _check_owner(path: Path, status: os.stat_result) -> None:
    if status.st_uid not in {os.geteuid(), _ROOT}:
        raise ConfigurationError(
            f"Kafka's client properties {path} belong to user {status.st_uid}, and user {os.geteuid()} reads them",
            next_step=f"Read them as their owner, or check and name your own copy: chmod 600 {path}",
        )
    if status.st_mode & _OTHERS:
        raise ConfigurationError(
            f"Kafka's client properties {path} can be read by others", next_step=f"chmod 600 {path}"
        )
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MOST:
        raise ConfigurationError(
            f"Kafka's client properties {path} are not a regular file, or have more than {_MOST:,} bytes",
            next_step="Name another file",
        )


def _property(path: Path, number: int, line: str) -> tuple[str, str]:
    name, separator, value = (part.strip() for part in line.partition("="))
    if not separator or not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"line {number} of Kafka's client properties {path} is not name=value", next_step="Correct it"
        )
    if name not in _ALLOWED and not name.startswith(_ALLOWED_PREFIX):
        raise ConfigurationError(
            f"line {number} of Kafka's client properties {path} sets {name!r}, which is not an accepted "
            "property: unknown properties and those that run or load code are refused",
            next_step="Remove the line; a login needs security.protocol, ssl.* and sasl.* alone",
        )
    if name in _IN_SHELL and not _PLAIN.fullmatch(value):
        raise ConfigurationError(
            f"line {number} of Kafka's client properties {path} sets {name!r} to a value that a shell interprets",
            next_step="Use letters, digits and _ @ . / : + - only",
        )
    return name, value


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", "!"))
