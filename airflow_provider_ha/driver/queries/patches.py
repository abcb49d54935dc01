"""Replacements of pyspark's calls for a managed script.

An unmodified script waits with ``awaitAnyTermination()`` and ends with ``spark.stop()``. Without these patches the
first query that ends lets the script continue and close the session under the others: their batch in flight is lost,
and the process exits with 0 (``docs/explanation/spark-facts.md`` section 3).

Patches only note, wait and delegate: the starter decides how a query starts.
"""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_ha.driver.queries.catalog_tables import write_to_table
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.query_stop import GracefulStop, has_ended
from airflow_provider_ha.driver.queries.script_paths import OPTION
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.script_environment import import_wheels, search_archive
from airflow_provider_ha.errors import ApplicationRefusedError


WAIT_SLICE = 0.5  # seconds that a wait stays inside the JVM before it checks for a stop
OWN_STOP_SECONDS = 600.0  # for the batch in flight, when the script itself stops a query


class Starter(Protocol):
    """The implementation behind a patched ``start()``."""

    def start(self, writer: Any, path: str | None) -> Any:
        """Start the query of *writer*; return its handle."""


class PreparedSession(Protocol):
    """A session that was made before the script runs."""

    def fits(self, wanted: Mapping[str, Any] | None) -> bool:
        """Return whether a script that sets this conf may have it; ``None`` for a script that makes its own context."""

    def close(self) -> None:
        """Stop it."""


class Patches:
    """Installs the patched calls in pyspark, for the lifetime of the process.

    :param starter: May be replaced between two runs of the script (the drain has its own).
    """

    def __init__(self, lifecycle: Lifecycle, registry: QueryRegistry, starter: Starter) -> None:
        self.lifecycle = lifecycle
        self.registry = registry
        self.starter = starter
        self.spare: PreparedSession | None = None
        self._left: Callable[[], None] | None = None  # ends the session that the script has stopped
        self._stops = False
        self._applied = False

    def lead(self, lifecycle: Lifecycle, registry: QueryRegistry, starter: Starter) -> None:
        """Serve the driver of a run from now on, after a standby driver has applied the patches."""
        self.lifecycle, self.registry, self.starter = lifecycle, registry, starter

    def apply(self) -> None:
        """Patch pyspark, once."""
        if self._applied:
            return
        self._applied = True
        from pyspark import SparkContext  # pyspark is imported inside functions
        from pyspark.sql import SparkSession  # the same
        from pyspark.sql.streaming.query import (  # the same
            StreamingQuery,
            StreamingQueryManager,
        )
        from pyspark.sql.streaming.readwriter import DataStreamWriter  # the same

        self._patch(DataStreamWriter, "queryName", _note_name)
        self._patch(DataStreamWriter, "format", _note_format)
        self._patch(DataStreamWriter, "option", _note_option)
        self._patch(DataStreamWriter, "options", _note_options)
        self._patch(DataStreamWriter, "outputMode", _note_mode)
        self._patch(DataStreamWriter, "trigger", _note_trigger)
        self._patch(DataStreamWriter, "partitionBy", _note_partitions)
        self._patch(DataStreamWriter, "foreachBatch", _note_sink("foreachBatch"))
        self._patch(DataStreamWriter, "foreach", _note_sink("foreach"))
        self._patch(DataStreamWriter, "start", self._start)
        self._patch(DataStreamWriter, "toTable", self._to_table)
        self._patch(StreamingQueryManager, "awaitAnyTermination", self._await_any)
        self._patch(StreamingQuery, "awaitTermination", self._await_one)
        self._patch(StreamingQuery, "stop", self._stop_query)
        self._patch(SparkSession, "stop", self._stop_session)
        self._patch(SparkContext, "stop", self._stop_session)
        self._patch(SparkSession.Builder, "getOrCreate", self._after_the_old_session)
        self._patch(SparkContext, "getOrCreate", self._after_the_old_session)
        self._patch(SparkContext, "__init__", functools.partial(self._after_the_old_session, constructs=True))
        self._patch(SparkContext, "_do_init", search_archive)
        import_wheels(SparkContext)

    def _patch(self, owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
        original = getattr(owner, name)
        made = functools.wraps(original)(make(original))
        setattr(owner, name, staticmethod(made) if inspect.ismethod(original) else made)

    def _start(self, _: Callable[..., Any]) -> Callable[..., Any]:
        def start(  # noqa: PLR0917  # its parameters are pyspark's own
            writer: Any,
            path: str | None = None,
            format: str | None = None,  # noqa: A002  # pyspark's name
            outputMode: str | None = None,  # noqa: N803  # pyspark's name
            partitionBy: Any = None,  # noqa: N803  # pyspark's name
            queryName: str | None = None,  # noqa: N803  # pyspark's name
            **options: Any,
        ) -> Any:
            apply_keywords(
                writer, options, source=format, output_mode=outputMode, partition_by=partitionBy, name=queryName
            )
            return self.starter.start(writer, path)

        return start

    def _to_table(self, _: Callable[..., Any]) -> Callable[..., Any]:
        def to_table(  # noqa: PLR0917  # its parameters are pyspark's own
            writer: Any,
            tableName: str,  # noqa: N803  # pyspark's name
            format: str | None = None,  # noqa: A002  # pyspark's name
            outputMode: str | None = None,  # noqa: N803  # pyspark's name
            partitionBy: Any = None,  # noqa: N803  # pyspark's name
            queryName: str | None = None,  # noqa: N803  # pyspark's name
            **options: Any,
        ) -> Any:
            apply_keywords(
                writer, options, source=format, output_mode=outputMode, partition_by=partitionBy, name=queryName
            )
            try:
                location = self.location_of_table(writer, tableName)
            except ApplicationRefusedError as error:
                raise self.lifecycle.refuse(error) from None
            return self.starter.start(writer, location)

        return to_table

    def location_of_table(self, writer: Any, name: str) -> str | None:
        """Return the location of a table that a query is to write to.

        :raises ApplicationRefusedError: It cannot be made highly available.
        """
        return write_to_table(writer, name)

    def _await_any(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def await_any(manager: Any, timeout: float | None = None) -> bool | None:
            return self._wait(lambda seconds: original(manager, seconds), timeout)

        return await_any

    def _await_one(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def await_one(query: Any, timeout: float | None = None) -> bool | None:
            return self._wait(lambda seconds: original(query, seconds), timeout)

        return await_one

    def _wait(self, ended_within: Callable[[float], bool], timeout: float | None) -> bool | None:
        """Wait as the original does, in slices; an end that belongs to a stop is reported after all queries ended."""
        self.registry.script_waits()
        if timeout is not None and (isinstance(timeout, bool) or not timeout > 0):
            ended_within(timeout)  # pyspark's own error
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = WAIT_SLICE if end is None else min(WAIT_SLICE, max(end - time.monotonic(), 0.001))
            if ended_within(left):
                self.lifecycle.wait_when_stopping()
                return None if timeout is None else True
            if end is not None and time.monotonic() >= end:
                return False

    def _stop_query(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def stop(handle: Any) -> None:
            """Stop at a batch boundary, even if the script does not request that: a plan needs its commit."""
            if self.lifecycle.stopping.is_set():
                self.lifecycle.ended.wait()
                return
            query = self.registry.find(handle)
            if query is None or not GracefulStop(query).run(OWN_STOP_SECONDS).ended:
                original(handle)

        return stop

    def _stop_session(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def stop(session: Any) -> None:
            """Leave the end of the session to the driver: the script's queries may not have reached a boundary."""
            if self._stops:
                original(session)
                return
            self.lifecycle.wait_when_stopping()
            self._left = lambda: original(session)

        return stop

    def _after_the_old_session(self, original: Callable[..., Any], *, constructs: bool = False) -> Callable[..., Any]:
        def make(*values: Any, **named: Any) -> Any:
            """Make a session, once the session stopped by the script is over, with its queries, as in plain Spark."""
            left, self._left = self._left, None
            self._use_spare(None if constructs else _wanted_conf(values, named))
            if left is not None:
                for query in self.registry.started:
                    if not has_ended(query.handle):
                        GracefulStop(query).run(OWN_STOP_SECONDS)
                self._stops = True
                try:
                    left()
                finally:
                    self._stops = False
            return original(*values, **named)

        return make

    def _use_spare(self, wanted: Mapping[str, Any] | None) -> None:
        """Leave the spare session to the script that asks for a session, or close it."""
        if self.spare is not None and self.spare.fits(wanted):
            self.spare = None
        else:
            self.close_spare()

    def close_spare(self) -> None:
        """Stop the spare session, if there is one: Spark has one context."""
        spare, self.spare = self.spare, None
        if spare is None:
            return
        self._stops = True
        try:
            spare.close()
        finally:
            self._stops = False


@dataclass(frozen=True, slots=True)
class PatchedSpark:
    """pyspark as a driver has it.

    :param calls: Its own calls, as they were before they were patched.
    """

    calls: WriterCalls
    patches: Patches


def _wanted_conf(values: Sequence[Any], named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the conf that a script sets for its session.

    :param values: Arguments of ``SparkSession.builder.getOrCreate`` or ``SparkContext.getOrCreate``.
    """
    given = named.get("conf", values[0] if values else None)
    if given is None:
        return {}
    # A builder shows its options in no other way.
    return dict(given.getAll()) if hasattr(given, "getAll") else dict(getattr(given, "_options", {}))


def apply_keywords(
    writer: Any,
    options: Mapping[str, Any],
    *,
    source: str | None,
    output_mode: str | None,
    partition_by: Any,
    name: str | None,
) -> None:
    """Apply the keywords of ``start()`` as pyspark itself does, so that they are noted."""
    writer.options(**options)
    if output_mode is not None:
        writer.outputMode(output_mode)
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if source is not None:
        writer.format(source)
    if name is not None:
        writer.queryName(name)


def _note_name(original: Callable[..., Any]) -> Callable[..., Any]:
    def query_name(writer: Any, queryName: str) -> Any:  # noqa: N803  # pyspark's name
        notes(writer).name = queryName
        return original(writer, queryName)

    return query_name


def _note_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_format(writer: Any, source: str) -> Any:
        notes(writer).sink = source
        return original(writer, source)

    return set_format


def _note_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(writer: Any, key: str, value: Any) -> Any:
        notes(writer).options[key.lower()] = str(value)
        return writer if key.lower() == OPTION else original(writer, key, value)

    return option


def _note_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_options(writer: Any, **options: Any) -> Any:
        notes(writer).options.update({key.lower(): str(value) for key, value in options.items()})
        return original(writer, **{key: value for key, value in options.items() if key.lower() != OPTION})

    return set_options


def _note_mode(original: Callable[..., Any]) -> Callable[..., Any]:
    def output_mode(writer: Any, outputMode: str) -> Any:  # noqa: N803  # pyspark's name
        notes(writer).mode = outputMode
        return original(writer, outputMode)

    return output_mode


def _note_trigger(original: Callable[..., Any]) -> Callable[..., Any]:
    def trigger(writer: Any, **kind: Any) -> Any:
        notes(writer).trigger = kind
        return original(writer, **kind)

    return trigger


def _note_partitions(original: Callable[..., Any]) -> Callable[..., Any]:
    def partition_by(writer: Any, *columns: Any) -> Any:
        given = columns[0] if len(columns) == 1 and isinstance(columns[0], (list, tuple)) else columns
        notes(writer).partitions = tuple(given)
        return original(writer, *columns)

    return partition_by


def _note_sink(source: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def set_sink(writer: Any, function: Any) -> Any:
            notes(writer).sink = source
            notes(writer).function = function
            return original(writer, function)

        return set_sink

    return make
