"""The runs of a job of which nothing proves that all their processes are dead, at the end of a life of the job.

A deletion removes the exits of the submissions with everything else, and what they prove has to outlive them: a host
that leads in the next life removes the directories of the lives before, and a process that nothing has proven dead may
still work in one of these. A job that is over is no such proof: the host of a lost driver can be cut off, and a
supervisor writes an exit after the result.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from airflow_provider_ha.coordination.coordinator import Coordinator
from airflow_provider_ha.coordination.node_names import node_numbers
from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.coordination.reads import Reads
from airflow_provider_ha.errors import RecordCorruptError
from airflow_provider_ha.jobs.removed_runs import RemovedRunStore, Span
from airflow_provider_ha.jobs.runs import RunStore, decode
from airflow_provider_ha.jobs.submissions import SubmissionExit


log = logging.getLogger(__name__)


def unproven_runs(coordinator: Coordinator, paths: JobPaths, last_run: int) -> tuple[Span, ...]:
    """Return the runs up to *last_run* whose processes may live, as spans, ascending.

    A run that ZooKeeper has lost is one of them: it is neither there nor known as removed.

    :raises RecordCorruptError: Which runs were removed cannot be read.
    """
    before = RemovedRunStore(coordinator, paths).read()
    known = RunStore(coordinator, paths).numbers()
    proven = {run for run in range(1, before.through + 1) if before.removed(run)} - set(known)
    proven |= {run for run in known if _is_proven(coordinator, paths, run)}
    return spans(run for run in range(1, last_run + 1) if run not in proven)


def spans(runs: Iterable[int]) -> tuple[Span, ...]:
    """Return ascending numbers as spans. Pure."""
    found: list[Span] = []
    for run in runs:
        if found and found[-1][1] == run - 1:
            found[-1] = (found[-1][0], run)
        else:
            found.append((run, run))
    return tuple(found)


def _is_proven(coordinator: Coordinator, paths: JobPaths, run: int) -> bool:
    parent = paths.submissions(run)
    exits = tuple(
        paths.submission_exit(run, each) for each in node_numbers(coordinator.children(parent), parent=parent)
    )
    seen = coordinator.read(Reads(exits)).nodes if exits else {}
    try:
        return all(decode(seen[path], SubmissionExit) is not None for path in exits)
    except RecordCorruptError as error:
        log.warning("the directories of run %d stay: %s", run, error)
        return False
