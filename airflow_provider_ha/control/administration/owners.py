"""Whose jobs these are: the owners of many jobs, in two round trips."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.coordination.steps import Steps, follow_all
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.model import Run
from airflow_provider_ha.jobs.runs import decode


_AT_ONCE = 250  # jobs in one round trip: their answers fit the time of a heartbeat


def read_owners(coordinator: Coordinator, cluster: ClusterPaths, job_ids: Sequence[str]) -> dict[str, str | None]:
    """Return job -> its owner; ``None`` for a job without one, and for one whose newest run cannot be read.

    :raises NotConnectedError: It could not be found out.
    """
    found: list[str | None] = []
    for start in range(0, len(job_ids), _AT_ONCE):
        some = job_ids[start : start + _AT_ONCE]
        found += follow_all(coordinator, [_owner_steps(cluster.job(job_id)) for job_id in some])
    return dict(zip(job_ids, found, strict=True))


def _owner_steps(paths: JobPaths) -> Steps[str | None]:
    first = yield Reads((), (paths.runs,))
    numbers = node_numbers(first.lists[paths.runs], parent=paths.runs)
    if not numbers:
        return None
    second = yield Reads((paths.run(numbers[-1]),))
    try:
        run = decode(second.nodes[paths.run(numbers[-1])], Run)
    except RecordCorruptError:
        return None
    return run.owner if run is not None else None
