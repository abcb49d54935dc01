"""What a work root asks of a job is refused at submit, where it is known there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError
from airflow_provider_ha.host.engines._master_rest import MasterResponse, MasterRest, MasterUnreachableError
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph, Target
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.submit import preparation
from airflow_provider_ha.jobs.submit.preparation import check_local_recovery, check_work_root, resolve


MOUNTED = HaConfig.build(zookeeper="zk:2181", storage_root="file:///s")
ON_S3 = HaConfig.build(
    zookeeper="zk:2181", storage_root="file:///s", work_root="s3://bucket/work", home_root="file:///h"
)
OWNED = {"spark.sql.streaming.checkpointFileManagerClass": "org.example.Manager"}


def spark(folder: Path, release: str) -> Target:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / f"spark-core_2.13-{release}.jar").touch()
    return Target(engine_options={"spark_home": str(folder)})


def check(config: HaConfig, target: Target, conf: Mapping[str, str]) -> None:
    """Check a work root for drivers of the target's engine."""
    check_work_root(config, Engines.of(config).get(target.engine), target, conf)


@pytest.fixture(autouse=True)
def built(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation with the component."""
    monkeypatch.setattr(preparation, "component_jar", lambda: Path("component.jar"))


@pytest.mark.parametrize("release", ["3.5.9", "4.0.5"])
def test_a_spark_that_cannot_create_on_condition_is_refused(tmp_path: Path, release: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"is of release {release}.*Install Spark 4\.1 or newer"):
        check(ON_S3, spark(tmp_path / "spark", release), {})


@pytest.mark.parametrize("release", ["4.1.0", "4.2.0-SNAPSHOT"])
def test_later_ones_are_taken(tmp_path: Path, release: str) -> None:
    check(ON_S3, spark(tmp_path / "spark", release), {})


def masters(monkeypatch: pytest.MonkeyPatch, *releases: str) -> Target:
    """A cluster whose masters are of these releases; one without a release does not answer."""
    said = {f"http://m{number}:6066": release for number, release in enumerate(releases)}

    def status(master: MasterRest, driver: str) -> MasterResponse:
        if not said[master.url]:
            raise MasterUnreachableError("no route to it")
        return MasterResponse(success=False, message=f"{driver} is not known", spark=said[master.url])

    monkeypatch.setattr(MasterRest, "status", status)
    url = "spark://" + ",".join(f"m{number}:7077" for number in range(len(releases)))
    return Target(engine="standalone", master=url)


def test_a_cluster_of_an_old_spark_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    target = masters(monkeypatch, "", "4.0.5")

    with pytest.raises(ConfigurationError, match=r"the Spark of http://m1:6066 is of release 4\.0\.5"):
        check(ON_S3, target, {})


def test_a_cluster_that_does_not_say_its_release_is_looked_at_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    check(ON_S3, masters(monkeypatch, "", ""), {})


def test_a_cluster_of_a_later_spark_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    check(ON_S3, masters(monkeypatch, "4.1.0-SNAPSHOT"), {})


def test_the_spark_that_an_option_names_on_the_workers_is_looked_at_by_its_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = masters(monkeypatch, "4.0.5")
    named = spark(tmp_path / "spark", "4.1.0").engine_options

    check(ON_S3, target.model_copy(update={"engine_options": named}), {})


def test_conf_of_the_component_is_refused_on_every_engine() -> None:
    with pytest.raises(ApplicationRefusedError, match=r"checkpointFileManagerClass to org\.example\.Manager"):
        check(ON_S3, Target(engine="standalone", master="spark://m:7077"), OWNED)


def test_an_installation_without_the_component_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> Path:
        raise ConfigurationError("this installation has no component")

    monkeypatch.setattr(preparation, "component_jar", gone)

    with pytest.raises(ConfigurationError, match="no component"):
        check(ON_S3, Target(), {})


def test_a_mounted_work_root_asks_for_nothing(tmp_path: Path) -> None:
    check(MOUNTED, spark(tmp_path / "spark", "3.5.9"), OWNED)


def test_all_mistakes_of_a_request_are_named_together_before_anything_is_written(tmp_path: Path) -> None:
    job: Any = SimpleNamespace(config=MOUNTED, engines=Engines.of(MOUNTED))
    graph = JobGraph(
        job_id="orders",
        name="orders",
        application=Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=0)),
        conf={"executor.cores": "2"},
        target=Target(master="spark://m:7077", engine_options={"interpreter": "python3"}),
    )

    with pytest.raises(ConfigurationError) as refused:
        resolve(job, graph, {"application": tmp_path / "gone.py", "files": [tmp_path / "gone.csv"]})

    for mistake in ("'executor.cores'", "spark://m:7077", "'interpreter'", "gone.py", "gone.csv"):
        assert mistake in refused.value.message
    assert "allow_remote_executors" in refused.value.next_step


def test_copies_of_state_on_a_mounted_work_root_are_refused() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"needs a work root on S3 or HDFS, and .* is a directory of the host.*Use local_recovery=False",
    ):
        check_local_recovery(MOUNTED, HaOptions(local_recovery=True))


def test_copies_of_state_behind_the_component_are_taken() -> None:
    check_local_recovery(ON_S3, HaOptions(local_recovery=True))
    check_local_recovery(MOUNTED, HaOptions())


@pytest.mark.parametrize("place", ["copies", "", "/var/co\npies"])
def test_a_directory_of_copies_that_is_no_absolute_path_is_refused(place: str) -> None:
    with pytest.raises(ValidationError, match=r"is not the absolute path of a directory.*Name a directory"):
        HaOptions(local_recovery_dir=place)
