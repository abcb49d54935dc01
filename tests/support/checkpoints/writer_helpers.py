"""What a script has when it calls ``start()``, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.driver.spark_conf import CHECKPOINT_LOCATION


class Conf(dict[str, str]):
    """The conf of a session."""

    def set(self, key: str, value: str) -> None:
        self[key] = value


def writer_of(name: str, directory: Path, master: str = "local[2]") -> Any:
    """Return a writer of a query into nothing, with its notes and a session with its conf."""
    conf = Conf({CHECKPOINT_LOCATION: directory.as_uri(), "spark.sql.sources.default": "parquet"})
    streams, context = SimpleNamespace(resetTerminated=lambda: None), SimpleNamespace(master=master)
    writer = SimpleNamespace(_spark=SimpleNamespace(conf=conf, streams=streams, sparkContext=context))
    noted = notes(writer)
    noted.name, noted.sink = name, "noop"

    def query_name(said: str) -> Any:
        noted.name = said
        return writer

    writer.queryName = query_name
    return writer
