"""Checks of the script's stream reads and batch writes: facts missing from offsets, refused streams and paths.

They are refused if other attempts cannot continue with them.

A source of files remembers absolute paths. A relative one means another directory in every attempt: the first attempt
finds no files there, and a later one finds other files under the batches of the checkpoint.

A ``foreachBatch`` function writes its DataFrame through ``DataFrameWriter``, which is not covered elsewhere in this
package. Files that the script writes through Python itself, RDDs or SQL statements cannot be detected.
"""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.model import QuerySources
from airflow_provider_ha.checkpoints.sinks.sink_type import readable_place
from airflow_provider_ha.checkpoints.spark.places import is_local, local_path
from airflow_provider_ha.driver.queries.catalog_tables import in_this_attempt_only, is_self_told, place_of_table
from airflow_provider_ha.driver.queries.script_paths import refuse_relative
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import ApplicationRefusedError


_FORMATS = ("csv", "json", "orc", "parquet", "text", "xml")  # methods whose first parameter is a path
_WRITE_NOTES = "_spark_ha_batch_notes"
_FORMAT = "format"  # key of the notes
_PATH = "path"  # the same


def refuse_relative_writes(lifecycle: Lifecycle) -> None:
    """Patch pyspark's batch writer, for the lifetime of the process.

    :param lifecycle: Receives the refusal, so that the run ends with it even if the script swallows the error.
    """
    from pyspark.sql.readwriter import DataFrameWriter  # pyspark is imported inside functions

    guard = _Guard(lifecycle)
    for name in _FORMATS:
        _patch(DataFrameWriter, name, guard.of_format(name))
    _patch(DataFrameWriter, "save", guard.save)
    _patch(DataFrameWriter, "saveAsTable", guard.save_as_table)
    _patch(DataFrameWriter, "insertInto", guard.insert_into)
    _patch(DataFrameWriter, "format", _note_format)
    _patch(DataFrameWriter, "option", _note_option)
    _patch(DataFrameWriter, "options", _note_options)


def _patch(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))


class _Guard:
    def __init__(self, lifecycle: Lifecycle) -> None:
        self._lifecycle = lifecycle

    def of_format(self, source: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            def write(writer: Any, path: str, *values: Any, **named: Any) -> None:
                self._check(source, path)
                original(writer, path, *values, **named)

            return write

        return make

    def save(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save(
            writer: Any,
            path: str | None = None,
            format: str | None = None,  # noqa: A002  # pyspark's name
            *values: Any,
            **named: Any,
        ) -> None:
            self._check(_source(writer, format), path or _path(writer, named))
            original(writer, path, format, *values, **named)

        return save

    def save_as_table(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def save_as_table(
            writer: Any,
            name: str,
            format: str | None = None,  # noqa: A002  # pyspark's name
            *values: Any,
            **named: Any,
        ) -> None:
            path = _path(writer, named)
            self._check(_source(writer, format), path)
            if path is None:
                self._check_table(writer, name)
            original(writer, name, format, *values, **named)

        return save_as_table

    def insert_into(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def insert_into(writer: Any, tableName: str, *values: Any, **named: Any) -> None:  # noqa: N803  # pyspark's name
            self._check_table(writer, tableName)
            original(writer, tableName, *values, **named)

        return insert_into

    def _check(self, source: str, path: str | None) -> None:
        try:
            refuse_relative("the script", source, path)
        except ApplicationRefusedError as error:
            raise self._lifecycle.refuse(error) from None

    def _check_table(self, writer: Any, name: str) -> None:
        location = _table_location(writer._spark, name)  # noqa: SLF001  # the session that made the writer
        if location is not None and location.is_relative_to(Path.cwd()):
            raise self._lifecycle.refuse(in_this_attempt_only(name, location))


def _table_location(session: Any, name: str) -> Path | None:
    """Return the local directory of a table of Spark's own catalog; ``None`` for every other table."""
    found = place_of_table(session, name)
    if found is None:
        return None
    return local_path(found[0]) if is_local(found[0]) else None


def _source(writer: Any, given: str | None) -> str:
    default: str = writer._spark.conf.get("spark.sql.sources.default")  # noqa: SLF001  # the session that made the writer
    return given or _write_notes(writer).get(_FORMAT, default)


def _path(writer: Any, named: dict[str, Any]) -> str | None:
    return {key.lower(): value for key, value in named.items()}.get(_PATH) or _write_notes(writer).get(_PATH)


def _write_notes(writer: Any) -> dict[str, str]:
    found: dict[str, str] | None = getattr(writer, _WRITE_NOTES, None)
    if found is None:
        found = {}
        setattr(writer, _WRITE_NOTES, found)
    return found


def _note_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_format(writer: Any, source: str) -> Any:
        _write_notes(writer)[_FORMAT] = source
        return original(writer, source)

    return set_format


def _note_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(writer: Any, key: str, value: Any) -> Any:
        _note_write_path(writer, key, value)
        return original(writer, key, value)

    return option


def _note_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def options(writer: Any, **named: Any) -> Any:
        for key, value in named.items():
            _note_write_path(writer, key, value)
        return original(writer, **named)

    return options


def _note_write_path(writer: Any, key: str, value: Any) -> None:
    if key.lower() == _PATH:
        _write_notes(writer)[_PATH] = str(value)


log = logging.getLogger(__name__)
_STREAM = re.compile(r"\.(StreamingRelation|StreamingRelationV2|StreamingExecutionRelation|OffsetHolder)$")
_UNNAMED = "<Unassigned>"  # Spark's word for a source without a name

_OF_FILES = frozenset({*_FORMATS, "avro", "binaryfile", "delta"})  # other sources have names where these have paths
_NOTES = "_spark_ha_read_notes"


def refuse_streams(lifecycle: Lifecycle) -> None:
    """Patch pyspark's reader of streams, for the lifetime of the process.

    :param lifecycle: Receives the refusal, so that the run ends with it even if the script swallows the error.
    """
    from pyspark.sql.streaming.readwriter import DataStreamReader  # pyspark is imported inside functions

    for name in _FORMATS:
        if hasattr(DataStreamReader, name):
            _patch(DataStreamReader, name, _of_format(lifecycle, name))
    _patch(DataStreamReader, "load", _load(lifecycle))
    _patch(DataStreamReader, "format", _noted_format)
    _patch(DataStreamReader, "option", _noted_option)
    _patch(DataStreamReader, "options", _noted_options)
    _refuse_dstreams(lifecycle)


def _refuse_dstreams(lifecycle: Lifecycle) -> None:
    from pyspark.streaming import StreamingContext  # pyspark is imported inside functions

    def start(_: Any) -> None:
        error = ApplicationRefusedError(
            "the script starts a StreamingContext: DStreams have no queries with checkpoints that could be recovered",
            next_step="Write the stream with spark.readStream and writeStream, or run the script with spark-submit",
        )
        raise lifecycle.refuse(error) from None

    _patch(StreamingContext, "start", lambda _: start)


def _of_format(lifecycle: Lifecycle, source: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def read(reader: Any, path: Any, *values: Any, **named: Any) -> Any:
            _check(lifecycle, source, path)
            return original(reader, path, *values, **named)

        return read

    return make


def _load(lifecycle: Lifecycle) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def load(
            reader: Any,
            path: str | None = None,
            format: str | None = None,  # noqa: A002  # pyspark's name
            *values: Any,
            **named: Any,
        ) -> Any:
            noted = _notes(reader)
            default = reader._spark.conf.get("spark.sql.sources.default")  # noqa: SLF001  # it has no public name
            given = {key.lower(): value for key, value in named.items()}.get("path")
            _check(lifecycle, format or noted.get("format", default), path or given or noted.get("path"))
            return original(reader, path, format, *values, **named)

        return load

    return make


def _check(lifecycle: Lifecycle, source: str, path: Any) -> None:
    if source.lower() not in _OF_FILES or not isinstance(path, str):
        return
    try:
        refuse_relative("the script", source, path, reads=True)
    except ApplicationRefusedError as error:
        raise lifecycle.refuse(error) from None


def _notes(reader: Any) -> dict[str, str]:
    found: dict[str, str] = reader.__dict__.setdefault(_NOTES, {})
    return found


def _note_path(reader: Any, key: str, value: Any) -> None:
    if key.lower() == "path":
        _notes(reader)["path"] = str(value)


def _noted_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_format(reader: Any, source: str) -> Any:
        _notes(reader)["format"] = source
        return original(reader, source)

    return set_format


def _noted_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(reader: Any, key: str, value: Any) -> Any:
        _note_path(reader, key, value)
        return original(reader, key, value)

    return option


def _noted_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def options(reader: Any, **named: Any) -> Any:
        for key, value in named.items():
            _note_path(reader, key, value)
        return original(reader, **named)

    return options


def streams(frame: Any) -> list[Any]:
    """Return the streams in the plan of a DataFrame, in the order of their offsets; empty if not known."""
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001  # it has no public name
    if "CTERelation" in plan.toString():
        return []  # Spark may read a common table expression more than once
    leaves = plan.collectLeaves()
    found = [leaves.apply(index) for index in range(leaves.size())]
    return [leaf for leaf in found if _STREAM.search(leaf.getClass().getName())]


def sources_of(writer: Any) -> tuple[QuerySources, frozenset[str]]:
    """Return the sources of a query, with facts missing from its offsets, and the topics that it names. Never raises.

    :param writer: Of the query.
    """
    tables, tolerant, brokers, topics = dict[str, str](), list[str](), set[str](), set[str]()
    try:
        for position, stream in enumerate(streams(writer._df)):  # noqa: SLF001  # its DataFrame has no public name
            source, option = _name(stream, position), _options(stream)
            if (place := _table(stream, option)) is not None:
                tables[source] = place
            if (option("failOnDataLoss") or "").lower() == "false":
                tolerant.append(source)
            if servers := option("kafka.bootstrap.servers"):
                # Brokers that require a login would only let each request from here run into its timeout.
                brokers.add(servers if option("kafka.security.protocol") in {None, "PLAINTEXT"} else "")
                topics |= {*(option("subscribe") or "").split(","), *json.loads(option("assign") or "{}")}
    except Exception as error:  # noqa: BLE001  # of py4j, or of a source: a restore reports missing facts
        log.warning("the sources of a query are not fully known: %s", str(error)[:200])
    found = QuerySources(tables=tables, tolerant=tuple(tolerant), brokers=brokers.pop() if len(brokers) == 1 else "")
    return found, frozenset(topic.strip() for topic in topics if topic.strip())


def _name(stream: Any, position: int) -> str:
    """Return the name of a source in an offset entry: its own name, else its position."""
    try:
        name = str(stream.sourceIdentifyingName().toString()).partition("=")[2]
    except Exception:  # noqa: BLE001  # of py4j: a release without names of sources
        return str(position)
    return name if name and name != _UNNAMED else str(position)


def _is_second(stream: Any) -> bool:
    """Return whether a stream uses Spark's second source interface: Kafka and Iceberg, but neither files nor Delta."""
    return bool(stream.getClass().getName().endswith("V2"))


def _options(stream: Any) -> Callable[[str], str | None]:
    """Return a function from the name of a reader's option to its value."""
    is_second = _is_second(stream)
    given = stream.extraOptions() if is_second else stream.dataSource().options()

    def option(name: str) -> str | None:
        found = given.get(name)
        if not is_second:  # of Scala
            found = found.get() if found.isDefined() else None
        return None if found is None else str(found)

    return option


def _table(stream: Any, option: Callable[[str], str | None]) -> str | None:
    """Return the directory of a Delta or Iceberg table; ``None`` for none, or where only a catalog knows its state."""
    if _is_second(stream):
        if not stream.table().getClass().getName().startswith("org.apache.iceberg."):
            return None
        table = stream.table().table()
        return readable_place(str(table.location())) if is_self_told(table) and not option("branch") else None
    source = stream.dataSource()
    return readable_place(option("path")) if "delta" in str(source.className()).lower() else None
