"""The application of a managed job, as a proof gets it."""

from __future__ import annotations

from pathlib import Path

from airflow_provider_ha.control.verification.cut_proof import application_of
from airflow_provider_ha.jobs.application.artifacts import upload_application
from airflow_provider_ha.jobs.model import JobGraph
from airflow_provider_ha.storage.local import LocalStore


def test_the_application_of_a_job_graph_comes_with_all_that_its_driver_gets(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("print()")
    (tmp_path / "data.csv").write_text("1")
    store = LocalStore(tmp_path / "store")
    uploaded = upload_application(store, application=tmp_path / "app.py", files=[tmp_path / "data.csv"])
    graph = JobGraph(
        job_id="j",
        name="j",
        application=uploaded.application,
        files=uploaded.files,
        arguments=("--input", "/data"),
        conf={"spark.sql.extensions": "x"},
        env={"REGION": "eu"},
        packages=("a:b:1",),
        master="spark://prod:7077",
    )
    found = application_of(store, graph, tmp_path / "fetched")

    assert found.script.read_text() == "print()"
    assert found.script.is_relative_to(tmp_path / "fetched")
    assert (found.arguments, found.packages) == (("--input", "/data"), ("a:b:1",))
    assert (found.conf, found.env) == ({"spark.sql.extensions": "x"}, {"REGION": "eu"})
    assert found.directory is not None
    assert (found.directory / "data.csv").read_text() == "1"
