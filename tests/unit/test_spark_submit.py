"""What spark-submit is given."""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.host.engines.standalone_arrival import AUTHENTICATION_VARIABLE, StandaloneArrival
from airflow_provider_ha.host.supervisor import spark_submit
from airflow_provider_ha.host.supervisor.spark_submit import environment, properties, render
from airflow_provider_ha.jobs.application.artifacts import FetchedApplication
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph, Target
from tests.engine_helpers import CONFIG


GRAPH = JobGraph(
    job_id="flights",
    name="flights of 2013",
    application=Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=1)),
    packages=("org.example:thing:1",),
    conf={"spark.jars": "/own.jar", "spark.master": "yarn"},
    target=Target(master="local[2]"),
    driver_memory="1g",
)
SPEC = DriverSpec(
    config=CONFIG,
    ticket=Ticket(job_id="flights", run=1, attempt=1, submission_id="s", graph=Blob(sha256="a" * 64, size=1)),
    directory=Path("/home/of/the/submission"),
)


def test_values_survive_the_properties_format() -> None:
    rendered = render({"spark.a": " leading", "spark.b": "x=y:z#!", "spark.c": "back\\slash\nline", "spark.d": "é€😀"})

    assert rendered.decode("ascii").splitlines() == [
        "spark.a=\\ leading",
        "spark.b=x\\=y\\:z\\#\\!",
        "spark.c=back\\\\slash\\u000aline",
        "spark.d=\\u00e9\\u20ac\\ud83d\\ude00",
    ]


def test_a_key_that_spark_would_drop_in_silence_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"'hive\.metastore\.uris' is not a Spark conf key"):
        render({"hive.metastore.uris": "thrift://host"})


def test_what_belongs_to_the_submission_is_added_to_what_the_user_said() -> None:
    application = FetchedApplication(
        script=Path("/app/app.py"), files_directory=Path("/app"), jars=(Path("/app/x.jar"),), py_files=(Path("/a.zip"),)
    )

    values = properties(GRAPH, application, CONFIG)

    assert values == {
        "spark.master": "local[2]",
        "spark.app.name": "flights of 2013",
        "spark.submit.deployMode": "client",
        "spark.driver.memory": "1g",
        "spark.jars": "/own.jar,file:///app/x.jar",
        "spark.jars.packages": "org.example:thing:1",
        "spark.submit.pyFiles": "file:///a.zip",
        "spark.executorEnv.PYTHONPATH": "/app",
    }


def test_workers_import_what_lies_beside_the_script_before_what_the_user_added() -> None:
    graph = GRAPH.model_copy(update={"conf": {"spark.executorEnv.PYTHONPATH": "/opt/lib"}})
    application = FetchedApplication(script=Path("/app/app.py"), files_directory=Path("/files"))

    assert properties(graph, application, CONFIG)["spark.executorEnv.PYTHONPATH"] == "/app:/opt/lib"


def test_an_archive_for_other_hosts_is_added_to_what_the_user_said() -> None:
    graph = GRAPH.model_copy(update={"conf": {"spark.archives": "/own.zip#own"}})
    application = FetchedApplication(
        script=Path("/app/app.py"), files_directory=Path("/files"), archive=Path("/app/modules.zip")
    )

    assert properties(graph, application, CONFIG)["spark.archives"] == (
        "/own.zip#own,file:///app/modules.zip#spark-ha-modules"
    )


def test_the_modules_of_a_script_are_on_no_path_of_the_driver_before_it_runs(tmp_path: Path) -> None:
    """A module beside the script that is called like one of the driver's own libraries must not replace it."""
    made = environment(tmp_path, SPEC, GRAPH, {"PYTHONPATH": "/host"})

    assert made["PYTHONPATH"] == "/host"


@pytest.mark.parametrize(
    ("own", "used"), [({}, "-XX:TieredStopAtLevel=1"), ({"SPARK_LAUNCHER_OPTS": "-Xint"}, "-Xint")]
)
def test_jvm_that_only_prints_a_command_line_compiles_little_unless_the_job_says_otherwise(
    tmp_path: Path, own: dict[str, str], used: str
) -> None:
    made = environment(tmp_path, SPEC, GRAPH.model_copy(update={"env": own}), {})

    assert made["SPARK_LAUNCHER_OPTS"].startswith(used)


def test_the_interpreter_of_the_connection_is_that_of_driver_and_workers() -> None:
    config = CONFIG.model_copy(update={"engines": {"local": {"python": "/opt/venv/bin/python"}}})

    made = environment(Path("/spark"), SPEC.model_copy(update={"config": config}), GRAPH, {})

    assert {made["PYSPARK_PYTHON"], made["PYSPARK_DRIVER_PYTHON"]} == {"/opt/venv/bin/python"}


def test_a_job_on_s3_gets_the_component_and_nothing_of_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_submit, "component_jar", lambda: Path("/package/component.jar"))
    config = HaConfig.model_validate(
        CONFIG.model_dump()
        | {
            "work_root": "s3://bucket/work",
            "home_root": "file:///home/of/drivers",
            "s3": {"access_key": "a-key", "secret_key": "hidden"},
        }
    )
    application = FetchedApplication(
        script=Path("/app/app.py"), files_directory=Path("/app"), jars=(Path("/app/x.jar"),)
    )

    values = properties(GRAPH, application, config)

    assert values["spark.jars"] == "/own.jar,file:///package/component.jar,file:///app/x.jar"
    assert not {"a-key", "hidden"} & {text for value in values.values() for text in value.split(",")}


APPLICATION = FetchedApplication(script=Path("/app/app.py"), files_directory=Path("/app"))


@pytest.mark.parametrize(
    ("own", "secret"),
    [
        ({"spark.authenticate": "true"}, "of-the-worker"),
        ({"spark.authenticate": "true", "spark.authenticate.secret": "of-the-job"}, "of-the-job"),
        ({}, None),
    ],
)
def test_a_driver_that_authenticates_has_the_secret_of_its_worker(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str], secret: str | None
) -> None:
    monkeypatch.setenv(AUTHENTICATION_VARIABLE, "of-the-worker")
    graph = GRAPH.model_copy(update={"conf": own})

    values = properties(graph, APPLICATION, CONFIG, place=StandaloneArrival().conf(graph))

    assert values.get("spark.authenticate.secret") == secret


def test_archives_of_the_job_are_unpacked_for_executors_beside_its_modules() -> None:
    application = FetchedApplication(
        script=Path("/app/app.py"),
        files_directory=Path("/app"),
        archives=("file:///app/archives/env.tar.gz#environment",),
        archive=Path("/app/modules.zip"),
    )

    values = properties(GRAPH.model_copy(update={"conf": {"spark.archives": "/own.zip"}}), application, CONFIG)

    assert values["spark.archives"] == (
        "/own.zip,file:///app/archives/env.tar.gz#environment,file:///app/modules.zip#spark-ha-modules"
    )


def test_a_packed_python_finds_what_the_supervisor_finds(tmp_path: Path) -> None:
    packed = GRAPH.model_copy(update={"conf": {"spark.pyspark.python": "./environment/bin/python"}})

    found = json.loads(environment(tmp_path, SPEC, packed, {})["SPARK_HA_IMPORTS"])
    assert sysconfig.get_paths()["purelib"] in found["path"]
    assert {"airflow_provider_ha", "kazoo", "pydantic_core"} <= set(found["names"])
    assert "SPARK_HA_IMPORTS" not in environment(tmp_path, SPEC, GRAPH, {})
