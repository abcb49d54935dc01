"""Streams that a managed script reads, refused where their input is in the working directory of this attempt.

A source of files remembers absolute paths. A relative one means another directory in every attempt: the first attempt
finds nothing there, and a later one other files under the batches of the checkpoint.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.output_paths import refuse_relative
from airflow_provider_ha.errors import ApplicationRefusedError


_FORMATS = ("csv", "json", "orc", "parquet", "text", "xml")  # methods whose first parameter is a path
_OF_FILES = frozenset({*_FORMATS, "avro", "binaryfile", "delta"})  # other sources have names where these have paths
_NOTES = "_spark_ha_read_notes"


def refuse_relative_streams(lifecycle: Lifecycle) -> None:
    """Patch pyspark's reader of streams, for the rest of the process.

    :param lifecycle: Gets the refusal, so that the run ends with it although the script swallows the error.
    """
    from pyspark.sql.streaming.readwriter import DataStreamReader  # pyspark is imported inside functions

    for name in _FORMATS:
        if hasattr(DataStreamReader, name):
            _patch(DataStreamReader, name, _of_format(lifecycle, name))
    _patch(DataStreamReader, "load", _load(lifecycle))
    _patch(DataStreamReader, "format", _noted_format)
    _patch(DataStreamReader, "option", _noted_option)
    _patch(DataStreamReader, "options", _noted_options)


def _patch(owner: type, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(make(original)))


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
