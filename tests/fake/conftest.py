"""Fixtures that the tests of this folder share."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.job_context import JobContext
from tests.conformance.stores.stage import Stage
from tests.conftest import FAST
from tests.fake.jobs import World
from tests.support.fake import FakeEnsemble


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    storage = f"file://{tmp_path}/storage"
    return Stage(HaConfig.build(zookeeper="fake:1", storage_root=storage, cluster_id="fake", timings=FAST))


@pytest.fixture
def ensemble() -> FakeEnsemble:
    return FakeEnsemble(tick=0.2)


@pytest.fixture
def job(world: World) -> JobContext:
    return world.job(world.session("caller"))
