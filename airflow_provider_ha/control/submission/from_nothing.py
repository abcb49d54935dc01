"""Whether a job may begin from nothing: what its records say that its queries have given to their sinks before.

The numbers of batches begin again at 0, so a sink that ignores numbers which it knows skips rows, and every other one
gets again what its source gives again. Nothing shows which of them a function is.

Invariant: only reads. What the records do not say any more counts as given. File sinks are left to the driver, which
looks at the output that the script names (``driver.query_start``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from airflow_provider_ha.checkpoints.connectors.sinks import type_of
from airflow_provider_ha.checkpoints.format.layout import progress, queries
from airflow_provider_ha.checkpoints.model import QuerySink, SinkKind, Verdict
from airflow_provider_ha.checkpoints.working.started_queries import read_started
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.control.job.last_directory import last_directory
from airflow_provider_ha.control.job.stores import checkpoint_store
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.errors import RecordCorruptError, RestoreRefusedError
from airflow_provider_ha.jobs.deleted import read_life
from airflow_provider_ha.jobs.failures import Failure
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.removed_runs import RemovedRunStore


_NOT_NAMED = QuerySink(kind=SinkKind.OTHER)


def require_nothing_given(job: JobContext, accepted: Collection[Verdict]) -> None:
    """Refuse a start from nothing of a job whose queries have given batches to their sinks, until it is accepted.

    :param accepted: Verdicts that are accepted.
    :raises RestoreRefusedError: It is not.
    :raises RecordCorruptError: The records cannot be understood.
    :raises StorageUnavailableError: They could not be read.
    """
    if Verdict.LOSS_POSSIBLE in accepted or not _has_a_past(job):
        return
    reason = _reason(job)
    if reason:
        go_on = "Submit with start_from='latest' to go on from the newest checkpoint, or accept it"
        raise RestoreRefusedError(
            f"starting job {job.job_id!r} from nothing is {Verdict.LOSS_POSSIBLE.value}: {reason}",
            next_step=f"{go_on if job.has_state else 'Accept it'} with accept_verdicts={Verdict.LOSS_POSSIBLE.value}, "
            "when the sinks are empty, or remember batches by context.current().query_id()",
        )


def _has_a_past(job: JobContext) -> bool:
    """Whether a run has worked, in this life of the job or in one before whose savepoints are kept."""
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
            return "its last working directory is gone, so it is not known which batches its sinks have been given"
        _add(given, shown or {})
    if not given:
        return ""
    batches = ", ".join(f"{name!r} up to batch {batch}" for name, batch in sorted(given.items()))
    return (
        f"sinks have been given batches of {batches}, and the numbers begin again at 0: a sink that ignores numbers "
        "which it knows skips rows, and any other one gets again what its source gives again"
    )


def given_in_last_directory(
    job: JobContext, generation: Generation, recorded: Mapping[str, QuerySink]
) -> Mapping[str, int] | None:
    """Return query -> highest batch that its sink may have been given there; ``None`` when the directory is gone.

    :param recorded: Query -> sink, as checkpoints record it.
    :raises RecordCorruptError: The records cannot be understood.
    :raises StorageUnavailableError: They could not be read.
    """
    last = last_directory(job, generation)
    directory = last.area.tree(last.area.current(last.key))
    if not directory.is_directory():
        return None
    try:
        started = read_started(directory)
    except RecordCorruptError:
        started = None  # a query whose sink is not known counts
    sinks = {**recorded, **(started.sinks if started is not None else {})}
    failure = _last_failure(job, generation.run)
    found = {}
    for name in queries(directory):
        if _counts(sinks.get(name, _NOT_NAMED)):
            now = progress(directory / name)
            found[name] = now.committed if _raised(failure, name, now.committed) else now.planned
    return found


def _raised(failure: Failure | None, query: str, committed: int) -> bool:
    """Whether the query failed in the batch after *committed*: then its sink has not finished that one."""
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
