"""From a configuration to its work area: the one place that knows which URI scheme is which class."""

from __future__ import annotations

from airflow_provider_ha.checkpoints.working.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.config import HaConfig


def open_work_area(config: HaConfig) -> WorkArea:
    """Return the work area of the cluster. Nothing is written.

    The scheme was checked when the configuration was made.
    """
    return LinkedWorkArea(config.work_path)
