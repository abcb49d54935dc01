"""Factory of work areas: the only place that maps a URI scheme to a class."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.storage.object_store import ObjectStore
from airflow_provider_ha.storage.open_storage import layered_files
from airflow_provider_ha.storage.roots import Roots


def open_work_area(config: HaConfig, roots: Roots | None = None) -> WorkArea:
    """Return the work area of the cluster. Writes nothing.

    The configuration has already checked the scheme.

    :param roots: The roots of the cluster, required from writers: the area checks the marker of its root.
    """
    files = open_files(config)
    area: WorkArea = LinkedWorkArea(config.work_path) if files is None else LayeredWorkArea(files)
    area.roots = roots
    return area


def open_files(config: HaConfig) -> ObjectStore | None:
    """Return the files below the work root of a layered cluster; ``None`` for linked files."""
    return layered_files(config, config.work_uri)
