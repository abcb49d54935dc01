"""What the fields of a connection mean."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from airflow_provider_ha.airflow_side.compat import READS_CONNECTIONS_IN_LOOP
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.hooks import spark_ha
from airflow_provider_ha.hooks._connection import config_of, secrets_of
from airflow_provider_ha.hooks.spark_ha import SparkHaHook


EXTRA = {"storage_root": "file:///shared/ha"}
CONNECTION = "of_a_trigger"
STORED = {"conn_type": "spark_ha", "host": "zk1", "extra": EXTRA}


def connection(**fields: Any) -> Any:
    values = {
        "conn_id": "prod",
        "conn_type": "spark_ha",
        "host": "zk1,zk2",
        "schema": None,
        "port": None,
        "login": None,
        "password": None,
    }
    return SimpleNamespace(**(values | fields))


def test_a_connection_of_another_type_is_named_with_both_types() -> None:
    with pytest.raises(ConfigurationError, match="'prod' is of type 'spark', and has to be of type 'spark_ha'"):
        config_of(connection(conn_type="spark"), EXTRA)


@pytest.mark.parametrize("in_loop", [False, True])
def test_a_connection_that_is_not_there_is_a_mistake_of_its_user(in_loop: bool) -> None:
    hook = SparkHaHook("prdo")

    with pytest.raises(ConfigurationError, match=r"Airflow has no connection 'prdo'.*Correct spark_ha_conn_id"):
        asyncio.run(hook.aget_config()) if in_loop else hook.get_config()


def test_every_host_without_a_port_gets_the_connections_port() -> None:
    assert config_of(connection(port=2281), EXTRA).zookeeper == "zk1:2281,zk2:2281"
    assert config_of(connection(host="zk1:1, zk2"), EXTRA).zookeeper == "zk1:1,zk2:2181"


def test_login_and_password_are_the_digest() -> None:
    config = config_of(connection(login="user", password="pass"), EXTRA)

    assert config.digest_auth is not None
    assert config.digest_auth.get_secret_value() == "user:pass"
    assert "pass" not in repr(config)


def test_the_storage_root_is_a_standard_field_or_an_extra_one() -> None:
    assert config_of(connection(schema="file:///shared/ha"), {}).storage_root == "file:///shared/ha"
    assert config_of(connection(schema="file:///shared/ha/"), EXTRA).storage_root == "file:///shared/ha"
    assert config_of(connection(schema="path-of-a-uri"), EXTRA).storage_root == "file:///shared/ha"


def test_every_s3_setting_can_be_set() -> None:
    extra = EXTRA | {
        "s3_endpoint_url": "http://s3:9000",
        "s3_region": "eu-west-1",
        "s3_path_style": False,
        "s3_access_key": "key",
        "s3_secret_key": "secret",
    }

    s3 = config_of(connection(), extra).s3

    assert s3 == S3Options(
        endpoint_url="http://s3:9000",
        region="eu-west-1",
        path_style=False,
        access_key=SecretStr("key"),
        secret_key=SecretStr("secret"),
    )


def test_what_the_form_fills_in_by_itself_leaves_s3_to_the_environment() -> None:
    assert config_of(connection(), EXTRA | {"s3_path_style": True, "s3_region": None}).s3 is None
    assert config_of(connection(), EXTRA | {"s3_path_style": False}).s3 == S3Options(path_style=False)


@pytest.mark.parametrize(
    ("fields", "extra", "says"),
    [
        ({"host": None}, EXTRA, "no ZooKeeper host"),
        ({}, {}, "no storage root"),
        ({"host": None}, {}, "no ZooKeeper host and no storage root. Fill in Host, .*; and Storage root, for example"),
        ({}, {"storage_root": "/shared/ha"}, "no scheme"),
        ({"schema": "/shared/ha"}, {}, "no scheme"),
        ({"schema": "file:///other"}, EXTRA, "two storage roots: 'file:///other' .* 'file:///shared/ha'"),
        ({"login": "user"}, EXTRA, "go together"),
        ({}, {"storage_root": "s3://bucket/ha"}, "work_root"),
        ({}, EXTRA | {"session_timeout": 2}, "too short"),
        ({}, EXTRA | {"engines": "local: /opt/spark"}, "engines: it is not JSON of the form"),
    ],
)
def test_what_cannot_work_names_the_connection_and_the_reason(fields: Any, extra: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) as caught:
        config_of(connection(**fields), extra)

    assert "'prod'" in str(caught.value)
    assert caught.value.next_step


@pytest.mark.parametrize("given", ['{"local": {"spark_home": "/opt/spark"}}', {"local": {"spark_home": "/opt/spark"}}])
def test_options_of_engines_may_be_the_text_of_the_form_or_an_object(given: Any) -> None:
    assert config_of(connection(), EXTRA | {"engines": given}).engines == {"local": {"spark_home": "/opt/spark"}}


def test_all_secrets_are_known_to_be_secrets() -> None:
    extra = EXTRA | {"s3_access_key": "key", "s3_secret_key": "secret"}

    assert set(secrets_of(connection(password="pass"), extra)) == {"pass", "key", "secret"}


@pytest.mark.parametrize("in_loop", [False, READS_CONNECTIONS_IN_LOOP])
def test_an_event_loop_reads_the_connection_without_being_blocked(
    monkeypatch: pytest.MonkeyPatch, *, in_loop: bool
) -> None:
    """Before Airflow 3.3.2 the only reading that masks what it finds blocks: another thread does it."""
    threads: list[threading.Thread] = []

    def found(*_: object) -> Any:
        threads.append(threading.current_thread())
        return real(CONNECTION)

    real = SparkHaHook.get_connection
    monkeypatch.setenv(f"AIRFLOW_CONN_{CONNECTION.upper()}", json.dumps(STORED))
    monkeypatch.setattr(spark_ha, "READS_CONNECTIONS_IN_LOOP", in_loop)
    monkeypatch.setattr(SparkHaHook, "get_connection", found)

    config = asyncio.run(SparkHaHook(CONNECTION).aget_config())

    assert config.storage_root == "file:///shared/ha"
    assert threading.main_thread() not in threads
    assert bool(threads) is not in_loop
