"""A standalone cluster whose processes authenticate: a job works there, and nothing shows the secret.

Masters and workers have the secret in a private ``spark-defaults.conf``, as Spark's guide wants it; the job says only
that it authenticates.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.fleet.znode_tree import read_tree, walk
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.clusters.standalone_cluster import StandaloneCluster, command_of, standalone_cluster
from tests.support.clusters.standalone_requests import (
    JOB_CONF,
    MARKS,
    PATIENCE,
    SMALL_EXECUTOR,
    refuse_end,
    submitted_to,
)
from tests.support.spark.driver_helpers import APPS, Stream


pytestmark = [*MARKS, pytest.mark.timeout(1200)]
SECRET = "the-secret-of-all-processes"


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    root = tmp_path_factory.mktemp("standalone")
    site = root / "conf"
    site.mkdir()
    (site / "spark-defaults.conf").write_text(f"spark.authenticate true\nspark.authenticate.secret {SECRET}\n")
    (site / "spark-defaults.conf").chmod(0o600)
    with standalone_cluster(root, environment={"SPARK_CONF_DIR": str(site)}) as running:
        yield running


def test_a_job_works_on_a_cluster_that_authenticates_and_nothing_shows_the_secret(
    config: HaConfig,
    coordinator: Coordinator,
    cluster_paths: ClusterPaths,
    cluster: StandaloneCluster,
    tmp_path: Path,
) -> None:
    stream = Stream(tmp_path / "stream")
    stream.feed(2)

    with HaClient.open(config) as client:
        job = client.job("counts")
        job.submit(
            JobSpec(
                job_id="counts",
                request_id="test",
                application=str(APPS / "counts.py"),
                arguments=[*stream.arguments, "0"],
                conf=JOB_CONF | SMALL_EXECUTOR | {"spark.authenticate": "true"},
                ha=HaOptions(allow_remote_executors=True),
                **submitted_to(cluster, config),
            )
        )

        def written() -> bool:
            refuse_end(job)
            return stream.database.exists() and stream.seen() == stream.expected_rows(stream.files)

        wait_until(written, timeout=PATIENCE, what="the output")
        (host,) = cluster.hosts
        master = cluster.active
        assert master is not None
        executors, commands = host.executors(), [command_of(each) for each in host.processes()]
        shown = [json.dumps(master.seen), *commands]
        tree = read_tree(coordinator, cluster_paths.base)
        assert tree is not None
        nodes = b"".join(coordinator.get(node.path).data for node in walk(tree))

    assert executors
    assert not [text for text in shown if SECRET in text]
    assert SECRET.encode() not in nodes
    # Not by glob: a directory of an executor may be removed while it is searched.
    files = [Path(folder, name) for folder, _, names in os.walk(cluster.hosts[0].root) for name in names]
    logs = [path for path in files if path.suffix == ".log" or path.name.startswith("std")]
    assert logs
    assert not [path for path in logs if SECRET in path.read_text(errors="replace")]
