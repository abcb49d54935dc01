"""What the demo on a cluster has beside ZooKeeper and Airflow: Spark's masters and workers, and an S3 server.

Two masters find their leader by a separate ZooKeeper. Each of two workers runs on a test host, with its own processes,
disk and name. Everything of the jobs that is not on such a disk lies in the bucket.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import free_port
from airflow_provider_ha.testing.waiting import wait_until
from java.build_component import NoJdkError, build
from tests.support.clusters.standalone_cluster import (
    TestHost,
    build_cluster,
    can_make_hosts,
)
from tests.support.s3 import versitygw
from tests.support.s3.s3_server import S3Access
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.spark_with import spark_with
from tests.system.harness import processes
from tests.system.harness.servers import REPOSITORY, ServerError, Servers


BUCKET = "demo"
SPARK_CONN_ID = "spark_cluster"
HOSTS = 2


class ClusterServers(Servers):
    """All servers of a demo on a standalone cluster.

    :param home: Everything lies below it.
    """

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        self._masters_zookeeper = free_port()
        root = home / "cluster"
        self.s3 = S3Access(f"http://127.0.0.1:{free_port()}", versitygw.ROOT_ACCESS_KEY, versitygw.ROOT_SECRET_KEY)
        self.cluster = build_cluster(
            root,
            masters=2,
            hosts=HOSTS,
            recovery=f"127.0.0.1:{self._masters_zookeeper}",
            # One executor of one core on each host.
            conf={"spark.deploy.defaultCores": str(HOSTS)},
            spark=home / "spark",
            bound=False,  # it outlives this process with KEEP=1
            environment={processes.MARKER: str(home)},
        )
        self.config = HaConfig.build(
            zookeeper=self.config.zookeeper,
            storage_root=f"s3://{BUCKET}/storage",
            work_root=f"s3://{BUCKET}/work",
            home_root=(self.cluster.hosts[0].mount_point / "home").as_uri(),
            cluster_id=self.config.cluster_id,
            s3=self.s3.options(),
        )

    @cached_property
    def client(self) -> Any:
        """boto3's client."""
        return self.s3.client()

    def prepare(self) -> None:
        """Also fetch S3A and build the S3 server, where that was not done yet.

        :raises ServerError: One of them, or a test host, cannot be had here; says why.
        """
        super().prepare()
        if not can_make_hosts():
            raise ServerError("a test host needs namespaces, which this user may not make: run as root, with unshare")
        try:
            build()  # the component in Spark's JVM
            spark_with(s3a_jars(), self.home / "spark")
            versitygw.binary()
        except (pytest.skip.Exception, NoJdkError) as error:
            raise ServerError(str(error)) from None
        self.cluster.hosts[0].root.mkdir()

    def start(self) -> None:
        """Start all of them; returns once the bucket is there."""
        super().start()
        port = str(self._masters_zookeeper)
        data = str(self.home / "masters-zookeeper")
        module = "tests.support.clusters.masters_zookeeper"
        ours = {"PYTHONPATH": str(REPOSITORY)}  # tests are not installed
        self._run("masters-zookeeper", ["-m", module, "--data-dir", data, "--port", port], ours)
        self._start_s3()
        wait_until(lambda: versitygw.answers(int(port)), timeout=60, what="the masters' ZooKeeper")
        self.cluster.start()

    def wait_until_healthy(self) -> None:
        """Wait for the cluster as well."""
        super().wait_until_healthy()
        self.cluster.await_workers()
        for host in self.cluster.hosts:
            host.write_config(self.config)

    def start_again(self, host: TestHost) -> None:
        """Start a host that was lost, with an empty disk."""
        host.start()
        host.write_config(self.config)
        self.cluster.await_workers()

    def environment(self) -> dict[str, str]:
        """Environment of Airflow."""
        return super().environment() | {f"AIRFLOW_CONN_{SPARK_CONN_ID.upper()}": self._spark_connection()}

    def stop(self) -> list[int]:
        """End everything that the demo started."""
        for daemon in (*self.cluster.hosts, *self.cluster.masters):
            if daemon.process is not None:
                self._started[f"cluster-{daemon.pid}"] = daemon.process
        return super().stop()

    def _spark_connection(self) -> str:
        return json.dumps({"conn_type": "spark", "host": self.cluster.url, "extra": {"deploy-mode": "cluster"}})

    def _extra(self) -> dict[str, Any]:
        extra = super()._extra() | {"work_root": self.config.work_root, "home_root": self.config.home_root}
        extra |= {"s3_endpoint_url": self.s3.endpoint}
        extra |= {"s3_access_key": self.s3.access_key, "s3_secret_key": self.s3.secret_key}
        config_file = str(self.cluster.hosts[0].config_file(self.config))
        options = {"rest_masters": self.cluster.rest_masters, "config_file": config_file}
        return extra | {"engines": {"standalone": options}}

    def _start_s3(self) -> None:
        for name in ("data", "sidecar"):
            (self.home / "s3" / name).mkdir(parents=True)
        places = ["posix", "--sidecar", str(self.home / "s3" / "sidecar"), str(self.home / "s3" / "data")]
        port = self.s3.endpoint.rpartition(":")[2]
        self._started["s3"] = processes.start(
            [str(versitygw.binary()), "--port", f"127.0.0.1:{port}", "--quiet", *places],
            home=self.home,
            env={"ROOT_ACCESS_KEY": self.s3.access_key, "ROOT_SECRET_KEY": self.s3.secret_key},
            log=self.home / "s3.log",
        )
        wait_until(lambda: versitygw.answers(int(port)), timeout=60, what="the S3 server")
        self.client.create_bucket(Bucket=BUCKET)
