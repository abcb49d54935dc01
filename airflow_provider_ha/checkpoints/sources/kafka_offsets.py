"""Offsets of Kafka: rows after a cut, requests to the brokers, and the client properties of the login.

Invariant: a missing topic or partition is a result; every other failure is an error. The calls have no side effects: a
describe creates no topic, and consumer groups are not joined.

Spark's offset log is authoritative for the rows read: consumer groups are not used. An offset there is the next one to
read, so a partition whose earliest offset equals it has lost no row, and unread rows are not part of the replay.

The path comes from the author of a job, and the user who plans a restore opens the file. Some properties of librdkafka
run code as that user: ``sasl.kerberos.kinit.cmd`` is a shell command, into which the principal and the keytab are
pasted; ``plugin.library.paths``, ``ssl.engine.location`` and ``ssl.providers`` load shared objects. So only properties
known to be data are accepted, and only from a file that the reading user owns.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the built-in one only since Python 3.11
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import StringConstraints, TypeAdapter, ValidationError

from airflow_provider_ha.checkpoints.plan_model import KafkaPartition
from airflow_provider_ha.errors import ConfigurationError, RestoreUnknownError


Partition = tuple[str, int]
"""Topic and number."""

# {"topic": {"0": 17}}: written by Kafka's source, and by no other that we know.
_OFFSETS: TypeAdapter[dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]] = TypeAdapter(
    dict[str, dict[Annotated[str, StringConstraints(pattern=r"^[0-9]+$")], int]]
)


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """Offsets of a partition at the brokers.

    :param latest: Offset of its next row.
    :param topic_id: Id of its topic; empty where the brokers have no ids.
    """

    earliest: int
    latest: int
    topic_id: str = ""


def parse_kafka_offset(offset: str | None) -> dict[Partition, int] | None:
    """Return partition -> next offset of a recorded Kafka offset; ``None`` for another source's."""
    try:
        topics = _OFFSETS.validate_json(offset or "null")
    except ValidationError:
        return None
    return {(topic, int(number)): reached for topic, of in topics.items() for number, reached in of.items()} or None


def partitions_after(
    start: Mapping[Partition, int],
    end: Mapping[Partition, int],
    held: Mapping[Partition, PartitionOffsets],
    ids: Mapping[str, str] | None = None,
) -> tuple[KafkaPartition, ...]:
    """Return the rows of each partition that are needed after the cut, and the existing ones.

    :param start: Next offset at the cut, by partition.
    :param end: Next offset after the replay, by partition; the same as *start* without a replay.
    :param held: The brokers' offsets of the existing partitions. Spark reads a new partition from its beginning, which
        must be offset 0.
    :param ids: Topic ids at the time the rows were read, by topic.
    """
    known = sorted({*start, *end, *(partition for partition in held if partition not in end)})
    return tuple(
        _after(each, start.get(each, 0), end.get(each, start.get(each, 0)), held.get(each), (ids or {}).get(each[0]))
        for each in known
    )


def rows_between(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> int:
    """Return the number of rows between two recorded offsets."""
    return sum(max(0, reached - start.get(partition, 0)) for partition, reached in end.items())


def _after(
    partition: Partition, start: int, end: int, held: PartitionOffsets | None, had: str | None
) -> KafkaPartition:
    topic, number = partition
    replayed = max(0, end - start)
    replaced: bool | None = False
    if held is None:
        # The recorded rows are gone with the partition; the rows that were never read can no longer be counted.
        earliest = latest = None
        gone, unread = replayed, 0
    else:
        earliest, latest = held.earliest, held.latest
        if had is not None:
            replaced = held.topic_id != had if held.topic_id else None  # guard: topics-are-known-by-their-length
        gone = max(0, earliest - start) if latest >= end and not replaced else replayed
        unread = max(0, latest - max(end, earliest))
    return KafkaPartition(
        topic=topic,
        partition=number,
        start=start,
        end=end,
        earliest=earliest,
        latest=latest,
        replayed=replayed,
        gone=gone,
        unread=unread,
        replaced=replaced,
    )


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
            f"line {number} of Kafka's client properties {path} sets {name!r}, which is not an accepted property: "
            "unknown properties, and properties that run or load code, are refused",
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


ANSWER_SECONDS = 20.0
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # sixteen zero bytes: brokers before Kafka 2.8
_Answer = TypeVar("_Answer")


def held_offsets(
    servers: str, topics: Collection[str], *, properties: Path | None = None, timeout: float = ANSWER_SECONDS
) -> dict[Partition, PartitionOffsets]:
    """Return the brokers' offsets of *topics*; a missing topic has no partitions in the result.

    :param servers: ``host:port,host:port``.
    :param properties: File of client properties in librdkafka's names, of this user and readable by no other: the
        login.
    :raises RestoreUnknownError: No broker answered, or it refused.
    :raises ConfigurationError: The client library is not installed, or the properties cannot be used.
    """
    return _asked(servers, topics, properties, lambda client: _offsets(client, topics, timeout))


def topic_ids(
    servers: str, topics: Collection[str], *, properties: Path | None = None, timeout: float = ANSWER_SECONDS
) -> dict[str, str]:
    """Return the topic ids by topic, for existing topics that have one; one request; raises as held_offsets."""
    described = _asked(servers, topics, properties, lambda client: _described(client, topics, timeout))
    return {topic: found for topic, each in described.items() if (found := _id(each))}


def _asked(servers: str, topics: Collection[str], properties: Path | None, ask: Callable[[Any], _Answer]) -> _Answer:
    try:
        from confluent_kafka import KafkaError, KafkaException  # an extra
        from confluent_kafka.admin import AdminClient  # the same
    except ImportError as error:
        raise ConfigurationError(
            f"Kafka at {servers} cannot be queried: confluent-kafka is not installed",
            next_step="pip install 'airflow-provider-ha[kafka]'",
        ) from error
    conf = read_properties(properties) | {"bootstrap.servers": servers, "log_level": "2", "client.id": "spark-ha"}
    try:
        return ask(AdminClient(dict(conf)))
    except FutureTimeoutError as error:
        raise _unanswered(servers, topics, "no answer in time") from error
    except KafkaException as error:
        reason = error.args[0].str()
        if error.args[0].code() == KafkaError._INVALID_ARG:  # noqa: SLF001  # librdkafka's code for a wrong property
            raise ConfigurationError(
                f"Kafka at {servers} cannot be queried: {reason}", next_step="Correct the client properties"
            ) from error
        raise _unanswered(servers, topics, reason) from error


def _described(client: Any, topics: Collection[str], timeout: float) -> dict[str, Any]:
    """Return the descriptions by topic, for existing topics."""
    from confluent_kafka import TopicCollection  # an extra

    asked = client.describe_topics(TopicCollection(list(topics)), request_timeout=timeout).items()
    return {topic: found for topic, future in asked if (found := _unless_gone(future, timeout)) is not None}


def _id(described: Any) -> str:
    found = str(described.topic_id)
    return "" if found == _NO_ID else found


def _offsets(client: Any, topics: Collection[str], timeout: float) -> dict[Partition, PartitionOffsets]:
    from confluent_kafka import TopicPartition  # an extra
    from confluent_kafka.admin import OffsetSpec  # the same

    described = _described(client, topics, timeout)
    found: list[Partition] = [(topic, each.id) for topic, of in described.items() for each in of.partitions]
    if not found:
        return {}

    def ends(spec: Any) -> Mapping[Any, Future[Any]]:
        offsets: Mapping[Any, Future[Any]] = client.list_offsets(
            {TopicPartition(*each): spec for each in found}, request_timeout=timeout
        )
        return offsets

    earliest, latest = ends(OffsetSpec.earliest()), ends(OffsetSpec.latest())
    return {
        (each.topic, each.partition): PartitionOffsets(
            future.result(timeout).offset, latest[each].result(timeout).offset, _id(described[each.topic])
        )
        for each, future in earliest.items()
    }


def _unanswered(servers: str, topics: Collection[str], reason: str) -> RestoreUnknownError:
    return RestoreUnknownError(
        f"Kafka at {servers} did not return the offsets of {', '.join(sorted(topics))}: {reason}",
        next_step="Check that it is up, reachable from here, and that this client may describe the topics",
    )


def _unless_gone(future: Future[Any], timeout: float) -> Any:
    """Return the response for a topic; ``None`` if the topic does not exist."""
    from confluent_kafka import KafkaError, KafkaException  # an extra

    try:
        return future.result(timeout)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
