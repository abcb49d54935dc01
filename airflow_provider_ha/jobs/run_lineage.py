"""Lineage of a run for OpenLineage: start, progress, inputs and outputs.

Inputs and outputs come from the checkpoints; the script is not analysed for them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from airflow_provider_ha.checkpoints.model import BatchEntry, Checkpoint, QuerySink
from airflow_provider_ha.checkpoints.plan_model import RestorePlan, Verdict
from airflow_provider_ha.checkpoints.restore.plan_execution import read_plan
from airflow_provider_ha.checkpoints.sources.source_registry import DatasetName, read_by, written_by
from airflow_provider_ha.errors import HaError, ObjectMissingError, RecordCorruptError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.model import JobState, StartKind
from airflow_provider_ha.jobs.runs.run_store import RunView


log = logging.getLogger(__name__)
_CHECKPOINTS = 5  # newest ones, searched for the inputs of queries: a checkpoint without new batches does not have them


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageStart:
    """Start of a run.

    :param source_job: Job of the checkpoint or savepoint; ``None`` for a fresh start.
    :param source: ``checkpoint-12``, ``savepoint-<id>``, or the directories; ``None`` for a fresh start.
    :param verdict: Verdict of the restore plan; ``None`` for a fresh start, and for an unreadable plan.
    :param executed_again: Query -> number of recorded batches that the plan executes again.
    """

    kind: StartKind
    source_job: str | None = None
    source: str | None = None
    verdict: Verdict | None = None
    executed_again: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLineage:
    """A run as reported to OpenLineage.

    :param attempt: Its newest submission; ``None`` before the first.
    :param epoch: Epoch of its leader or its result; ``None`` before a driver leads.
    :param checkpoint: Number of the run's newest checkpoint; ``None`` before the first.
    """

    job_id: str
    cluster: str
    run: int
    start: LineageStart
    state: JobState
    attempt: int | None = None
    epoch: int | None = None
    checkpoint: int | None = None
    inputs: tuple[DatasetName, ...] = ()
    outputs: tuple[DatasetName, ...] = ()


def run_lineage(job: JobContext, run: int) -> RunLineage:
    """Return the lineage of a run. Reads only.

    The inputs and outputs of a fresh run are known from its first checkpoint on, and for a restored run from its plan.

    :raises UnknownJobError: The job does not exist.
    :raises RecordCorruptError: The record of the run is damaged.
    :raises NotConnectedError: ZooKeeper does not answer.
    :raises StorageUnavailableError: Storage does not answer.
    """
    snapshot = job.snapshot()
    view = job.runs.get(run)
    is_newest = snapshot.run is not None and snapshot.run.run.number == run
    leader = snapshot.leader if snapshot.leader is not None and snapshot.leader.run == run else None
    result = view.result
    plan = _plan(job, view)
    checkpoints = list(_checkpoints(job, run))
    brokers = _brokers(job, view)
    sinks = {name: query.sink for name, query in (plan.queries if plan is not None else {}).items()}
    read = {name: query.replay for name, query in (plan.queries if plan is not None else {}).items()}
    for checkpoint in reversed(checkpoints):  # newest last, so that it takes precedence
        sinks |= {name: query.sink for name, query in checkpoint.queries.items()}
        read |= {name: query.entries for name, query in checkpoint.queries.items() if query.entries}
    return RunLineage(
        job_id=job.job_id,
        cluster=job.config.cluster_id,
        run=run,
        start=_start(view, plan),
        state=result.state if result is not None else snapshot.state if is_newest else JobState.LOST,
        attempt=view.newest.submission.attempt if view.newest is not None else None,
        epoch=result.epoch if result is not None else leader.epoch if leader is not None else None,
        checkpoint=checkpoints[0].number if checkpoints else None,
        inputs=_inputs(read, brokers),
        outputs=_outputs(sinks),
    )


def _start(view: RunView, plan: RestorePlan | None) -> LineageStart:
    start = view.run.start
    if start.kind is StartKind.FRESH:
        return LineageStart(kind=start.kind)
    named = start.kind in (StartKind.CHECKPOINT, StartKind.SAVEPOINT)
    again = {name: len(query.replay) for name, query in plan.queries.items()} if plan is not None else {}
    return LineageStart(
        kind=start.kind,
        source_job=start.source_job,
        source=f"{start.kind.value}-{start.source_id}" if named else start.source_id,
        verdict=plan.verdict if plan is not None else None,
        executed_again={name: count for name, count in again.items() if count},
    )


def _plan(job: JobContext, view: RunView) -> RestorePlan | None:
    if view.run.start.plan is None:
        return None
    try:
        return read_plan(job.store, view.run.start.plan.sha256)
    except (ObjectMissingError, RecordCorruptError) as error:
        log.info("the plan of run %d of %s is left out of its lineage: %s", view.run.number, job.job_id, error)
        return None


def _checkpoints(job: JobContext, run: int) -> Iterator[Checkpoint]:
    """Yield the newest readable checkpoints of the run, newest first."""
    store = checkpoint_store(job)
    for pointer in [each for each in store.list() if each.run == run][:_CHECKPOINTS]:
        with suppress(ObjectMissingError, RecordCorruptError):  # just removed, or left to a verification
            yield store.load(pointer)


def _brokers(job: JobContext, view: RunView) -> Mapping[str, str]:
    try:
        return job.graph(view.run.graph).options.kafka_bootstrap
    except HaError as error:
        log.info("the graph of run %d of %s is left out of its lineage: %s", view.run.number, job.job_id, error)
        return {}


def _inputs(read: Mapping[str, tuple[BatchEntry, ...]], brokers: Mapping[str, str]) -> tuple[DatasetName, ...]:
    return tuple(sorted({each for name, entries in read.items() for each in read_by(entries, brokers.get(name))}))


def _outputs(sinks: Mapping[str, QuerySink]) -> tuple[DatasetName, ...]:
    return tuple(sorted({each for sink in sinks.values() for each in written_by(sink)}))
