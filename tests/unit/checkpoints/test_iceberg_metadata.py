"""What an Iceberg table has of a query, read from metadata of every shape that Iceberg leaves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.sinks.table_sinks import EPOCH_ID, QUERY_ID, IcebergMetadata
from airflow_provider_ha.errors import RestoreUnknownError


MINE, OTHER = "24845b55-79d9-45e9-9ff6-418f303faf6e", "another query"
OF_A_CATALOG = "00003-9b23cd4f-6d5e-4a3a-9a7e-5a4b6c1d2e3f.metadata.json"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "metadata").mkdir()
    return tmp_path


def of(query: str, batch: int) -> dict[str, str]:
    return {"operation": "append", QUERY_ID: query, EPOCH_ID: str(batch)}


def document(*summaries: Mapping[str, str], expired: int = 0, current: int | None = None) -> dict[str, Any]:
    """Return metadata with one snapshot of each summary, the first *expired* ones left out."""
    snapshots = [
        {"snapshot-id": number, "parent-snapshot-id": number - 1 if number > 1 else None, "summary": dict(summary)}
        for number, summary in enumerate(summaries, 1)
    ]
    newest = len(summaries) or -1
    return {"current-snapshot-id": newest if current is None else current, "snapshots": snapshots[expired:]}


def version(table: Path, number: int, content: dict[str, Any]) -> None:
    (table / "metadata" / f"v{number}.metadata.json").write_text(json.dumps(content), encoding="utf-8")


def test_the_newest_snapshot_that_names_the_query_decides(table: Path) -> None:
    version(table, 3, document(of(MINE, 0), of(MINE, 1), of(OTHER, 99), {"operation": "replace"}))

    assert (IcebergMetadata(table).exists(), IcebergMetadata(table).last_batch(MINE)) == (True, 1)


def test_the_newest_version_counts_also_before_the_hint_names_it(table: Path) -> None:
    version(table, 9, document(of(MINE, 0)))
    version(table, 10, document(of(MINE, 0), of(MINE, 1)))
    (table / "metadata" / "version-hint.text").write_text("9")

    assert IcebergMetadata(table).last_batch(MINE) == 1


def test_a_snapshot_that_was_rolled_back_does_not_count(table: Path) -> None:
    version(table, 1, document(of(MINE, 0), of(MINE, 1), current=1))

    assert IcebergMetadata(table).last_batch(MINE) == 0


@pytest.mark.parametrize("content", [document(), {"format-version": 2}, document({"operation": "append"})])
def test_complete_metadata_without_the_query_has_none_of_its_batches(table: Path, content: dict[str, Any]) -> None:
    version(table, 1, content)

    assert IcebergMetadata(table).last_batch(MINE) == -1


def test_a_directory_without_metadata_is_no_table(table: Path) -> None:
    for place in (table, table / "elsewhere"):
        assert (IcebergMetadata(place).exists(), IcebergMetadata(place).last_batch(MINE)) == (False, -1)


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_compressed_metadata_is_read(table: Path, name: str) -> None:
    (table / "metadata" / name).write_bytes(gzip.compress(json.dumps(document(of(MINE, 5))).encode()))

    assert IcebergMetadata(table).last_batch(MINE) == 5


def test_what_expired_before_the_query_was_found_is_unknown(table: Path) -> None:
    version(table, 4, document(of(MINE, 0), of(MINE, 1), of(OTHER, 0), expired=2))

    with pytest.raises(RestoreUnknownError, match="snapshot 2 and those before it have expired"):
        IcebergMetadata(table).last_batch(MINE)


def test_snapshots_that_expired_before_the_newest_one_of_the_query_are_not_needed(table: Path) -> None:
    version(table, 4, document(of(MINE, 0), of(MINE, 1), of(OTHER, 0), expired=1))

    assert IcebergMetadata(table).last_batch(MINE) == 1


def test_which_version_a_catalog_holds_for_current_is_not_guessed(table: Path) -> None:
    (table / "metadata" / OF_A_CATALOG).write_text(json.dumps(document(of(MINE, 7))))

    assert IcebergMetadata(table).exists()
    with pytest.raises(RestoreUnknownError, match="only its catalog knows the current metadata"):
        IcebergMetadata(table).last_batch(MINE)


def test_a_version_that_the_hint_names_and_that_is_not_there_is_not_passed_over(table: Path) -> None:
    version(table, 3, document(of(MINE, 0)))
    (table / "metadata" / "version-hint.text").write_text("4\n")

    with pytest.raises(RestoreUnknownError, match="version 4 of its metadata is missing"):
        IcebergMetadata(table).last_batch(MINE)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"current-snapshot-id"', r"v1\.metadata\.json cannot be read"),
        (b"[]", r"v1\.metadata\.json is not table metadata"),
        (b'{"current-snapshot-id": 1, "snapshots": [{"snapshot": 1}]}', "cannot be understood"),
        (json.dumps(document({QUERY_ID: MINE})).encode(), "cannot be understood"),
        (json.dumps(document({QUERY_ID: MINE, EPOCH_ID: "x"})).encode(), "cannot be understood"),
    ],
)
def test_foreign_metadata_of_an_iceberg_table_is_not_used(table: Path, content: bytes, reason: str) -> None:
    (table / "metadata" / "v1.metadata.json").write_bytes(content)

    with pytest.raises(RestoreUnknownError, match=reason):
        IcebergMetadata(table).last_batch(MINE)
