"""Offsets of Kafka brokers. The only module that imports confluent-kafka; translates its errors.

Invariant: a missing topic or partition is a result; every other failure is an error. The calls have no side effects: a
describe creates no topic, and consumer groups are not joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError  # the built-in one only since Python 3.11
from pathlib import Path
from typing import Any, TypeVar

from airflow_provider_ha.checkpoints.connectors.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.connectors.kafka_properties import read_properties
from airflow_provider_ha.errors import ConfigurationError, RestoreUnknownError


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
    :param timeout: Seconds for each request.
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
