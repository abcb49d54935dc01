"""A job whose checkpoints are on HDFS: killed after a batch is in the sink; the output is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.layered_job import LayeredJob, on_hdfs
from tests.support.spark.supervised_job import terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
CLIENT = {"spark.hadoop.dfs.replication": "1", "spark.hadoop.dfs.client.use.datanode.hostname": "true"}


@pytest.fixture
def config(config: HaConfig, hdfs: Hdfs, tmp_path: Path) -> HaConfig:
    return on_hdfs(config, hdfs, tmp_path)


def test_a_killed_driver_is_followed_by_one_that_goes_on_from_its_base(client: HaClient, tmp_path: Path) -> None:
    job = LayeredJob(client, Stream(tmp_path), ("windows", "rows"), conf=dict(CLIENT))
    job.stream.feed(3)
    job.submit()
    job.await_sink(2)
    job.kill()
    before = job.content(1)

    job.recover()
    job.stream.feed(1)
    job.await_read(2)

    terminate_and_compare(job, 4)
    after = job.content(1)
    assert {name: after[name] for name in before} == before
