"""Checks that a path means the same directory in every attempt of a run.

Spark resolves a relative path against the working directory of its driver. Each attempt has its own working directory,
so a relative output splits over the attempts: the sink looks empty after a recovery, and its rows are lost.
"""

from __future__ import annotations

import os

from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.uris import split


# Sinks that do not look at a path.
_PATHLESS = frozenset({"foreachbatch", "foreach", "console", "kafka", "memory", "noop", "jdbc"})
# Sinks whose path is the name of a table or an index.
_NAMED = frozenset({"bigquery", "es", "opensearch", "org.elasticsearch.spark.sql", "org.opensearch.spark.sql"})
# A table name, or a path when it has a slash.
_NAMED_OR_PATH = frozenset({"iceberg"})


def is_relative(source: str, path: str) -> bool:
    """Return whether *path* depends on the working directory of the driver.

    :param source: Format of the sink.
    :param path: As the script gave it: a path or a URI.
    """
    kind = source.lower()
    if kind in _PATHLESS or kind in _NAMED or (kind in _NAMED_OR_PATH and "/" not in path):
        return False
    parts = split(path)
    return not parts.authority and not parts.path.startswith("/")


def refuse_relative(who: str, source: str, path: str | None, *, reads: bool = False) -> None:
    """Refuse a path that is another directory in every attempt of the run.

    :param who: The writer or reader, as the beginning of the message.
    :param source: Format of the sink, or of the source.
    :param path: As the script gave it; Spark judges ``None`` and an empty one.
    :param reads: Whether it is the input of a stream.
    :raises ApplicationRefusedError: The path is relative.
    """
    if path and is_relative(source, path):
        does = "reads a stream from" if reads else "writes to"
        lost = "would not find its files" if reads else "would lose its rows"
        raise ApplicationRefusedError(
            f"{who} {does} the relative path {path!r}; here that is {_resolved(path)}, and another directory in "
            f"every other attempt, so a recovery {lost}",
            next_step=f"Write it as an absolute path, for example {'/data/' + os.path.basename(path)!r}",  # noqa: PTH119  # of any URI
        )


def _resolved(path: str) -> str:
    return os.path.abspath(split(path).path)  # noqa: PTH100  # links stay as they are
