"""Which cluster a command acts on, and that `airflow ha` has the nouns of `spark-ha`."""

from __future__ import annotations

import re
from typing import Any

import pytest
from typer.main import get_command

from airflow_provider_ha.cli.app import app
from airflow_provider_ha.cli.session import ClusterTarget
from airflow_provider_ha.config import VARIABLES, HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.job_spec import SparkPlace


CONNECTION = HaConfig.build(zookeeper="of-the-connection:2181", storage_root="file:///connection")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def target(**options: Any) -> ClusterTarget:
    return ClusterTarget(options=options, fallback=lambda: CONNECTION)


def test_without_any_setting_the_connection_counts() -> None:
    assert target().config() == CONNECTION


@pytest.mark.parametrize(
    ("variable", "missing"),
    [
        ("SPARK_HA_ZOOKEEPER", "storage_root is not set"),
        ("SPARK_HA_STORAGE_ROOT", "zookeeper is not set"),
        ("SPARK_HA_CLUSTER_ID", "zookeeper and storage_root are not set"),
        ("SPARK_HA_TLS", "zookeeper and storage_root are not set"),
        ("SPARK_HA_SESSION_TIMEOUT", "zookeeper and storage_root are not set"),
        ("SPARK_HA_RETAINED_DAYS", "zookeeper and storage_root are not set"),
        ("SPARK_HA_HDFS_USER", "zookeeper and storage_root are not set"),
    ],
)
def test_half_of_the_settings_is_an_error_and_not_another_cluster(
    variable: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "true" if variable == "SPARK_HA_TLS" else "zk:2181")

    with pytest.raises(ConfigurationError, match=missing):
        target().config()


def test_a_setting_that_is_wrong_is_an_error_and_not_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HA_ZOOKEEPER", "zk:2181")
    monkeypatch.setenv("SPARK_HA_STORAGE_ROOT", "ftp://nowhere")

    with pytest.raises(ConfigurationError, match="ftp"):
        target().config()


def test_an_option_without_the_others_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="storage_root is not set"):
        target(zookeeper="zk:2181").config()


def test_without_a_connection_of_spark_drivers_run_on_this_host() -> None:
    place = ClusterTarget().driver_place(None)

    assert (place.master, place.engine, place.engine_options) == ("local[*]", "local", {})


def test_a_connection_of_spark_is_known_to_airflow_only() -> None:
    cluster = SparkPlace(master="spark://host:7077", engine="standalone")

    with pytest.raises(ConfigurationError, match="airflow ha job submit"):
        ClusterTarget().driver_place("spark_default")

    assert ClusterTarget(places=lambda _: cluster).driver_place("spark_default") is cluster


def test_airflow_ha_has_every_noun_of_the_command() -> None:
    commands = pytest.importorskip("airflow_provider_ha.cli.airflow_commands")

    assert set(commands._NOUNS) == set(get_command(app).commands)  # type: ignore[attr-defined]  # a group


def test_the_help_of_airflow_ha_names_every_verb() -> None:
    """The words after a noun are handed over as they are, so its help is where a verb can be missing."""
    commands = pytest.importorskip("airflow_provider_ha.cli.airflow_commands")
    nouns: Any = get_command(app)
    tree = {noun: getattr(group, "commands", {}) for noun, group in nouns.commands.items()}

    unnamed = [
        f"{noun} {verb}"
        for noun, verbs in tree.items()
        for verb in verbs
        if not re.search(rf"\b{verb}\b", commands._NOUNS[noun])
    ]

    assert unnamed == []
