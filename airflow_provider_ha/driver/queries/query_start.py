"""The implementation of a patched ``start()``: check, bring the checkpoint up to the sink, then start for good.

Invariant: the real sink never gets a batch id that its log already has. A file sink or Delta skips such a batch without
executing the plan, so that its state is never written and the query dies with the next commit, or loses rows with no
error (``docs/explanation/spark-facts.md`` section 0). So those batches are executed before, one by one, into a noop
sink.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from airflow_provider_ha.checkpoints.areas.working_records import put_offsets
from airflow_provider_ha.checkpoints.model import SinkKind
from airflow_provider_ha.checkpoints.restore.plan_execution import ReplayStep, decide_start
from airflow_provider_ha.checkpoints.sinks.sink_registry import query_memory, sink_connector, sink_record
from airflow_provider_ha.checkpoints.sinks.sink_type import QueryMemory, SinkConnector
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress, progress_when_listed
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.checkpoints.spark.places import is_s3
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.context import FencedFunction
from airflow_provider_ha.driver.jvm.component import Component
from airflow_provider_ha.driver.jvm.state_restores import StateRestoreReports
from airflow_provider_ha.driver.queries.checked_writer import NOOP, CheckedWriter, WriterCalls, check_writer
from airflow_provider_ha.driver.queries.query_fit import check_fit
from airflow_provider_ha.driver.queries.query_naming import (
    StartLedger,
    check_new_name,
    name_query,
    refuse_other_case,
)
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.query_stop import has_ended
from airflow_provider_ha.driver.queries.resting_queries import RestingQuery, described, undo_drain
from airflow_provider_ha.driver.queries.script_paths import OwnLocations, from_output
from airflow_provider_ha.driver.queries.script_reads_and_writes import sources_of
from airflow_provider_ha.driver.queries.writer_notes import (
    UnplannedRules,
    begins_anew,
    notes,
    sink_word,
)
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.spark_conf import check_master, fit
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    ConfigurationError,
    JobStateError,
    RestoreRefusedError,
    RestoreUnknownError,
)
from airflow_provider_ha.jobs.model import OutputMode
from airflow_provider_ha.jobs.runs.output_claims import OutputClaims
from airflow_provider_ha.query_names import query_directory
from airflow_provider_ha.uris import file_uri


log = logging.getLogger(__name__)
ASIDE = ".aside"  # hidden: not a possible name of a query
WITHOUT_COMPONENT = "Use a work root on s3://, whose jobs run behind the component, or write to a mounted directory"


class QueryStarter:
    """Starts the queries of an epoch.

    :param calls: pyspark's own calls.
    :param ledger: The queries that the run's script has started.
    :param allow_new: Whether the script may replace a query by a query with a new name after a loss.
    :param remote_allowed: Whether the executors may run on other hosts.
    :param component: Of the JVM, if the working directory is behind it.
    :param restores: Reports how tasks read the state of the queries, with ``local_recovery``.
    :param claims: Notes the outputs that the run writes to.
    :param own: Checks checkpoint locations that the script names.
    :param accept_duplicates: Whether queries may run that write rows again after each loss.
    :param repeatable: Queries whose output is unchanged by a repeated batch, as the job declares, by the script's
        names.
    :param ask_topics: Receives the topics that a query reads; never waits.
    :param way_back: Returns the advice for a query that does not fit the checkpoint of its run.
    """

    def __init__(
        self,
        origin: Origin,
        registry: QueryRegistry,
        lifecycle: Lifecycle,
        calls: WriterCalls,
        ledger: StartLedger,
        *,
        allow_new: bool = False,
        remote_allowed: bool = False,
        component: Component | None = None,
        restores: StateRestoreReports | None = None,
        claims: OutputClaims | None = None,
        own: OwnLocations | None = None,
        accept_duplicates: bool = False,
        repeatable: Collection[str] = (),
        way_back: Callable[[], str] = str,
        ask_topics: Callable[[str, Collection[str]], None] = lambda *_: None,
    ) -> None:
        self._origin = origin
        self._registry = registry
        self._lifecycle = lifecycle
        self._calls = calls
        self._ledger = ledger
        self._allow_new = allow_new
        self._remote_allowed = remote_allowed
        self._component = component
        self._restores = restores
        self._claims = claims
        self._way_back = way_back
        self._ask_topics = ask_topics
        self._own = own or OwnLocations(origin.reach)
        self._accept_duplicates = accept_duplicates
        self._repeatable = frozenset(map(query_directory, repeatable))
        self._unplanned = UnplannedRules(mounted=component is None, accepted=accept_duplicates)

    def start(self, writer: Any, path: str | None) -> Any:
        """Start the query of *writer* where its sink and its checkpoint agree; returns pyspark's handle.

        While this is under way, stops do not begin to end queries; a requested stop ends the replay after its batch.

        :raises ApplicationRefusedError: It cannot be made highly available as it is.
        :raises RestoreRefusedError: The sink has batches whose boundaries are not known.
        :raises StorageUnavailableError: The start could not be recorded, so the query was not started.
        :raises SystemExit: The job is being stopped: the script has no more work.
        """
        with self._lifecycle.start_of_a_query() as admitted:
            if admitted and (handle := self._start(writer, path)) is not None:
                return handle
        self._lifecycle.ended.wait()
        raise SystemExit(0)  # no JobStateError: a script that catches it and tries again would loop forever

    def _start(self, writer: Any, path: str | None) -> Any:
        """Start the query; ``None`` when a stop came before it was started for good."""
        default = writer._spark.conf.get("spark.sql.sources.default")  # noqa: SLF001  # the session that made the writer
        if begins_anew(notes(writer), default):
            return self._start_aside(writer, path)
        try:
            check_master(writer._spark, allowed=self._remote_allowed)  # noqa: SLF001  # the session that made the writer
            if self._component is not None:
                self._component.check_session(writer._spark)  # noqa: SLF001  # as above
            name = name_query(writer, path)
            checked = check_writer(writer, path, self._origin.location, self._taken(name), self._unplanned)
            self._check_name(checked.name)
            directory = (self._origin.directory / checked.name).fresh()  # valid until its first batch: one listing
            self._check_own_location(checked, directory)
            self._check_output(checked)
            steps = self._prepare(checked, directory)
        except (ApplicationRefusedError, ConfigurationError, RestoreRefusedError) as error:
            raise self._lifecycle.refuse(error) from None
        sources, topics = sources_of(writer)
        self._ledger.note(checked.name, described(checked.sink), sources)
        self._ask_topics(checked.name, topics)
        self._registry.begin(self._resting(checked, steps))
        handle, committed = None, progress_when_listed(directory).committed
        try:
            if self._replay(checked, steps):
                if steps:
                    committed = progress(directory).committed
                handle = self._started(writer, path, checked.name)
        finally:
            if handle is None:
                self._registry.give_up(checked.name)
        if handle is None:
            return None
        self._registry.add(
            StartedQuery(checked.name, handle, checked.sink, directory, len(steps), committed, self._origin.reach)
        )
        log.info("query %s started at batch %d after %d replayed batches", checked.name, committed, len(steps))
        return handle

    def _start_aside(self, writer: Any, path: str | None) -> Any:
        """Start a query that is part of no checkpoint, as Spark does without a location: in a new directory."""
        below = self._origin.location if self._component is None else file_uri(Path(mkdtemp(prefix="spark-ha-")))
        self._calls.option(writer, "checkpointLocation", f"{below}/{ASIDE}/{new_id()}")
        handle = self._calls.start(writer, path)
        self._registry.add_aside(handle)
        return handle

    def _started(self, writer: Any, path: str | None, name: str) -> Any:
        if self._restores is not None:
            self._restores.begin(name, f"{self._origin.location}/{name}", writer._spark)  # noqa: SLF001  # as above
        handle = self._calls.begin(writer, path)
        if self._component is not None:
            try:
                self._component.check_query(handle, name)
            except ApplicationRefusedError as error:
                raise self._lifecycle.refuse(error) from None
        return handle

    def _taken(self, name: str) -> frozenset[str]:
        """Return the name if its query runs: a query that the script stopped, or that failed, may be started again."""
        query = self._registry.find_name(name)
        return frozenset({query.name} if isinstance(query, StartedQuery) and not has_ended(query.handle) else ())

    def _check_name(self, name: str) -> None:
        self._origin.check_adopted(name)
        refuse_other_case(name, (query.name for query in self._registry.members))
        if not self._allow_new:
            registry = self._registry
            expected = [query.name for query in registry.members]
            check_new_name(name, self._ledger.before, expected=expected, begun=registry.begun)

    def _check_own_location(self, checked: CheckedWriter, directory: Tree) -> None:
        now = progress_when_listed(directory)
        noted, default = notes(checked.writer), checked.sink.source
        plans, word = self._origin.plans, sink_word(noted, default)
        empty = now.planned < 0 and checked.name not in plans
        self._own.check(checked.name, noted, checked.root, word, empty=empty, restored=bool(plans))

    def _check_output(self, checked: CheckedWriter) -> None:
        """Refuse an output that another query writes to, or that two drivers could write to at the same time."""
        place = checked.sink.path
        if place is None:
            return
        # guard: stored-outputs-without-the-fence
        if is_s3(place) and self._component is None:
            raise ApplicationRefusedError(
                f"query {checked.name!r} writes files to {place}: Spark's own manager does not create entries of a "
                "sink's log exclusively there, so two drivers could both believe to have written a batch",
                next_step=WITHOUT_COMPONENT,
            )
        for other in self._registry.members:
            if other.name != checked.name and other.output == place:
                raise ApplicationRefusedError(
                    f"query {checked.name!r} writes to {place}, and so does query {other.name!r} of this job: each "
                    "would skip the other's batches",
                    next_step="Give every query its own output",
                )
        if self._claims is not None:
            self._claims.claim(place, checked.name)

    def _resting(self, checked: CheckedWriter, steps: tuple[ReplayStep, ...]) -> RestingQuery:
        sink = described(checked.sink)
        return RestingQuery(
            checked.name,
            self._origin.directory / checked.name,
            sink,
            sink_record(sink, self._origin.reach),
            max((step.batch for step in steps), default=-1),
            self._origin.reach,
        )

    def _prepare(self, checked: CheckedWriter, directory: WritableTree) -> tuple[ReplayStep, ...]:
        """Seed a new output directory, and return the batches to execute before the start.

        :param directory: Checkpoint of the query, listed for this start.
        """
        if self._origin.kind is OriginKind.RESTORE:  # later, Spark has taken it once
            check_fit(checked.name, directory, checked.writer, self._way_back)
        fit(checked.writer._spark, directory)  # noqa: SLF001  # as above
        reached, sink = -1, described(checked.sink)
        reach = self._origin.reach
        connector, memory = sink_connector(sink, reach), query_memory(sink, reach)
        if connector is not None and checked.sink.path is not None:
            self._seed(checked.name, connector, checked.sink.path, directory)
            undo_drain(self._origin, checked.name, connector)
            reached = connector.reached()
            if self._component is not None and checked.sink.kind is SinkKind.FILE:
                self._component.watch_sink(checked.sink.path, reached)
        if memory is not None:
            reached = self._in_table(checked.name, memory, directory)
        recorded, now = self._origin.recorded(checked.name), progress_when_listed(directory)
        if checked.sink.kind is SinkKind.FOREACH_BATCH:
            top = max((now.planned, *(entry.batch for entry in recorded)))
            reached = min(self._finished(checked, now.committed), top)
        if checked.sink.path is not None and reached >= 0 and now.planned < 0 and not recorded:
            raise RestoreRefusedError(
                f"LOSS_POSSIBLE: query {checked.name!r} starts from nothing, and its output {checked.sink.path} has "
                f"batches up to {reached}: Spark would skip as many new batches without writing them",
                next_step=from_output(checked.name, checked.sink.path),
            )
        return decide_start(now, recorded, reached, query=checked.name)

    def _finished(self, checked: CheckedWriter, committed: int) -> int:
        """Return the highest batch that a ``foreachBatch`` function has finished and will not get again; -1 for none.

        :raises RestoreRefusedError: The plan repeats its batches as repeatable, and neither script nor job declares it
            so.
        """
        function, plan = notes(checked.writer).function, self._origin.plans.get(checked.name)
        declared = checked.sink.repeatable or checked.name in self._repeatable
        again = plan is not None and plan.sink.repeatable and plan.batch + len(plan.replay) > committed
        if again and not (declared or self._accept_duplicates):
            raise RestoreRefusedError(
                f"the restore of query {checked.name!r} was planned for a function that is declared repeatable, which "
                "the script no longer declares: it would receive batches again that it has finished",
                next_step="Declare it (repeatable), or restore with accept_verdicts=DUPLICATES_POSSIBLE",
            )
        if declared:
            return -1
        noted = function.finished() if isinstance(function, FencedFunction) else -1
        return max(noted, plan.discarded_to if plan is not None else -1)

    def _in_table(self, name: str, table: QueryMemory, directory: Tree) -> int:
        """Return the highest batch that a table would skip, or has under the query's previous id."""
        plan = self._origin.plans.get(name)
        had = min(plan.sink.max_batch, plan.batch + len(plan.replay)) if plan and plan.query_id else -1
        if progress_when_listed(directory).planned < 0:
            return had  # its id is only made when it starts
        try:
            return max(had, table.last_batch(read_query_id(directory)))
        except RestoreUnknownError as error:
            log.warning("query %s starts, but the content of its table is unknown: %s", name, error)
            return had

    def _seed(self, name: str, connector: SinkConnector, target: str, directory: Tree) -> None:
        """Give a new output directory the log that Spark will read at its next compaction."""
        plan = self._origin.plans.get(name)
        if plan is None or plan.batch < 0 or (plan.sink.path == target and not plan.sink_gone):
            return
        if connector.reached() >= 0 or progress_when_listed(directory).committed > plan.batch:
            return
        source = self._origin.sink_log(name)
        if source is None:
            raise RestoreRefusedError(
                f"the output {target} of query {name!r} is new, and its previous output was not named",
                next_step="Name it when the checkpoint is adopted (sinks), or write to it as before",
            )
        mode = OutputMode.FRESH if plan.sink_gone else self._origin.output  # the old files are gone with it
        connector.seed(plan.batch, mode.value, source)

    def _replay(self, checked: CheckedWriter, steps: tuple[ReplayStep, ...]) -> bool:
        """Execute recorded batches one by one, then give the writer its own sink and trigger back.

        :returns: Whether the query may be started: not after the request of a stop, which finds it at rest.
        """
        directory = self._origin.directory / checked.name
        for step in steps:
            if self._lifecycle.stopping.is_set():
                return False
            log.info("query %s: batch %d is executed again into %s", checked.name, step.batch, step.into)
            if step.entry is not None:
                put_offsets(directory, step.entry)
            self._calls.set_format(checked.writer, NOOP if step.into == NOOP else checked.sink.source)
            self._calls.run_once(checked.writer, checked.path, into_noop=step.into == NOOP)
            now = progress(directory)
            if (now.planned, now.committed) != (step.batch, step.batch):
                raise RestoreRefusedError(
                    f"query {checked.name!r} is at {now} after batch {step.batch} was executed again",
                    next_step="Restore from an older checkpoint",
                )
        if steps:
            self._calls.set_format(checked.writer, checked.sink.source)
            self._calls.trigger(checked.writer, **checked.trigger)
            self._forget_replayed_runs(checked)
        return not self._lifecycle.stopping.is_set()

    def _forget_replayed_runs(self, checked: CheckedWriter) -> None:
        """Reset Spark's record of the replayed runs, or the script's ``awaitAnyTermination()`` returns immediately.

        The reset would also hide the failure of a query started earlier, so that failure is raised instead.

        :raises JobStateError: A query has failed.
        """
        if (failure := self._registry.failure()) is not None:
            raise JobStateError(failure)
        checked.writer._spark.streams.resetTerminated()  # noqa: SLF001  # as above
