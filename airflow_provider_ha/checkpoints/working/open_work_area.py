"""From a configuration to its work area: the one place that knows which URI scheme is which class."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.working.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.working.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.config import HaConfig, HdfsOptions, S3Options
from airflow_provider_ha.storage.file_store import FileStore
from airflow_provider_ha.storage.hdfs_files import HdfsFileStore
from airflow_provider_ha.storage.s3_files import S3FileStore


def open_work_area(config: HaConfig) -> WorkArea:
    """Return the work area of the cluster. Nothing is written.

    The scheme was checked when the configuration was made.
    """
    files = open_files(config)
    return LinkedWorkArea(config.work_path) if files is None else LayeredWorkArea(files)


def open_files(config: HaConfig) -> FileStore | None:
    """Return the files below the work root of the cluster, where they are layered; ``None`` where they are linked."""
    uri = config.work_uri
    if uri.startswith("s3:"):
        return S3FileStore(uri, config.s3 or S3Options())
    if uri.startswith("hdfs:"):
        return HdfsFileStore(uri, config.hdfs or HdfsOptions())
    return None
