"""What spark-submit is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.driver.spark_submit import properties, render
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.artifacts import FetchedApplication
from airflow_provider_ha.jobs.model import Artifact, Blob, JobGraph


GRAPH = JobGraph(
    job_id="flights",
    name="flights of 2013",
    application=Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=1)),
    packages=("org.example:thing:1",),
    conf={"spark.jars": "/own.jar", "spark.master": "yarn"},
    master="local[2]",
    driver_memory="1g",
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

    values = properties(GRAPH, application)

    assert values == {
        "spark.master": "local[2]",
        "spark.app.name": "flights of 2013",
        "spark.submit.deployMode": "client",
        "spark.driver.memory": "1g",
        "spark.jars": "/own.jar,/app/x.jar",
        "spark.jars.packages": "org.example:thing:1",
        "spark.submit.pyFiles": "/a.zip",
    }
