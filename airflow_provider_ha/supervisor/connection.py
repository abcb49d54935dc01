"""A ZooKeeper session of the supervisor, open for the duration of one step, and its job.

A supervisor holds no session while its driver lives: the driver's own session leads. Each step after a death opens a
session, so that after an outage the step is repeated with a fresh one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination._kazoo import KazooCoordinator
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec
from airflow_provider_ha.jobs.job_records import JobRecords
from airflow_provider_ha.storage.open import open_store


@contextmanager
def connected(spec: DriverSpec) -> Iterator[JobRecords]:
    """Yield the job of a submission, over a session that ends with the block.

    :raises NotConnectedError: No ZooKeeper server answers.
    :raises StorageError: The storage cannot be opened.
    """
    with closing(KazooCoordinator.connect(spec.config)) as coordinator:
        yield JobRecords(
            job_id=spec.job_id,
            config=spec.config,
            coordinator=coordinator,
            store=open_store(spec.config, RootsOfCluster(spec.config, coordinator)),
            clock=SystemClock(),
        )
