"""Record of a run's failure: text, query and batch of the error that ended it, without secrets.

Its functions never raise: a driver that is about to end must complete its exit, and undetermined facts stay unknown.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from airflow_provider_ha.driver.ending.exit_reason import first_line, name_of
from airflow_provider_ha.driver.ending.failure_kinds import FailureVerdict, classify
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.jobs.job_graph import JobGraph
from airflow_provider_ha.jobs.runs.submissions import MESSAGE_LIMIT, NAME_LIMIT, Failure, FailureKind


log = logging.getLogger(__name__)
_DEEPEST = 20
# Spark's text for a batch in which no task wrote state: its function did not read the frame.
_UNREAD = "CheckpointInfo length: 0"
_QUERY_ENDED = frozenset({"StreamingQueryException"})  # raised by awaiting a failed query


def failure_of_run(script: BaseException | None, registry: QueryRegistry, *, modules: Collection[str]) -> Failure:
    """Return why a run's script or its queries failed. If several failed together, an outage explains all failures.

    :param script: The exception of the script; ``None`` when it ended normally.
    :param modules: Top-level names of the application's own modules.
    """
    try:
        return _failure_of_run(script, registry, modules)
    except Exception:  # the JVM or the file system may be gone
        log.exception("could not determine why the run failed")
        return Failure(error_class=name_of(script))


def own_modules(graph: JobGraph) -> frozenset[str]:
    """Return the top-level names of the modules that travel with an application."""
    artifacts = (graph.application, *graph.modules, *graph.py_files)
    return frozenset(Path(artifact.name).name.partition(".")[0] for artifact in artifacts)


def text_of(error: BaseException) -> str:
    """Return an error with its causes: as Python prints them, and the JVM's stacks, which pyspark keeps separately."""
    return "\n".join(_texts(error))


def text_of_queries(registry: QueryRegistry) -> str:
    """Return the errors of the failed queries, with their causes; empty if they are unavailable."""
    try:
        return "\n".join(text_of(error) for _, error in failed_queries(registry.started))
    except Exception:  # noqa: BLE001  # the JVM may be gone
        return ""


def _failure_of_run(script: BaseException | None, registry: QueryRegistry, modules: Collection[str]) -> Failure:
    found = [_of_query(query, error, modules) for query, error in failed_queries(registry.started)]
    echo = bool(found) and (isinstance(script, SystemExit) or name_of(script) in _QUERY_ENDED)
    if script is not None and not echo:
        found.insert(0, _of_script(script, registry, modules))
    for kind in (FailureKind.OUTAGE, FailureKind.UNKNOWN, FailureKind.APPLICATION):
        if (first := next((failure for failure in found if failure.kind is kind), None)) is not None:
            return first
    return Failure(error_class=name_of(script))


def failed_queries(started: Iterable[StartedQuery]) -> Iterator[tuple[StartedQuery, BaseException]]:
    """Yield the queries that failed, with their errors."""
    for query in started:
        error = query.handle.exception()
        if error is not None:
            yield query, error


def _of_query(query: StartedQuery, error: BaseException, modules: Collection[str]) -> Failure:
    verdict = classify(text_of(error), modules=modules)
    failure = _failure(verdict, error, query=query.name, batches={query.name: query.status().committed})
    if _UNREAD not in failure.message:
        return failure
    why = f"the function of query {query.name!r} has not read its frame, and a query with state needs that"
    return failure.model_copy(update={"message": f"{why} ({failure.message})"[:MESSAGE_LIMIT]})


def _of_script(error: BaseException, registry: QueryRegistry, modules: Collection[str]) -> Failure:
    verdict = classify(text_of(error), modules=modules)
    batches = {query.name: query.status().committed for query in registry.members}
    failure = _failure(verdict, error, query=None, batches=batches)
    if not isinstance(error, SystemExit):
        return failure
    said = f"exit status {error.code}" if isinstance(error.code, int) else f"exit status 1: {error.code}"
    return failure.model_copy(update={"error_class": name_of(error), "message": first_line(said, MESSAGE_LIMIT)})


def _failure(verdict: FailureVerdict, error: BaseException, *, query: str | None, batches: dict[str, int]) -> Failure:
    link = verdict.link
    name = name_of(error)
    if link is not None:
        name = link.short if link.name.startswith("pyspark.errors.") else link.name
    message = link.message if link is not None else str(error)
    return Failure(
        kind=verdict.kind,
        error_class=first_line(name, NAME_LIMIT),
        message=first_line(message, MESSAGE_LIMIT),
        query=query,
        batches=batches,
        location=first_line(verdict.location, NAME_LIMIT),
    )


def _texts(error: BaseException) -> Iterator[str]:
    seen: set[int] = set()
    waiting: list[BaseException] = [error]
    while waiting and len(seen) < _DEEPEST:
        link = waiting.pop(0)
        if id(link) in seen:
            continue
        seen.add(id(link))
        yield "".join(traceback.format_exception(type(link), link, link.__traceback__, chain=False))
        stack = getattr(link, "_stackTrace", None)  # pyspark's: of the throwable, with its causes
        if isinstance(stack, str):
            yield stack
        # Also a hidden cause: an exception raised "from None" still has its context.
        causes = (link.__cause__, link.__context__, getattr(link, "_cause", None))
        waiting.extend(cause for cause in causes if isinstance(cause, BaseException))
