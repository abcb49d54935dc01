"""From a configuration to its work area: the one place that knows which URI scheme is which class."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.working.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.working.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.config import HaConfig, S3Options
from airflow_provider_ha.storage.s3_files import S3FileStore


def open_work_area(config: HaConfig) -> WorkArea:
    """Return the work area of the cluster. Nothing is written.

    The scheme was checked when the configuration was made.
    """
    if config.work_uri.startswith("s3:"):
        return LayeredWorkArea(S3FileStore(config.work_uri, config.s3 or S3Options()))
    return LinkedWorkArea(config.work_path)
