"""Which tables a query may write to: those whose directory is known, and those that take every batch."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.sinks.sink_registry import query_memory, type_of_format
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.driver.queries.catalog_tables import write_to_table
from airflow_provider_ha.driver.queries.query_naming import name_query
from airflow_provider_ha.driver.queries.writer_notes import notes
from airflow_provider_ha.errors import ApplicationRefusedError
from tests.support.checkpoints.writer_helpers import writer_of
from tests.unit.driver.test_iceberg_table import session_of


def writer_to(provider: str | None = None, source: str | None = None) -> Any:
    """Return a writer whose session has one table, of another catalog.

    :param provider: As ``DESCRIBE TABLE EXTENDED`` says it; ``None`` for no table.
    :param source: What the script says of the format.
    """
    writer = writer_of("", Path("/managed"))
    session = session_of(catalog="other", **writer._spark.conf)

    def described(_: str) -> Any:
        if provider is None:
            raise RuntimeError("TABLE_OR_VIEW_NOT_FOUND")
        rows = [{"col_name": "Catalog", "data_type": "other"}]
        rows += [{"col_name": "Provider", "data_type": provider}] if provider else []
        return SimpleNamespace(collect=lambda: rows)

    session.sql, writer._spark = described, session
    notes(writer).name, notes(writer).sink = None, source
    return writer


@pytest.mark.parametrize(
    ("provider", "source", "recorded"),
    [("cassandra", None, "cassandra"), ("", None, "table"), (None, "mongodb", "mongodb"), ("kudu", "kudu", "kudu")],
)
def test_a_table_of_another_catalog_that_takes_every_batch_is_left_to_spark(
    provider: str | None, source: str | None, recorded: str
) -> None:
    writer = writer_to(provider, source)

    assert write_to_table(writer, "other.db.orders") is None

    assert (notes(writer).table, notes(writer).sink) == ("other.db.orders", recorded)
    assert name_query(writer, None).startswith("other.db.orders-")


@pytest.mark.parametrize("provider", ["delta", "DELTA", "iceberg", "hudi", "parquet", "json"])
def test_one_that_skips_batches_by_their_numbers_is_refused(provider: str) -> None:
    with pytest.raises(
        ApplicationRefusedError, match=rf"'db.orders' of {provider} in another catalog: such a table skips"
    ):
        write_to_table(writer_to(provider), "db.orders")


def test_what_a_table_of_hudi_has_is_unknown_to_a_plan() -> None:
    hudi = type_of_format("Hudi")

    assert (hudi.table, query_memory(hudi.sink("Hudi", "/data/t"), StorageAccess())) == ("Hudi table", None)
