"""Batch writes of a managed script, refused when they go to the working directory of this attempt.

A ``foreachBatch`` function writes its DataFrame through ``DataFrameWriter``, which is not covered elsewhere in this
package. Files that the script writes through Python itself, RDDs or SQL statements cannot be detected.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_provider_ha.checkpoints.connectors.places import is_local, local_path
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.output_paths import refuse_relative
from airflow_provider_ha.driver.table_sink import in_this_attempt_only, place_of_table
from airflow_provider_ha.errors import ApplicationRefusedError


_FORMATS = ("csv", "json", "orc", "parquet", "text", "xml")  # methods whose first parameter is a path
_NOTES = "_spark_ha_batch_notes"
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
    return given or _notes(writer).get(_FORMAT, default)


def _path(writer: Any, named: dict[str, Any]) -> str | None:
    return {key.lower(): value for key, value in named.items()}.get(_PATH) or _notes(writer).get(_PATH)


def _notes(writer: Any) -> dict[str, str]:
    found: dict[str, str] | None = getattr(writer, _NOTES, None)
    if found is None:
        found = {}
        setattr(writer, _NOTES, found)
    return found


def _note_format(original: Callable[..., Any]) -> Callable[..., Any]:
    def set_format(writer: Any, source: str) -> Any:
        _notes(writer)[_FORMAT] = source
        return original(writer, source)

    return set_format


def _note_option(original: Callable[..., Any]) -> Callable[..., Any]:
    def option(writer: Any, key: str, value: Any) -> Any:
        _note_path(writer, key, value)
        return original(writer, key, value)

    return option


def _note_options(original: Callable[..., Any]) -> Callable[..., Any]:
    def options(writer: Any, **named: Any) -> Any:
        for key, value in named.items():
            _note_path(writer, key, value)
        return original(writer, **named)

    return options


def _note_path(writer: Any, key: str, value: Any) -> None:
    if key.lower() == _PATH:
        _notes(writer)[_PATH] = str(value)
