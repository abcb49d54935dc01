"""Checks that an output path means the same directory in every attempt of a run.

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
    return not parts.authority and not parts.path.startswith("/")  # guard: relative-path-by-scheme-is-absolute


def refuse_relative(writer: str, source: str, path: str | None) -> None:
    """Refuse an output that every attempt of the run would write to another directory.

    :param writer: What writes, to begin the message with.
    :param source: Format of the sink.
    :param path: As the script gave it; ``None`` and an empty one are Spark's to judge.
    :raises ApplicationRefusedError: The path is relative.
    """
    if path and is_relative(source, path):
        raise ApplicationRefusedError(
            f"{writer} writes to the relative path {path!r}; here that is {_resolved(path)}, and another directory in "
            "every other attempt, so a recovery would lose its rows",
            next_step=f"Write it as an absolute path, for example {'/data/' + os.path.basename(path)!r}",  # noqa: PTH119  # of any URI
        )


def _resolved(path: str) -> str:
    return os.path.abspath(split(path).path)  # noqa: PTH100  # links stay as they are
