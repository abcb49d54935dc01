"""The recorded job in a work area without links: a takeover lies behind it, so its files are in two directories."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.areas import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.storage.object_store import ObjectStore
from tests.support.checkpoints.layered_files import FIRST, SECOND
from tests.support.spark.recorded_job import QUERY, recorded_job


def take_over(area: WorkArea) -> None:
    """Make the directory in which a real query has worked, and the one in which its successor goes on."""
    first, recorded = area.create(FIRST), recorded_job() / "live"
    for path in sorted(path for path in recorded.rglob("*") if path.is_file()):
        first.write(str(path.relative_to(recorded)), path.read_bytes())
    area.fence(FIRST)
    area.create(SECOND)
    area.fork(f"{FIRST}/{QUERY}", f"{SECOND}/{QUERY}", keep_planned=True)


def files_of(config: HaConfig) -> ObjectStore:
    """Return the files below the work root of a cluster."""
    files = open_work_area.open_files(config)
    assert files is not None
    return files
