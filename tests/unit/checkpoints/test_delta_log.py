"""What a Delta table has of a query, read from logs of every shape that Delta leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.sinks.table_sinks import DeltaLog
from airflow_provider_ha.errors import RestoreUnknownError


MINE, OTHER = "24845b55-79d9-45e9-9ff6-418f303faf6e", "another query"
ADD = {"add": {"path": "part-0.parquet", "partitionValues": {}, "size": 1, "dataChange": True}}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "_delta_log").mkdir()
    return tmp_path


def txn(query: str, batch: int) -> dict[str, Any]:
    return {"txn": {"appId": query, "version": batch, "lastUpdated": 1795308488238}}


def commit(table: Path, version: int, *actions: dict[str, Any]) -> Path:
    path = table / "_delta_log" / f"{version:020d}.json"
    path.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    return path


def checkpoint(table: Path, name: str, *rows: dict[str, Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    columns = {"txn": [row.get("txn") for row in rows], "add": [row.get("add", {}).get("path") for row in rows]}
    parquet.write_table(pa.table(columns), table / "_delta_log" / name)


def test_the_newest_commit_that_names_the_query_decides(table: Path) -> None:
    commit(table, 0, txn(MINE, 0), ADD)
    commit(table, 1, ADD, txn(MINE, 1))
    commit(table, 2, txn(OTHER, 99), ADD)

    assert DeltaLog(table).last_batch(MINE) == 1


def test_a_complete_log_without_the_query_has_none_of_its_batches(table: Path) -> None:
    commit(table, 0, ADD)

    assert (DeltaLog(table).exists(), DeltaLog(table).last_batch(MINE)) == (True, -1)


def test_a_directory_without_commits_is_no_table(table: Path) -> None:
    assert (DeltaLog(table).exists(), DeltaLog(table / "elsewhere").exists()) == (False, False)


@pytest.mark.parametrize(
    "names",
    [
        ["00000000000000000010.checkpoint.parquet"],
        [f"00000000000000000010.checkpoint.{part:010d}.0000000002.parquet" for part in (1, 2)],
        ["00000000000000000010.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"],
    ],
    ids=["one file", "parts", "with an id"],
)
def test_a_table_checkpoint_replaces_removed_commits(table: Path, names: list[str]) -> None:
    for name in names:
        checkpoint(table, name, ADD, txn(OTHER, 3), *([txn(MINE, 7)] if name == names[-1] else []))
    commit(table, 11, txn(OTHER, 4))

    assert DeltaLog(table).last_batch(MINE) == 7
    assert DeltaLog(table).last_batch("unknown") == -1


def test_a_table_checkpoint_with_a_missing_part_is_not_used(table: Path) -> None:
    checkpoint(table, "00000000000000000010.checkpoint.0000000001.0000000002.parquet", txn(MINE, 7))
    commit(table, 11, txn(OTHER, 4))

    with pytest.raises(RestoreUnknownError, match="commit 10 is missing"):
        DeltaLog(table).last_batch(MINE)


def test_a_gap_in_the_log_is_not_the_end_of_it(table: Path) -> None:
    commit(table, 0, txn(MINE, 0))
    commit(table, 2, ADD)

    with pytest.raises(RestoreUnknownError, match="commit 1 is missing, and no checkpoint replaces it"):
        DeltaLog(table).last_batch(MINE)


def test_a_commit_that_cannot_be_read_is_not_passed_over(table: Path) -> None:
    commit(table, 0, txn(MINE, 0))
    commit(table, 1).write_text('{"txn": {"appId"', encoding="utf-8")

    with pytest.raises(RestoreUnknownError, match=r"00000000000000000001\.json cannot be read"):
        DeltaLog(table).last_batch(MINE)


def test_a_damaged_checkpoint_is_not_passed_over(table: Path) -> None:
    (table / "_delta_log" / "00000000000000000010.checkpoint.parquet").write_bytes(b"PAR1 no more")
    commit(table, 11, ADD)

    with pytest.raises(RestoreUnknownError, match="cannot be read"):
        DeltaLog(table).last_batch(MINE)
