"""Preconditions of a submission: no other live run, no earlier output, no move to another cluster.

A request with the same application and the same start recovers the lost run and follows it. A different request is
refused with both choices, because the user may want either: to continue the lost run, or to replace it.

A start without a checkpoint numbers batches from 0 again. A sink that skips known batch numbers then skips rows, and
any other sink receives again all rows that the source replays. The behaviour of a ``foreachBatch`` function cannot be
detected.

Invariant: only reads. Batches that the records no longer cover count as written. File sinks are left to the driver,
which checks the output that the script names (``driver.queries.query_start``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.working_records import read_started
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.checkpoints.sinks.sink_registry import type_of
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress, queries
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.errors import JobStateError, ObjectMissingError, RecordCorruptError, RestoreRefusedError
from airflow_provider_ha.jobs.graph_store import differences
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_stores import checkpoint_store
from airflow_provider_ha.jobs.model import Generation, StartKind, StartPoint
from airflow_provider_ha.jobs.move.move_records import read_arrival, read_moved
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from airflow_provider_ha.jobs.recovery.lost_runs import LostRun
from airflow_provider_ha.jobs.removal.removal_records import RemovedRunStore, read_life
from airflow_provider_ha.jobs.restore.recorded_past import last_directory
from airflow_provider_ha.jobs.runs.submissions import Failure
from airflow_provider_ha.jobs.submit.preparation import describe
from airflow_provider_ha.jobs.submit.requests import FRESH, LATEST, LostRunPolicy, named_directories
from airflow_provider_ha.uris import split


_NOT_NAMED = QuerySink(kind=SinkKind.OTHER)


def require_nothing_given(job: JobContext, accepted: Collection[Verdict]) -> None:
    """Refuse a start without a checkpoint if the job's queries have passed batches to their sinks, unless accepted.

    :raises RestoreRefusedError: The loss is possible and not accepted.
    :raises RecordCorruptError: The records are damaged.
    :raises StorageUnavailableError: The records could not be read.
    """
    if Verdict.LOSS_POSSIBLE in accepted or not _has_a_past(job):
        return
    reason = _reason(job)
    if reason:
        go_on = "Submit with start_from='latest' to continue from the newest checkpoint, or accept it"
        raise RestoreRefusedError(
            f"starting job {job.job_id!r} from nothing is {Verdict.LOSS_POSSIBLE.value}: {reason}",
            next_step=f"{go_on if job.has_state else 'Accept it'} with accept_verdicts={Verdict.LOSS_POSSIBLE.value}, "
            "when the sinks are empty, or remember batches by context.current().query_id()",
            options=("start_from", "accept_verdicts"),
        )


def _has_a_past(job: JobContext) -> bool:
    """Return whether a run has worked, in this life of the job or in an earlier life with kept savepoints."""
    if job.coordinator.find(job.paths.generation) is not None:
        return True
    deleted = read_life(job.coordinator, job.paths).deleted
    if deleted is not None:
        return deleted.keep_savepoints
    return RemovedRunStore(job.coordinator, job.paths).read().past is not None


def _reason(job: JobContext) -> str:
    given, sinks = dict[str, int](), dict[str, QuerySink]()
    for payload in checkpoint_store(job).payloads():
        sinks |= {name: cut.sink for name, cut in payload.queries.items()}
        _add(given, {name: cut.batch for name, cut in payload.queries.items() if _counts(cut.sink)})
    known = read_record(job.coordinator, job.paths.generation, Generation)
    if known is not None:
        shown = given_in_last_directory(job, known[0], sinks)
        if shown is None and not sinks:
            return "its last working directory is gone, so the batches that its sinks have received are unknown"
        _add(given, shown or {})
    if not given:
        return ""
    batches = ", ".join(f"{name!r} up to batch {batch}" for name, batch in sorted(given.items()))
    return (
        f"sinks already have batches of {batches}, and the numbers start again at 0: a sink that skips known numbers "
        "loses rows, and any other sink receives replayed rows again"
    )


def given_in_last_directory(
    job: JobContext, generation: Generation, recorded: Mapping[str, QuerySink]
) -> Mapping[str, int] | None:
    """Return query -> highest batch that its sink may have received there; ``None`` if the directory is missing.

    :param recorded: Query -> sink, from checkpoints.
    :raises RecordCorruptError: The records are damaged.
    :raises StorageUnavailableError: The records could not be read.
    """
    last = last_directory(job, generation)
    directory = last.area.tree(last.area.current(last.key))
    if not directory.is_directory():
        return None
    try:
        started = read_started(directory)
    except RecordCorruptError:
        started = None  # a query with an unknown sink counts
    sinks = {**recorded, **(started.sinks if started is not None else {})}
    failure = _last_failure(job, generation.run)
    found = {}
    for name in queries(directory):
        if _counts(sinks.get(name, _NOT_NAMED)):
            now = progress(directory / name)
            found[name] = now.committed if _raised(failure, name, now.committed) else now.planned
    return found


def _raised(failure: Failure | None, query: str, committed: int) -> bool:
    """Return whether the query failed in the batch after *committed*, so that its sink has not finished that batch."""
    if failure is None or failure.query != query or failure.batches is None:
        return False
    return failure.batches.get(query) == committed


def _last_failure(job: JobContext, run: int) -> Failure | None:
    if run not in job.runs.numbers():
        return None
    newest = job.runs.get(run).newest
    return newest.exit.failure if newest is not None and newest.exit is not None else None


def _counts(sink: QuerySink) -> bool:
    return type_of(sink).remembers_unseen(sink)


def _add(given: dict[str, int], batches: Mapping[str, int]) -> None:
    for name, batch in batches.items():
        if batch >= 0:
            given[name] = max(batch, given.get(name, batch))


def refuse_moved(job: JobContext) -> None:
    """Refuse a new run of a job that has moved away, or that is about to arrive.

    :raises JobStateError: The job has moved or arrives; the message names the other cluster.
    """
    if (left := read_moved(job.coordinator, job.paths)) is not None:
        moved = left[0]
        if moved.run is None:
            raise JobStateError(
                f"job {job.job_id!r} {moved.sentence}",
                next_step="Repeat `spark-ha job move` to end the move, or give it up with --abandon",
            )
        raise JobStateError(
            f"job {job.job_id!r} {moved.sentence}",
            next_step="Act on it there; `spark-ha job move` from there returns it",
        )
    if (coming := read_arrival(job.coordinator, job.paths)) is not None:
        raise JobStateError(
            f"job {job.job_id!r} is being moved here from cluster {coming[0].cluster}",
            next_step="Repeat `spark-ha job move` there to end the move, or give it up there with --abandon",
        )


def stays_op(job: JobContext) -> list[Op]:
    """Return the operations that fail a transaction if the job has moved away or arrives in between."""
    # ZooKeeper has no check for absence: create and delete in one transaction instead.
    return [op for path in (job.paths.moved, job.paths.arriving) for op in (Create(path), Delete(path))]


def choose_for_submit(job: JobContext, request: JobSpec, lost: LostRun) -> LostRunPolicy:
    """Return a submission's policy for a lost run. Writes nothing.

    :raises JobStateError: The graph or the start differs, and the request does not choose a policy.
    :raises ConfigurationError: A file of the application is missing.
    :raises StorageUnavailableError: The graph of the lost run could not be read.
    """
    other = _differences(job, request, lost)
    if not other:
        return LostRunPolicy.RECOVER
    if request.start.if_lost is None:
        raise JobStateError(
            f"{_lost(job, lost)}, and the submitted job differs from it in {', '.join(other)}",
            next_step='if_lost="recover" continues the lost run, if_lost="restart" ends it and starts a new run '
            f"of this {_from(request.start_from, lost)}. {_commands(job)}, then submit again",
            options=("if_lost",),
        )
    if request.start.if_lost is LostRunPolicy.RESTART and request.start_from == LATEST and lost.forgetful:
        raise JobStateError(
            f"{_lost(job, lost)}, and that run has no checkpoint yet: a new one would repeat its committed batches",
            next_step='if_lost="recover" continues it; start_from="fresh" starts from nothing',
            options=("if_lost", "start_from"),
        )
    return request.start.if_lost


def choose_for_restore(job: JobContext, request: RestoreRequest, lost: LostRun) -> LostRunPolicy:
    """Return a restore's policy for a lost run of its target job. Pure.

    :raises JobStateError: The request does not choose a policy.
    """
    if request.if_lost is None:
        raise JobStateError(
            f"{_lost(job, lost)}, which a restore would leave behind",
            next_step='if_lost="restart" ends it and restores, if_lost="recover" '
            f"continues it instead. {_commands(job)}, then restore again",
            options=("if_lost",),
        )
    return request.if_lost


def refuse_lost(job: JobContext, lost: LostRun) -> LostRunPolicy:
    """Refuse a run whose request has no policy for a lost run.

    :raises JobStateError: Always.
    """
    raise JobStateError(f"{_lost(job, lost)}, which is of another request", next_step=_commands(job))


def same_start(start_from: str | Mapping[str, str], start: StartPoint, job_id: str) -> bool:
    """Return whether *start* is the start that *start_from* names; ``"latest"`` matches every start. Pure."""
    if start_from == LATEST:
        return True
    if start_from == FRESH:
        return start.kind is StartKind.FRESH
    if directories := named_directories(start_from):
        places = {f"{query}={Path(split(text).path).resolve()}" for query, text in directories.items()}
        return start.kind is StartKind.PATH and set((start.source_id or "").split(", ")) == places
    return start.source_job == job_id and f"{start.kind.value}-{start.source_id}" == start_from


def _differences(job: JobContext, request: JobSpec, lost: LostRun) -> Sequence[str]:
    now = describe(job, request)
    try:
        other = list(differences(job.graph(lost.run.graph), now))
    except (ObjectMissingError, RecordCorruptError) as error:
        other = [f"unknown fields, because its graph cannot be read ({error.message})"]
    return other if same_start(request.start_from, lost.run.start, job.job_id) else [*other, "start_from"]


def _lost(job: JobContext, lost: LostRun) -> str:
    return f"job {job.job_id!r} has lost the driver of run {lost.number}"


def _from(start_from: str | Mapping[str, str], lost: LostRun) -> str:
    if start_from != LATEST:
        return f"from {start_from!r}"
    return f"from checkpoint {lost.checkpoint}" if lost.checkpoint is not None else "from its start"


def _commands(job: JobContext) -> str:
    return (
        f"Without a new request: `spark-ha job recover {job.job_id}` (SparkHaRecoverJobsOperator) or "
        f"SparkHaFollowOperator recovers it, `spark-ha job stop {job.job_id}` (SparkHaStopOperator) ends it "
        "immediately with its newest checkpoint"
    )
