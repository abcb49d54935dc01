"""What the live run of a job begins from, for the one who removes it.

Invariant: a submitter takes no lock, so a look at the runs is no proof. What was seen comes with operations that fail
when a run was made since, and a run is made only while its start is there (``control.submission``). So of a removal and
a submission at the same moment one is rejected.
"""

from __future__ import annotations

from airflow_provider_ha.coordination.coordinator import Check, Coordinator, Create, Delete
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.jobs.deleted import Life, read_life
from airflow_provider_ha.jobs.model import Run, StartKind
from airflow_provider_ha.jobs.removed_runs import RemovedRunStore
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.pointers.start_of_run import StartOfRun


def start_of_run(coordinator: Coordinator, paths: JobPaths) -> StartOfRun:
    """Return what the live run of a job begins from.

    :raises RecordCorruptError: That cannot be read: nothing is known.
    """
    life = read_life(coordinator, paths)
    if life.deleted is not None:
        # The first run of a new life writes that node.
        return StartOfRun(unchanged=(Check(paths.base, life.version),))
    runs = RunStore(coordinator, paths)
    numbers = runs.numbers()
    # Without any run its parent may be missing, and the submitter makes that first.
    has_parent = bool(numbers) or coordinator.find(paths.runs) is not None
    following = paths.run(next_number(coordinator, paths, numbers, life)) if has_parent else paths.runs
    # ZooKeeper has no check for absence: what can be made and removed at once is not there.
    unchanged = (Create(following), Delete(following))
    newest = runs.runs(numbers[-1:]).get(numbers[-1]) if numbers else None
    if newest is None or runs.result(newest.number) is not None:
        return StartOfRun(unchanged=unchanged)
    return StartOfRun(run=newest.number, savepoint_id=_own_savepoint(newest, paths), unchanged=unchanged)


def next_number(coordinator: Coordinator, paths: JobPaths, numbers: list[int], life: Life) -> int:
    """Return the number of the next run of a job: one that no run has had."""
    through = RemovedRunStore(coordinator, paths).read().through
    return max(through, life.last_run, *numbers) + 1  # guard: numbers-of-removed-runs-come-again


def _own_savepoint(run: Run, paths: JobPaths) -> str | None:
    own = run.start.kind is StartKind.SAVEPOINT and run.start.source_job == paths.job_id
    return run.start.source_id if own else None
