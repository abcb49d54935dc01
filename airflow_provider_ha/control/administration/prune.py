"""What runs of one job that are long over have left, for a person: how much it is, and its removal.

A driver removes it by itself, and so does the leader of the cluster for jobs without one. Here it is done at once, in
the same transactions, with the job's lock a second at a time. A job that has a live run is left to its driver: to take
its lock would look like a leadership of that run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.past import clear_past, past_runs


_PROGRESS_SECONDS = 0.5
Progress = Callable[[int], None]  # runs that are removed


@dataclass(slots=True)
class Pruned:
    """What was found of one job, and what was removed.

    :param runs: How many runs are known.
    :param expendable: Numbers of those that can go.
    :param submissions: How many submissions these have.
    :param tasks: How many tasks had started or followed them.
    :param outputs: How many claims of outputs are of runs that are over.
    :param leases: How many things that are gone have leases that have expired.
    :param removed: How many runs were removed.
    :param kept: Run -> reason why it stays, for runs that are old enough to be removed.
    :param left_to: What removes it, when this was not done here; empty when it was.
    """

    runs: int
    expendable: list[int] = field(default_factory=list)
    submissions: int = 0
    tasks: int = 0
    outputs: int = 0
    leases: int = 0
    removed: int = 0
    kept: dict[int, str] = field(default_factory=dict)
    left_to: str = ""


def prune_job(job: JobContext, *, dry_run: bool, progress: Progress = lambda _: None) -> Pruned:
    """Remove what runs that are long over have left.

    :param dry_run: Whether to count only; then nothing is written.
    :raises RecordCorruptError: Something may refer to a run and cannot be read: nothing is removed.
    :raises JobStateError: A new run has begun; the rest is left to its driver.
    :raises LeadershipError: Another process has begun to lead the job; the rest stays.
    """
    past = past_runs(job)
    found = Pruned(runs=len(job.runs.numbers()))
    count = past.count()
    found.expendable, found.submissions, found.tasks = list(count.runs), count.submissions, count.tasks
    found.outputs, found.leases, found.kept = count.outputs, count.leases, dict(past.kept)
    found.left_to = _left_to(job)
    if not dry_run and not found.left_to:
        _remove(job, found, progress)
    return found


def _left_to(job: JobContext) -> str:
    snapshot = job.snapshot()
    if snapshot.leader is not None:
        return f"epoch {snapshot.leader.epoch} on {snapshot.leader.host}, which leads the job"
    live = snapshot.run is not None and snapshot.run.result is None
    return "the next driver of its live run" if live else ""


def _remove(job: JobContext, found: Pruned, progress: Progress) -> None:
    numbers = job.runs.numbers()
    if not numbers:
        return
    looked = job.clock.lease_time()
    for _ in clear_past(job, numbers[-1]):
        if job.clock.lease_time() - looked >= _PROGRESS_SECONDS:
            progress(found.runs - len(job.runs.numbers()))
            looked = job.clock.lease_time()
    found.removed = len(set(found.expendable) - set(job.runs.numbers()))
