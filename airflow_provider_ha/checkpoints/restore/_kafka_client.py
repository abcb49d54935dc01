"""The only module that imports confluent-kafka: asks brokers which offsets they have, and translates their errors.

Invariant: "there is no such topic or partition" is an answer; everything else that goes wrong is none. Nothing is made:
a describe creates no topic, and no consumer group is joined.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the built-in one only since Python 3.11
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.restore.kafka_offsets import Held, Partition
from airflow_provider_ha.errors import ConfigurationError, RestoreUnknownError


ANSWER_SECONDS = 20.0
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def held_offsets(
    servers: str, topics: Collection[str], *, properties: Path | None = None, timeout: float = ANSWER_SECONDS
) -> dict[Partition, Held]:
    """Return what the brokers have of *topics*; a topic that is gone has no partition in it.

    :param servers: ``host:port,host:port``.
    :param properties: File of client properties in librdkafka's names, readable by its owner only: what is needed to
        log in.
    :param timeout: Seconds for each of the questions.
    :raises RestoreUnknownError: No broker answered, or it did not want to: nothing is known about the topics.
    :raises ConfigurationError: The client library is not installed, or the properties cannot be used.
    """
    try:
        from confluent_kafka import KafkaError, KafkaException  # an extra
    except ImportError as error:
        raise ConfigurationError(
            f"Kafka at {servers} cannot be asked: confluent-kafka is not installed",
            next_step="pip install 'airflow-provider-ha[kafka]'",
        ) from error
    conf = read_properties(properties) | {"bootstrap.servers": servers, "log_level": "2", "client.id": "spark-ha"}
    try:
        return _ask(conf, topics, timeout)
    except FutureTimeoutError as error:
        raise _unanswered(servers, topics, "no answer in time") from error
    except KafkaException as error:
        reason = error.args[0].str()
        if error.args[0].code() == KafkaError._INVALID_ARG:  # noqa: SLF001  # librdkafka's code for a wrong property
            raise ConfigurationError(
                f"Kafka at {servers} cannot be asked: {reason}", next_step="Correct the client properties"
            ) from error
        raise _unanswered(servers, topics, reason) from error


def _ask(conf: Mapping[str, str], topics: Collection[str], timeout: float) -> dict[Partition, Held]:
    from confluent_kafka import TopicCollection, TopicPartition  # an extra
    from confluent_kafka.admin import AdminClient, OffsetSpec  # the same

    client = AdminClient(dict(conf))
    found: list[Partition] = []
    for topic, future in client.describe_topics(TopicCollection(list(topics)), request_timeout=timeout).items():
        described = _unless_gone(future, timeout)
        found += [(topic, each.id) for each in described.partitions] if described is not None else []
    if not found:
        return {}

    def ends(spec: Any) -> Mapping[Any, Future[Any]]:
        offsets: Mapping[Any, Future[Any]] = client.list_offsets(
            {TopicPartition(*each): spec for each in found}, request_timeout=timeout
        )
        return offsets

    earliest, latest = ends(OffsetSpec.earliest()), ends(OffsetSpec.latest())
    return {
        (each.topic, each.partition): Held(future.result(timeout).offset, latest[each].result(timeout).offset)
        for each, future in earliest.items()
    }


def _unanswered(servers: str, topics: Collection[str], reason: str) -> RestoreUnknownError:
    return RestoreUnknownError(
        f"Kafka at {servers} did not say which offsets it has of {', '.join(sorted(topics))}: {reason}",
        next_step="See that it is up, reachable from here, and that this client may describe the topics",
    )


def read_properties(path: Path | None) -> dict[str, str]:
    """Return the client properties of a file of ``name=value`` lines; nothing without a file.

    :raises ConfigurationError: It cannot be read, others can read it too, or a line is no property; no value is named.
    """
    if path is None:
        return {}
    try:
        with path.open(encoding="utf-8") as lines:
            if os.fstat(lines.fileno()).st_mode & _OTHERS:
                raise ConfigurationError(
                    f"Kafka's client properties {path} can be read by others", next_step=f"chmod 600 {path}"
                )
            return dict(_property(path, number, line) for number, line in enumerate(lines, 1) if _says_something(line))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise ConfigurationError(
            f"Kafka's client properties {path} cannot be read: {reason}", next_step="Name another file"
        ) from error


def _property(path: Path, number: int, line: str) -> tuple[str, str]:
    name, separator, value = (part.strip() for part in line.partition("="))
    if not separator or not name:
        raise ConfigurationError(
            f"line {number} of Kafka's client properties {path} is no name=value", next_step="Correct it"
        )
    return name, value


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith(("#", "!"))


def _unless_gone(future: Future[Any], timeout: float) -> Any:
    """Return the answer about a topic; ``None`` for: there is none."""
    from confluent_kafka import KafkaError, KafkaException  # an extra

    try:
        return future.result(timeout)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
