"""Fields of the connection, on each release of Airflow, and the connection of type ``spark``."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import wtforms  # type: ignore[import-untyped]
from airflow.sdk import Connection
from pydantic import SecretStr

from airflow_provider_ha.airflow_side.compat import READS_CONNECTIONS_IN_LOOP
from airflow_provider_ha.config import S3Options
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.get_provider_info import get_provider_info
from airflow_provider_ha.hooks import spark_ha
from airflow_provider_ha.hooks._connection import config_of, form_widgets, place_of, read_place, secrets_of
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_options import Resources
from airflow_provider_ha.jobs.options.job_spec import SparkPlace
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


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


def test_defaults_of_the_form_leave_s3_to_the_environment() -> None:
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


MASTERS = "spark://a:7077,b:7077"


def spark_conn(**values: Any) -> Connection:
    return Connection(conn_id="spark_default", **({"conn_type": "spark"} | values))


@pytest.mark.parametrize(
    ("values", "master"),
    [
        ({"host": MASTERS}, MASTERS),
        ({"host": "spark://a", "port": 7077}, "spark://a:7077"),
        ({"host": "a", "port": 7077}, "spark://a:7077"),
        ({"host": "local[2]"}, "local[2]"),
        ({"host": "yarn"}, "yarn"),
    ],
)
def test_host_and_port_are_the_master(values: dict[str, Any], master: str) -> None:
    assert place_of(spark_conn(**values), {}) == SparkPlace(master=master)


def test_deploy_mode_cluster_makes_the_standalone_cluster_the_engine() -> None:
    extra = {"deploy-mode": "cluster", "rest-port": 6067, "rest-scheme": "https", "queue": "root.default"}

    place = place_of(spark_conn(host=MASTERS), extra)

    assert place == SparkPlace(
        master=MASTERS, engine="standalone", engine_options={"rest_port": "6067", "rest_scheme": "https"}
    )


def test_a_cluster_without_an_engine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no engine runs drivers on the cluster 'yarn'"):
        place_of(spark_conn(host="yarn"), {"deploy-mode": "cluster"})


def test_a_connection_without_a_master_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names no Spark master"):
        place_of(spark_conn(), {})


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection of the environment, as Airflow reads it."""
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT",
        '{"conn_type": "spark", "host": "spark://a:7077", "extra": {"deploy-mode": "cluster", "rest-port": "6067"}}',
    )


class Job:
    """Remembers what it was asked."""

    def submit(self, request: Any) -> Any:
        self.request = request


def submitted(**values: Any) -> Any:
    job: Any = Job()
    SparkHaSubmitOperator(task_id="t", job_id="j", application="app.py", **values).start_run(job, "request")
    return job.request


@pytest.mark.usefixtures("named")
def test_the_operator_takes_master_and_engine_from_the_connection() -> None:
    request = submitted(spark_conn_id="spark_default", target={"engine_options": {"config_file": "/etc/ha.json"}})

    assert (request.master, request.engine) == ("spark://a:7077", "standalone")
    assert request.engine_options == {"rest_port": "6067", "config_file": "/etc/ha.json"}


@pytest.mark.usefixtures("named")
def test_parameters_of_the_operator_override_the_connection() -> None:
    request = submitted(
        spark_conn_id="spark_default", target={"master": "spark://c:7077", "engine": "local", "engine_options": {}}
    )

    assert (request.master, request.engine, request.engine_options) == ("spark://c:7077", "local", {})


def test_without_a_connection_the_driver_is_local() -> None:
    request = submitted()

    assert (request.master, request.engine, request.engine_options) == ("local[*]", "local", {})


def test_resources_have_the_names_of_the_spark_provider() -> None:
    request = submitted(
        executor_cores=2,
        executor_memory="2g",
        total_executor_cores="4",
        num_executors=2,
        driver_class_path="/opt/jars/*",
        repositories="https://one,https://two",
        exclude_packages="a:b",
    )

    assert request.resources.conf() == {
        "spark.executor.cores": "2",
        "spark.executor.memory": "2g",
        "spark.cores.max": "4",
        "spark.executor.instances": "2",
        "spark.driver.extraClassPath": "/opt/jars/*",
        "spark.jars.repositories": "https://one,https://two",
        "spark.jars.excludes": "a:b",
    }


@pytest.mark.parametrize("given", ["two", "1.5", "-1"])
def test_a_number_of_cores_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError, match="executor_cores"):
        read(Resources, {"executor_cores": given}, subject="the job")


def test_conf_and_parameter_may_agree_and_not_disagree() -> None:
    asked = Resources(executor_cores=2)

    assert asked.beside({"spark.executor.cores": "2", "a": "b"}) == {"spark.executor.cores": "2", "a": "b"}
    with pytest.raises(ConfigurationError, match=r"conf sets spark.executor.cores='4', and executor_cores is '2'"):
        asked.beside({"spark.executor.cores": "4"})


def test_a_command_gets_a_sentence_for_a_connection_that_is_not_there() -> None:
    with pytest.raises(ConfigurationError, match="there is no connection 'no_such_connection'"):
        read_place("no_such_connection")


KINDS = {
    "boolean": wtforms.BooleanField,
    "integer": wtforms.IntegerField,
    "number": wtforms.IntegerField,
    "string": wtforms.StringField,
}


def test_every_field_of_the_metadata_is_a_field_of_its_kind() -> None:
    table = get_provider_info()["connection-types"][0]["conn-fields"]

    made = {name: field.field_class for name, field in form_widgets().items()}

    assert made == {
        name: wtforms.PasswordField
        if field["schema"].get("format") == "password"
        else KINDS[field["schema"]["type"][0]]
        for name, field in table.items()
    }
