"""Which output paths a recovery would resolve against another directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.driver.queries.script_paths import is_relative, refuse_relative
from airflow_provider_ha.errors import ApplicationRefusedError


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("parquet", "out"),
        ("JSON", "./out"),
        ("delta", "../out"),
        ("csv", "~/out"),
        ("orc", "file:out"),
        ("iceberg", "warehouse/t"),
        ("com.example.Sink", "out"),
    ],
)
def test_a_path_that_depends_on_the_working_directory_is_relative(source: str, path: str) -> None:
    assert is_relative(source, path)


@pytest.mark.parametrize(
    ("source", "path"),
    [
        ("parquet", "/data/out"),
        ("json", "file:/data/out"),
        ("delta", "file:///data/out"),
        ("orc", "s3a://bucket"),
        ("csv", "hdfs:///data/out"),
        ("iceberg", "db.table"),
        ("ES", "index/rows"),
        ("bigquery", "dataset.rows"),
        ("kafka", "ignored"),
        ("foreachBatch", "ignored"),
    ],
)
def test_a_path_that_means_the_same_everywhere_is_not_relative(source: str, path: str) -> None:
    assert not is_relative(source, path)


def test_the_refusal_names_the_path_its_directory_and_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ApplicationRefusedError) as refused:
        refuse_relative("query 'q'", "json", "results/out")

    assert str(refused.value) == (
        f"query 'q' writes to the relative path 'results/out'; here that is {tmp_path}/results/out, and another "
        "directory in every other attempt, so a recovery would lose its rows. Write it as an absolute path, for "
        "example '/data/out'."
    )


@pytest.mark.parametrize("path", [None, ""])
def test_no_path_is_for_spark_to_judge(path: str | None) -> None:
    refuse_relative("query 'q'", "json", path)
