"""Real servers for the matrix of sinks, each started when its first cell is played."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.embedded import EmbeddedZooKeeper
from tests.support.clusters import submit_helpers
from tests.support.hdfs.hdfs_server import CLIENT, Hdfs, hdfs_server
from tests.support.ivy import Wanted, jars
from tests.support.s3.s3_server import S3Access, real_server
from tests.support.sinks.cells import Cell, Sink, Store
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.kafka_server import Kafka, broker, connector_jars
from tests.support.spark.layered_job import LayeredJob, on_hdfs, on_s3, s3a_class_path
from tests.support.spark.supervised_job import SupervisedJob


QUERY = "numbers"
DELTA = "4.4.0"
_DELTA_CONF = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


class Stage:
    """The servers, and a job for each cell.

    :param folder: Of the servers and the jobs.
    """

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    @cached_property
    def _zookeeper(self) -> str:
        place = self._folder / "zookeeper"
        place.mkdir(parents=True)
        return self._stack.enter_context(EmbeddedZooKeeper(place)).hosts

    @cached_property
    def _hdfs(self) -> Hdfs:
        return self._stack.enter_context(hdfs_server())

    @cached_property
    def _s3(self) -> S3Access:
        return self._stack.enter_context(real_server())

    @cached_property
    def kafka(self) -> Kafka:
        """One broker."""
        return self._stack.enter_context(broker())

    @contextmanager
    def job(self, cell: Cell) -> Iterator[tuple[SupervisedJob, str]]:
        """Yield the job of a cell, which is not submitted yet, and where its query writes."""
        root = self._folder / f"{cell.name}-{new_id()[:6]}"
        root.mkdir(parents=True)
        config = HaConfig.build(
            zookeeper=self._zookeeper, storage_root=f"file://{root}/storage", cluster_id=f"c-{new_id()[:12]}"
        )
        made, output, conf = SupervisedJob, str(root / "out"), dict[str, str]()
        if cell.store is Store.HDFS:
            config, made = on_hdfs(config, self._hdfs, root), LayeredJob
            output, conf = f"{self._hdfs.new_root()}/out", dict(CLIENT)
        elif cell.store is Store.S3:
            config, made = on_s3(config, self._s3, root), LayeredJob
            # The connection's keys are for the bucket of the work root alone.
            output, conf = f"s3a://{urlsplit(config.work_uri).netloc}/out", s3a_class_path()
        if cell.sink is Sink.KAFKA:
            output, conf = self.kafka.new_topic(), conf | {"spark.jars": connector_jars()}
        elif cell.sink is Sink.DELTA:
            conf = conf | delta_conf()
        with HaClient.open(config) as client:
            job = made(client, Stream(root), (QUERY,), conf=conf)
            try:
                yield job, output
            finally:
                for job_id in client.list_jobs():
                    submit_helpers.kill_all(client.context(job_id))


@contextmanager
def stage(folder: Path) -> Iterator[Stage]:
    """Yield a stage; its servers end with the block."""
    with ExitStack() as stack:
        yield Stage(folder, stack)


def delta_conf() -> dict[str, str]:
    """Return the conf of a session with Delta; skips the test where its jars cannot be had."""
    parts = ("delta-spark_4.2_2.13", "delta-storage")
    found = jars(f"delta-{DELTA}", tuple(Wanted("io.delta", part, DELTA, transitive=False) for part in parts))
    return _DELTA_CONF | {"spark.jars": ",".join(map(str, found))}
