"""A cluster whose jobs work where nothing is linked or renamed: on files of this host used so, on S3, or on HDFS.

On S3 everything of the cluster lies there. The servers are started once for all tests of a process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.variables import variables_of
from tests.support.hdfs.hdfs_server import Hdfs, hdfs_server
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.spark.layered_job import on_hdfs, on_s3


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Access]:
    with real_server() as access:
        yield access


@pytest.fixture(scope="session")
def hdfs() -> Iterator[Hdfs]:
    with hdfs_server() as server:
        yield server


@pytest.fixture(
    params=["files", pytest.param("s3", marks=pytest.mark.long), pytest.param("hdfs", marks=pytest.mark.hours)]
)
def config(
    config: HaConfig, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> HaConfig:
    """The cluster, and the environment by which the command reaches it."""
    if request.param == "s3":
        server: S3Access = request.getfixturevalue("s3")
        made = on_s3(config, server, tmp_path)
        made = made.model_copy(update={"storage_root": f"s3://{server.new_bucket()}/store"})
    elif request.param == "hdfs":
        made = on_hdfs(config, request.getfixturevalue("hdfs"), tmp_path)
    else:
        made = config.model_copy(update={"home_root": f"file://{tmp_path}/home"})
        files = LocalStore(made.work_path, new=True)
        monkeypatch.setattr("airflow_provider_ha.checkpoints.areas.open_work_area.open_files", lambda _: files)
    for name, value in variables_of(made).items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture
def environment(config: HaConfig) -> None:
    """Of the command: set with the cluster."""
    del config


@pytest.fixture
def area(config: HaConfig) -> WorkArea:
    """Where the jobs of the cluster work."""
    return open_work_area(config)


@pytest.fixture
def job(config: HaConfig, coordinator: Coordinator, area: WorkArea) -> Iterator[Job]:
    """A job without checkpoints that this process leads."""
    with led_job(config, coordinator) as led:
        yield dataclasses.replace(
            led,
            checkpoints=CheckpointStore(coordinator, led.objects, led.paths, led.keys, area),
            savepoints=SavepointStore(coordinator, led.paths, led.keys, area),
        )


@pytest.fixture
def context(job: Job) -> JobContext:
    """The same job for the control plane."""
    return helpers.context(job.config, job.coordinator, job_id=job.paths.job_id)
