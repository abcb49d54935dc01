"""Fit of a query to the checkpoint that its run begins from: the change of its graph, and the way back.

Spark binds a checkpoint to the sources, the stateful operators and the schemas of its query. If the script has changed,
Spark refuses the first batch in each attempt. This is only reported until the first batch: a query that has committed a
batch fits.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from airflow_provider_ha.checkpoints.plan_model import RestorePlan
from airflow_provider_ha.checkpoints.restore.restore_point import CHECKPOINT
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import STATE, numbers, progress_when_listed
from airflow_provider_ha.checkpoints.spark.metadata_log import read_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.driver.ending.failure_kinds import is_of_spark, links, never_passes
from airflow_provider_ha.driver.ending.run_failure import failed_queries, text_of
from airflow_provider_ha.driver.members.driver_session import DriverSession
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.script_reads_and_writes import streams
from airflow_provider_ha.errors import ApplicationRefusedError, CheckpointError, HaError
from airflow_provider_ha.jobs.graph_store import differences
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind


log = logging.getLogger(__name__)
_OPERATOR = re.compile(r"state info \[.*?opId = (\d+)")  # of Spark's plan; two operators may share a number
# A limit has state in one output mode only; functions with state show theirs in another form.
_ELSEWHERE = re.compile(r"Limit|WithState|InPandas|InPySpark")


@dataclass(frozen=True)
class PreviousGraph:
    """The starting point of a run, and the difference between its graph and the graph that wrote the starting point.

    :param plan: Of the run; ``None`` for a run without a checkpoint to start from.
    """

    led: DriverSession
    plan: RestorePlan | None
    checkpoints: CheckpointStore
    savepoints: SavepointStore

    @cached_property
    def run(self) -> int | None:
        """Number of the run that wrote it; ``None`` when it is of this run or of another job, or not known."""
        plan = self.plan
        if plan is None or plan.adopted or plan.source_job != self.led.graph.job_id:
            return None
        try:
            if plan.source == CHECKPOINT:
                found = self.checkpoints.pointer(int(plan.source_id)).run
            else:
                found = self.savepoints.load(plan.source_id).run
        except (HaError, ValueError) as error:
            log.debug("which run wrote %s is not known: %s", plan.name, error)
            return None
        return found if found != self.led.run.number else None

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """Fields in which the graphs differ; empty when they do not, or when it is not known."""
        if self.run is None:
            return ()
        try:
            before = RunStore(self.led.coordinator, self.led.paths).get(self.run).run
            return differences(self.led.graphs.read_graph(before.graph), self.led.graph)
        except HaError as error:
            log.debug("the graph of run %d cannot be compared: %s", self.run, error)
            return ()

    @property
    def way_back(self) -> str:
        """The changes, and how to go back to the previous graph."""
        if self.plan is None:
            return "Correct the script, and submit the job again"
        job, name = self.led.graph.job_id, self.plan.name
        if self.run is None:
            return f"Change the script back to the version that wrote {name}, or start from nothing with another output"
        own, fields = self.led.run.number, ", ".join(self.changed)
        what = f"Run {own} differs from run {self.run}, which wrote {name}, in {fields}. "
        return (
            f"{what if self.changed else ''}`spark-ha job restore {job} --start-from {name}` continues with the graph "
            f"of run {self.run}; or change the script back and submit it, or start from nothing with another output "
            "(start_from='fresh')"
        )


def misfit_of_run(failure: Failure, registry: QueryRegistry, previous: PreviousGraph) -> Failure:
    """Return a failure with the reason that no retry helps, if its query does not fit its checkpoint. Never raises."""
    try:
        if registry.advanced:
            return failure
        failed = {query.name: error for query, error in failed_queries(registry.started)}
        return with_misfit(failure, failed.get(failure.query or ""), previous)
    except Exception:  # the JVM may be gone
        log.exception("could not determine whether query %s fits its checkpoint", failure.query)
        return failure


def with_misfit(failure: Failure, error: BaseException | None, previous: PreviousGraph) -> Failure:
    """Return the failure of a run without a batch, with the reason that no retry helps if Spark refuses the checkpoint.

    :param error: Of the query that failed; ``None`` when no query did.
    """
    if error is None or failure.query is None or failure.kind is FailureKind.OUTAGE or failure.refused:
        return failure
    chain = links(text_of(error))
    if not (never_passes(chain) or (previous.changed and is_of_spark(chain))):
        return failure
    return failure.model_copy(update={"misfit": previous.way_back})


def check_fit(query: str, directory: Tree, writer: Any, way_back: Callable[[], str]) -> None:
    """Compare the sources and the operators of a query with its checkpoint's, before its first batch.

    Undetermined differences are left to Spark.

    :param directory: Checkpoint of the query.
    :param writer: Of the query.
    :raises ApplicationRefusedError: They differ.
    """
    planned = progress_when_listed(directory).planned
    if planned < 0:
        return
    try:
        entry = read_offsets(directory, planned)
        before, had = len(entry.offsets), len(numbers(directory, STATE))
        frame = writer._df  # noqa: SLF001  # its DataFrame has no public name
        now, operators = len(streams(frame)), _operators(frame)
    except CheckpointError:
        return
    except Exception as error:  # noqa: BLE001  # of py4j, or of Spark, which says it again when the query starts
        log.debug("query %s is not compared with its checkpoint: %s", query, error)
        return
    if entry.version == 1 and now and now != before:
        raise _refusal(f"query {query!r} reads {_many(now, 'source')}, and its checkpoint has {before}", way_back)
    if operators is not None and operators != had:
        raise _refusal(
            f"query {query!r} has {_many(operators, 'operator')} with state, and its checkpoint has {had}", way_back
        )


def _refusal(what: str, way_back: Callable[[], str]) -> ApplicationRefusedError:
    return ApplicationRefusedError(f"{what}: Spark cannot continue from it", next_step=way_back())


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _operators(frame: Any) -> int | None:
    """Return the number of stateful operators in Spark's plan; ``None`` if it depends on more than the plan."""
    utils = frame._sc._jvm.org.apache.spark.sql.api.python.PythonSQLUtils  # noqa: SLF001  # as above
    text = utils.explainString(frame._jdf.queryExecution(), "simple")  # noqa: SLF001  # as above
    return None if _ELSEWHERE.search(text) else len(set(_OPERATOR.findall(text)))
