"""Which query of a script is the one that is to be proven."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.verify.proof_protocol import Application, ProofRequest
from airflow_provider_ha.driver.queries.writer_notes import WriterNotes
from airflow_provider_ha.host.proof.main import forced, spark_properties
from airflow_provider_ha.host.proof.script_start import is_wanted


def request(
    scratch: Path = Path("/s"), *, query: str | None = None, conf: dict[str, str] | None = None
) -> ProofRequest:
    return ProofRequest(
        copy_directory=Path("/s/copy"),
        original="/data/counts",
        batch=8,
        state_by_id=False,
        query=query,
        application=Application(script=Path("/apps/app.py"), conf=conf or {}),
        scratch=scratch,
        heap="2g",
    )


@pytest.mark.parametrize(
    ("name", "location", "wanted"),
    [
        ("any", "/data/counts", True),
        ("any", "file:///data/counts", True),
        ("any", "file:/data/../data/counts/", True),
        ("counts", "/data/other", False),
        ("counts", "s3a://data/counts", False),
        ("counts", None, True),  # a managed job: the location comes from the conf
        ("other", None, False),
        (None, None, False),
    ],
)
def test_without_a_name_it_is_the_one_of_this_location_else_of_this_name(
    name: str | None, location: str | None, *, wanted: bool
) -> None:
    options = {} if location is None else {"checkpointlocation": location}

    assert is_wanted(request(), WriterNotes(name=name, options=options)) is wanted


@pytest.mark.parametrize(
    ("original", "location", "wanted"),
    [
        ("s3://data/counts", "s3a://data/counts/", True),
        ("s3://data/counts", "s3a://data/other", False),
        ("s3://data/counts", "/data/counts", False),
        ("hdfs://namenode:8020/counts", "hdfs://NAMENODE:8020/counts", True),
        ("s3://data/counts", None, True),
        ("s3://data/counts", "gs://data/counts", False),
    ],
)
def test_a_location_in_a_store_is_known_in_every_spelling(original: str, location: str | None, *, wanted: bool) -> None:
    options = {} if location is None else {"checkpointlocation": location}
    asked = request().model_copy(update={"original": original})

    assert is_wanted(asked, WriterNotes(name="counts", options=options)) is wanted


def test_a_name_that_is_asked_for_decides_alone() -> None:
    elsewhere = {"checkpointlocation": "/data/counts"}

    assert is_wanted(request(query="late"), WriterNotes(name="late"))
    assert not is_wanted(request(query="late"), WriterNotes(name="counts", options=elsewhere))


@pytest.mark.parametrize(("size", "quick"), [(46 << 10, True), (1 << 30, False)])
def test_the_jvm_of_a_small_proof_starts_quickly_and_says_what_the_application_says_after_it(
    size: int, quick: bool, tmp_path: Path
) -> None:
    asked = request(tmp_path, conf={"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=4"})

    options = spark_properties(asked.model_copy(update={"size": size}))["spark.driver.extraJavaOptions"].split()

    assert options[:-1] == ["-XX:TieredStopAtLevel=1"] * quick + ["-XX:TieredStopAtLevel=4"]


def test_no_application_leaves_this_host_or_the_scratch_directory(tmp_path: Path) -> None:
    conf = {"spark.master": "spark://prod:7077", "spark.local.dir": "/data", "spark.sql.extensions": "io.x.Y"}
    values = spark_properties(request(tmp_path, conf=conf))

    assert values["spark.master"] == "local[2]"
    assert values["spark.driver.memory"] == "2g"
    assert values["spark.sql.extensions"] == "io.x.Y"
    assert values["spark.driver.bindAddress"] == "127.0.0.1"
    assert {key for key, value in forced(request(tmp_path)).items() if str(tmp_path) in value} == {
        "spark.local.dir",
        "spark.sql.warehouse.dir",
        "spark.sql.streaming.checkpointLocation",
    }


def test_the_workers_of_a_proof_import_what_lies_beside_the_script(tmp_path: Path) -> None:
    values = spark_properties(request(tmp_path, conf={"spark.executorEnv.PYTHONPATH": "/opt/lib"}))

    assert values["spark.executorEnv.PYTHONPATH"] == "/apps:/opt/lib"
