"""The gated job with its working directories on S3 or HDFS: what it has there, and what must not change."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.drain import drain_key
from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.open_work_area import open_files
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.hdfs.hdfs_server import Hdfs
from tests.support.odd_names import ODD
from tests.support.s3.s3_server import S3Access
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.class_archive import java_options
from tests.support.spark.supervised_job import SupervisedJob


ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
HDFS_BACKED = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
CHANGELOG = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true"}
PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def on_s3(config: HaConfig, s3: S3Access, folder: Path) -> HaConfig:
    """Return a cluster whose jobs work in a bucket that no other test uses."""
    return HaConfig.model_validate(
        {
            **config.model_dump(),
            "work_root": f"s3://{s3.new_bucket()}/{ODD}",
            "home_root": f"file://{folder}/home",
            "s3": s3.options(),
        }
    )


def on_hdfs(config: HaConfig, hdfs: Hdfs, folder: Path) -> HaConfig:
    """Return a cluster whose jobs work in a directory of HDFS that no other test uses."""
    return HaConfig.model_validate(
        {
            **config.model_dump(),
            "work_root": f"{hdfs.new_root()}/{ODD}",
            "home_root": f"file://{folder}/home",
            "hdfs": hdfs.options(),
        }
    )


def s3a_class_path() -> dict[str, str]:
    """Return the conf of a Spark to which the site has added S3A."""
    jars = s3a_jars()
    path = ":".join(map(str, jars))
    return {
        "spark.driver.extraClassPath": path,
        "spark.executor.extraClassPath": path,
        "spark.driver.extraJavaOptions": java_options(added=jars),
    }


@dataclass
class LayeredJob(SupervisedJob):
    """The job."""

    conf: dict[str, str] = field(default_factory=s3a_class_path)

    @cached_property
    def files(self) -> ObjectStore:
        """The files below the work root."""
        files = open_files(self.client.config)
        assert files is not None
        return files

    @cached_property
    def area(self) -> LayeredWorkArea:
        """The work area."""
        return LayeredWorkArea(self.files)

    def newest(self) -> SubmissionView:
        """The newest submission."""
        run = self.job.snapshot().run
        assert run is not None
        assert run.newest is not None
        return run.newest

    def key(self, epoch: int) -> str | None:
        """Key of the working directory that an epoch made; ``None`` while there is none."""
        live = JobKeys(self.job_id).live
        found = [name for name in self.files.names(live) if name.startswith(f"e{epoch}-") and "." not in name]
        return f"{live}{found[0]}" if found else None

    def tree(self, epoch: int) -> Tree | None:
        """The directory itself, as it is now."""
        key = self.key(epoch)
        return self.area.tree(key) if key else None

    def drained(self, epoch: int) -> int:
        """The batch that a stop has planned in the fork of an epoch's directory; -1 before that."""
        key = self.key(epoch)
        return progress(self.area.tree(drain_key(key)) / "windows").planned if key else -1

    def await_published(self, epoch: int) -> None:
        """Wait until the newest checkpoint holds all that an epoch has read."""

        def is_published() -> bool:
            newest = next(iter(self.job.checkpoints.list()), None)
            now = self.progress(epoch)
            return newest is not None and newest.cut["windows"] == now.committed == now.planned

        self.await_alive(is_published, "a checkpoint of the last batch")

    def content(self, epoch: int) -> dict[str, str]:
        """Return file -> digest of all that an epoch has written."""
        return {
            file.key: hashlib.sha256(self.files.read(file.key)).hexdigest()
            for file in self.files.list(f"{self.key(epoch)}/")
        }
