"""``spark-ha checkpoint plan`` of a path, or of a URI of S3 or HDFS, without a cluster."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from airflow_provider_ha.checkpoints.model import QuerySink, RestorePlan
from airflow_provider_ha.checkpoints.restore.directory_plan import plan_directory, sink_at
from airflow_provider_ha.checkpoints.sinks.sink_registry import sink_named
from airflow_provider_ha.checkpoints.sources.kafka_offsets import Partition, PartitionOffsets, held_offsets
from airflow_provider_ha.checkpoints.spark.places import directory_at, is_hdfs, is_s3, output_place, s3_uri
from airflow_provider_ha.cli.savepoint_target import path_of
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.query_names import is_query_directory, own_name


def is_place(target: str) -> bool:
    """Whether a word names a checkpoint by its place; a word without a slash is a job id.

    :raises ConfigurationError: It is a URI of a file system that this process cannot read.
    """
    return is_s3(target) or is_hdfs(target) or path_of(target) is not None


def plan_of_place(
    target: str,
    *,
    batch: int | None,
    sinks: list[str],
    kafka_bootstrap: list[str],
    kafka_properties: str | None,
    accept_unverified: list[str],
    repeatable: list[str],
) -> RestorePlan:
    """Return the plan to continue from the checkpoint at *target*.

    :raises ConfigurationError: An option names another query, or is repeated.
    :raises HaError: As ``plan_directory``.
    """
    place = _named(target)
    query = place.rpartition("/")[2] or place
    names = {query, own_name(query)} if is_query_directory(query) else {query}
    servers = _one("--kafka-bootstrap", names, kafka_bootstrap)
    for option, named in (("--accept-unverified", accept_unverified), ("--repeatable", repeatable)):
        if strange := sorted(set(named) - names):
            raise ConfigurationError(
                f"{option} names {strange}, but the query is {query}", next_step="Correct the name"
            )

    def ask(_: str, topics: frozenset[str]) -> Mapping[Partition, PartitionOffsets]:
        if servers is None:
            raise ConfigurationError(
                f"the brokers of {', '.join(sorted(topics))} are not configured, and a checkpoint does not name them",
                next_step="Name them (--kafka-bootstrap host:port)",
            )
        return held_offsets(servers, topics, properties=Path(kafka_properties) if kafka_properties else None)

    return plan_directory(
        query,
        directory_at(place),
        sink=_sink(_one("--sink", names, sinks)),
        now=SystemClock().now(),
        ask_kafka=ask,
        batch=batch,
        accept_unverified=(query,) if accept_unverified else (),
        repeatable=bool(repeatable),
    )


def _named(target: str) -> str:
    if is_s3(target):
        return s3_uri(target)
    return output_place(target) if is_hdfs(target) else str((path_of(target) or Path(target)).resolve())


def _sink(said: str | None) -> QuerySink:
    if said is not None and is_s3(said):
        return sink_at(s3_uri(said))
    return sink_named(said)


def _one(option: str, names: Collection[str], values: list[str]) -> str | None:
    if len(values) > 1:
        raise ConfigurationError(f"{option} is given {len(values)} times for one query", next_step="Give it once")
    named = next((name for name in names if values and values[0].startswith(f"{name}=")), None)
    return values[0].removeprefix(f"{named}=") if values else None
