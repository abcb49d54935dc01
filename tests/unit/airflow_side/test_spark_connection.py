"""What a connection of type ``spark`` says about where a driver runs, as the Spark provider understands it."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import Connection

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.hooks._connection import place_of, read_place
from airflow_provider_ha.jobs.options.declaration import read
from airflow_provider_ha.jobs.options.job_options import Resources
from airflow_provider_ha.jobs.options.job_spec import SparkPlace
from airflow_provider_ha.operators.submit import SparkHaSubmitOperator


MASTERS = "spark://a:7077,b:7077"


def connection(**values: Any) -> Connection:
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
    assert place_of(connection(**values), {}) == SparkPlace(master=master)


def test_deploy_mode_cluster_makes_the_standalone_cluster_the_engine() -> None:
    extra = {"deploy-mode": "cluster", "rest-port": 6067, "rest-scheme": "https", "queue": "root.default"}

    place = place_of(connection(host=MASTERS), extra)

    assert place == SparkPlace(
        master=MASTERS, engine="standalone", engine_options={"rest_port": "6067", "rest_scheme": "https"}
    )


def test_a_cluster_without_an_engine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no engine runs drivers on the cluster 'yarn'"):
        place_of(connection(host="yarn"), {"deploy-mode": "cluster"})


def test_a_connection_without_a_master_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names no Spark master"):
        place_of(connection(), {})


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
def test_what_the_operator_says_itself_wins() -> None:
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
