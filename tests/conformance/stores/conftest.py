"""A job on the fake ensemble for what fails, and one on a real ZooKeeper for what is seen there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.storage.local_store import LocalStore
from tests.conformance.stores.stage import Stage
from tests.conftest import FAST
from tests.support.checkpoints.checkpoint_helpers import Job, led_job
from tests.support.clusters.coordination_helpers import job_paths
from tests.support.clusters.pointer_helpers import Pointers, leading


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """The fake ensemble, and new storage."""
    return Stage(
        HaConfig.build(zookeeper="fake:1", storage_root=f"file://{tmp_path}/storage", cluster_id="c", timings=FAST)
    )


@pytest.fixture
def job(stage: Stage) -> Job:
    """A job that is led on the fake ensemble."""
    return stage.leader("leader")


@pytest.fixture
def entries(stage: Stage, job: Job, tmp_path: Path) -> Pointers:
    """Plain pointers of the same job."""
    objects = LocalStore(tmp_path / "objects")
    return Pointers(job.coordinator, job.leadership, objects, job.paths, tmp_path / "work", clock=stage.wall)


@pytest.fixture
def real_job(config: HaConfig, coordinator: Coordinator) -> Iterator[Job]:
    """A job that is led on a real ZooKeeper."""
    with led_job(config, coordinator) as led:
        yield led


@pytest.fixture
def real_entries(config: HaConfig, coordinator: Coordinator, tmp_path: Path) -> Iterator[Pointers]:
    """Plain pointers on a real ZooKeeper."""
    with leading(config, coordinator, clock=None) as leadership:
        objects = LocalStore(tmp_path / "objects")
        yield Pointers(coordinator, leadership, objects, job_paths(config), tmp_path / "work")
