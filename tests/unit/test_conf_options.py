"""Spark conf and environment on a command line: files as Spark reads them, and nothing secret in a process list."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.cli.spec_options import (
    driver_environment,
    read_spark_properties,
    spark_conf,
    visible_secrets,
)
from airflow_provider_ha.errors import ConfigurationError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "spark.conf"
    path.write_text(text)
    return path


def test_a_file_is_read_in_both_forms(tmp_path: Path) -> None:
    path = written(tmp_path, "# a comment\n! another\n\nspark.a 1 and 2\nspark.b=x=y \n  spark.c : z\n")

    assert read_spark_properties(path) == {"spark.a": "1 and 2", "spark.b": "x=y", "spark.c": "z"}


@pytest.mark.parametrize("line", ["spark.a", r"spark.a one\two", "spark.a 1 \\"])
def test_a_line_that_spark_reads_in_another_way_is_refused_without_its_value(tmp_path: Path, line: str) -> None:
    with pytest.raises(ConfigurationError, match="line 1 of the properties file") as refused:
        read_spark_properties(written(tmp_path, line))

    assert "two" not in str(refused.value)


def test_the_command_line_counts_over_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, "spark.a file\nspark.b file\n")

    assert spark_conf(["spark.a=line"], path) == {"spark.a": "line", "spark.b": "file"}


def test_a_name_alone_takes_the_value_of_the_command() -> None:
    assert driver_environment(["A=1", "B"], {"B": "two"}) == {"A": "1", "B": "two"}


def test_a_variable_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no such variable"):
        driver_environment(["B"], {})


def test_values_that_look_like_secrets_are_named() -> None:
    assert visible_secrets(["spark.hadoop.fs.s3a.secret.key=x", "spark.a=b"], ["DB_PASSWORD=y", "TOKEN"]) == [
        "spark.hadoop.fs.s3a.secret.key",
        "DB_PASSWORD",
    ]


@pytest.mark.parametrize(
    "read",
    [
        lambda: driver_environment(["DB_PASSWORD", "DB_PASSWORD"], {"DB_PASSWORD": "hunter2"}),
        lambda: spark_conf(["spark.x.password=hunter2", "spark.x.password=hunter2"], None),
    ],
)
def test_an_error_names_no_value(read: Callable[[], object]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read()

    assert "password" in str(refused.value).lower()
    assert "hunter2" not in str(refused.value)
