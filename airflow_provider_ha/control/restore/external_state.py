"""Whom a restore plan asks beside the storage: brokers, input files, tables, notes of fenced functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.connectors._kafka_client import held_offsets
from airflow_provider_ha.checkpoints.connectors.input_files import look_for
from airflow_provider_ha.checkpoints.connectors.kafka_offsets import Partition, PartitionOffsets
from airflow_provider_ha.checkpoints.connectors.places import Reach
from airflow_provider_ha.checkpoints.restore.external_state import ExternalQueries
from airflow_provider_ha.checkpoints.restore.select import Chosen
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.spec import RestoreRequest
from airflow_provider_ha.control.restore.choices import options_of
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.ha_options import HaOptions
from airflow_provider_ha.query_names import own_name


def external_queries(
    source: JobContext, request: RestoreRequest, chosen: Chosen, *, replays: bool = True
) -> ExternalQueries:
    """Return what asks around the queries of a cut.

    :param source: The job that the cut belongs to.
    :param replays: Whether batches after the cut are executed again: then their input files are looked up.
    """
    asked = _Brokers(source, request, chosen)
    return ExternalQueries(
        ask_kafka=asked.held,
        ask_inputs=partial(look_for, reach=Reach.of(source.config)) if replays else None,
        given=lambda query: source.area.tree(source.keys.given(query)),
    )


class _Brokers:
    """Asks Kafka with what the request says, or else the options of the graph that wrote the cut."""

    def __init__(self, source: JobContext, request: RestoreRequest, chosen: Chosen) -> None:
        self._source = source
        self._request = request
        self._chosen = chosen

    def held(self, query: str, topics: frozenset[str]) -> Mapping[Partition, PartitionOffsets]:
        """Return what the brokers of *query* have of *topics*.

        :raises ConfigurationError: The brokers are not configured, or cannot be asked.
        :raises RestoreUnknownError: They do not answer.
        """
        servers = self._request.kafka_bootstrap.get(query) or self._said(
            lambda each: each.kafka_bootstrap.get(own_name(query))
        )
        cut = self._chosen.queries.get(query)
        servers = servers or (cut.sources.brokers if cut is not None else "")
        properties = self._request.kafka_properties or self._said(lambda each: each.kafka_properties)
        if not servers:
            raise ConfigurationError(
                f"the brokers of {', '.join(sorted(topics))} for query {query!r} are not configured, and the "
                "checkpoint does not name them",
                next_step=f"Name them (--kafka-bootstrap {query}=host:port)",
            )
        return held_offsets(servers, topics, properties=Path(properties) if properties else None)

    def _said(self, option: Callable[[HaOptions], str | None]) -> str | None:
        """Return what the options of the request say, or else those of the graph."""
        own = option(self._request.options) if self._request.options is not None else None
        if own is not None:
            return own
        options = options_of(self._source, self._chosen)
        return option(options) if options is not None else None
