"""What every action of the control plane on one job needs, as one value."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from airflow_provider_ha.checkpoints.working.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.coordination.node_names import is_checkpoint, is_plain, ours
from airflow_provider_ha.engines.registry import Engines
from airflow_provider_ha.jobs.job_records import JobRecords


@dataclass(frozen=True, slots=True, kw_only=True)
class JobContext(JobRecords):
    """One job of one cluster, and the engines that run drivers. Owns nothing.

    :param sleep: Waits for some seconds; injected, so that a test need not wait.
    """

    engines: Engines
    sleep: Callable[[float], None] = time.sleep

    @property
    def area(self) -> WorkArea:
        """Where the job works."""
        return open_work_area(self.config, self.roots)

    @property
    def has_state(self) -> bool:
        """Whether the job has a checkpoint or a savepoint. By name: one that cannot be read is state as well."""
        parents = ((self.paths.checkpoints, is_checkpoint), (self.paths.savepoints, is_plain))
        return any(ours(self.coordinator.children(parent), is_ours, parent=parent) for parent, is_ours in parents)
