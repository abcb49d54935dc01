"""A query's writer before its start: pyspark's own calls, and the checks of what the script asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_ha.checkpoints.sinks.table_sinks import ICEBERG
from airflow_provider_ha.driver.context import FencedFunction
from airflow_provider_ha.driver.queries.catalog_tables import table_directory
from airflow_provider_ha.driver.queries.query_naming import name_query, refuse_taken
from airflow_provider_ha.driver.queries.script_paths import refuse_relative, take_location
from airflow_provider_ha.driver.queries.writer_notes import (
    SinkSpec,
    UnplannedRules,
    check_options,
    mode_of,
    notes,
    refuse_unfenced,
    sink_spec,
)
from airflow_provider_ha.redaction import remember, secret_values


NOOP = "noop"


@dataclass(frozen=True, slots=True)
class WriterCalls:
    """pyspark's own calls, as they were before they were patched."""

    start: Callable[..., Any]
    to_table: Callable[..., Any]
    set_format: Callable[..., Any]
    trigger: Callable[..., Any]
    foreach_batch: Callable[..., Any]
    await_termination: Callable[..., Any]
    option: Callable[..., Any]

    @classmethod
    def of_pyspark(cls) -> WriterCalls:
        """Take them from pyspark; to be called before the patches are applied."""
        from pyspark.sql.streaming.query import StreamingQuery  # inside functions only
        from pyspark.sql.streaming.readwriter import DataStreamWriter  # the same

        return cls(
            DataStreamWriter.start,
            DataStreamWriter.toTable,
            DataStreamWriter.format,
            DataStreamWriter.trigger,
            DataStreamWriter.foreachBatch,
            StreamingQuery.awaitTermination,
            DataStreamWriter.option,
        )

    def begin(self, writer: Any, path: str | None) -> Any:
        """Start the query of *writer* into its own sink; returns pyspark's handle."""
        table = notes(writer).table
        return self.start(writer, path) if table is None else self.to_table(writer, table)

    def run_once(self, writer: Any, path: str | None, *, into_noop: bool = False) -> None:
        """Execute exactly the planned batch and wait for its end; pyspark raises when the query failed.

        Trigger.Once, never AvailableNow, which would continue with new files (``docs/explanation/spark-facts.md``
        section 4).
        """
        self.trigger(writer, once=True)
        # pyspark's own wait: the patched one would note that the script has made all its starts.
        self.await_termination(self.start(writer, path) if into_noop else self.begin(writer, path))


@dataclass(frozen=True, slots=True)
class CheckedWriter:
    """A writer that may be started.

    :param path: The argument of ``start()``.
    :param root: Parent of the checkpoint locations, as the script gave it to its session; it is not used.
    """

    writer: Any
    path: str | None
    name: str
    sink: SinkSpec
    trigger: dict[str, Any]
    root: str | None = None


def check_writer(
    writer: Any, path: str | None, root: str, taken: frozenset[str], unplanned: UnplannedRules | None = None
) -> CheckedWriter:
    """Return the writer with the results of its checks.

    :param root: URI of the epoch's working directory.
    :param taken: Names of the queries that run.
    :param unplanned: Whether a real-time or continuous query may run; by default it may not.
    :raises ApplicationRefusedError: Its query cannot be made highly available as it is.
    """
    noted = notes(writer)
    session = writer._spark  # noqa: SLF001  # the session that made the writer; it has no public name
    name = name_query(writer, path)
    refuse_taken(noted, taken)
    remember(secret_values(noted.options))
    default = session.conf.get("spark.sql.sources.default")
    check_options(name, noted)
    own_root = take_location(session, root)
    if name != noted.name:  # Spark would name the directory like the query
        writer._jwrite = writer._jwrite.option("checkpointLocation", f"{root}/{name}")  # noqa: SLF001  # the patched one keeps a script's own location
    refuse_relative(f"query {name!r}", noted.sink or default, noted.options.get("path"))
    refuse_unfenced(name, noted, default, lambda key: session.conf.get(key, None))
    sink = sink_spec(name, noted, default)
    if sink.source.lower() == ICEBERG:
        sink = replace(sink, table=table_directory(session, name, noted))
    (unplanned or UnplannedRules()).check(name, noted.trigger, sink)
    sink = replace(sink, unplanned=mode_of(noted.trigger) is not None)
    if isinstance(noted.function, FencedFunction):
        noted.function.belongs_to(name)
        sink = replace(sink, repeatable=noted.function.repeatable)
    return CheckedWriter(writer, path, name, sink, noted.trigger, own_root)
