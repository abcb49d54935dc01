"""Assembly of a driver's cooperating parts: queries, checkpoints, operations and the optional metrics endpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ha.checkpoints.areas.open_work_area import open_files
from airflow_provider_ha.checkpoints.areas.work_area import WorkArea
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.claims import runs_in_use
from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanCollection
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.checkpoints.store.working_directories import WorkingFilesCollector
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.checkpointing.origin import Origin
from airflow_provider_ha.driver.checkpointing.progress import (
    ProgressRecorder,
    SourceNotes,
    TriggerListener,
    progress_source,
)
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop, RemovalTurns, clear_notes
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher, requested_checkpoint
from airflow_provider_ha.driver.checkpointing.savepoint_job import DisposalJob, SavepointJob
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.process_end import ProcessTerminator
from airflow_provider_ha.driver.ending.run_end import DriverEnd, DriverParts
from airflow_provider_ha.driver.ending.stop_job import MainThread, StopJob
from airflow_provider_ha.driver.figures import CheckpointFigures, NewestCheckpoint, QueryTrigger
from airflow_provider_ha.driver.jvm.component import Component, ComponentLeader
from airflow_provider_ha.driver.jvm.state_restores import StateRestoreReports
from airflow_provider_ha.driver.members.driver_session import PROCESS, DriverSession
from airflow_provider_ha.driver.members.housekeeping import Housekeeping, PastAttempts
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.patches import PatchedSpark, Patches
from airflow_provider_ha.driver.queries.query_fit import PreviousGraph
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.query_start import QueryStarter
from airflow_provider_ha.driver.queries.resting_queries import expected_queries, undo_drains
from airflow_provider_ha.driver.queries.script_paths import OwnLocations
from airflow_provider_ha.driver.queries.stall_watch import StallWatch
from airflow_provider_ha.driver.script import Lifecycle, Script
from airflow_provider_ha.driver.spark_conf import gateway, prepare_conf
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, class_archive
from airflow_provider_ha.jobs.options.conf import is_layered, writer_id
from airflow_provider_ha.jobs.progress_history import ProgressHistory
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.runs.journal import JobJournal, has_earlier_life
from airflow_provider_ha.jobs.runs.output_claims import OutputClaims
from airflow_provider_ha.jobs.runs.run_store import RunStore, start_of_run
from airflow_provider_ha.jobs.runs.standbys import StandbyStore
from airflow_provider_ha.jobs.runs.submissions import SubmissionLed
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.uris import hadoop_uri


log = logging.getLogger(__name__)


def start_metrics(
    spec: DriverSpec,
    led: DriverSession,
    *,
    registry: QueryRegistry,
    writer: JobWriter,
    clock: Clock,
    checkpoints: CheckpointStore,
    figures: CheckpointFigures,
    restores: StateRestoreReports | None,
) -> Callable[[str, QueryTrigger], None]:
    """Serve the metrics if the options of the job enable them, and put the address into the status.

    :param restores: Reports of how tasks have read the state of each query; ``None`` for a job without them.
    :returns: Receiver of every trigger.
    """
    if led.graph.options.metrics_port is None:
        return _ignore
    from airflow_provider_ha.driver.prometheus import (  # noqa: PLC0415  # see above
        DriverMetrics,
        MetricSources,
        serve,
    )

    try:
        newest = next(iter(checkpoints.list()), None)
        run = RunStore(led.coordinator, led.paths).get(led.run.number)
        granted = read_record(led.coordinator, led.paths.submission_led(led.run.number, spec.attempt), SubmissionLed)
    except HaError as error:
        log.warning("the job runs without metrics: %s", error)
        return _ignore
    if newest is not None:
        figures.found(NewestCheckpoint(newest.number, newest.created_at))
    metrics = DriverMetrics(
        MetricSources(
            cluster=spec.config.cluster_id,
            job_id=spec.job_id,
            epoch=led.leadership.epoch,
            led_at=granted[0].at if granted is not None else clock.now(),
            state=lambda: writer.state,
            lease_left=led.leadership.least_lease_left,
            standbys=lambda: writer.standbys,
            living=lambda: writer.living_standbys,
            losses=lambda: writer.losses,
            triggers=registry.triggers,
            checkpoints=figures,
            run=run,
            attempt=spec.attempt,
            alive_at=led.alive_at,
            class_archive=writer.class_archive,
            restores=restores.all if restores is not None else dict,
            copies=restores.copies if restores is not None else lambda: None,
            times=spec.home.start_times,
            options=led.graph.options,
            clock=clock,
        )
    )
    writer.set_metrics(serve(metrics, led.graph.options))
    return metrics.note


def _ignore(query: str, trigger: QueryTrigger) -> None:
    """Ignore the trigger."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes the parts of a driver.

    :param spark: pyspark as a standby driver has prepared it; ``None`` for pyspark as it is.
    """

    spec: DriverSpec
    led: DriverSession
    way_out: ProcessTerminator
    clock: Clock
    area: WorkArea
    checkpoints: CheckpointStore
    spark: PatchedSpark | None = None

    def parts(self, origin: Origin, registry: QueryRegistry, lifecycle: Lifecycle, writer: JobWriter) -> DriverParts:
        """Undo an interrupted drain, set Spark's conf, and make the parts without starting them.

        :raises ApplicationRefusedError: Its conf cannot be used under management.
        """
        led = self.led
        ledger = StartLedger(origin.directory)
        # A restored cut is complete; a loss may have come before the script had started all its queries.
        complete = ledger.before.complete or origin.plan is not None
        expected = expected_queries(origin, ledger.before, origin.reach)
        undo_drains(origin, expected)
        registry.expect(expected, complete=complete)
        jvm = gateway()
        self.way_out.owns_jvm(int(jvm.java.lang.ProcessHandle.current().pid()))
        own_root = prepare_conf(jvm, origin.location, led.graph.options.min_batches_to_retain)
        component = self._component(jvm, origin)
        calls = WriterCalls.of_pyspark() if self.spark is None else self.spark.calls
        recorder = ProgressRecorder(ProgressHistory(led.store, self._keys, led.leadership.epoch), self.clock)
        figures = CheckpointFigures()
        writer.failed_checkpoints = lambda: figures.failures
        writer.start_times = self.spec.home.start_times
        writer.class_archive = class_archive()
        restores = self._restores(jvm) if component is not None else None
        if restores is not None:
            writer.state_restore = lambda query, committed: restores.figures(query, committed=committed)
        measured = start_metrics(
            self.spec,
            led,
            registry=registry,
            writer=writer,
            clock=self.clock,
            checkpoints=self.checkpoints,
            figures=figures,
            restores=restores,
        )

        def heard(query: str, trigger: QueryTrigger) -> None:
            for each in (registry.triggers.note, recorder.note, measured):
                each(query, trigger)

        options = led.graph.options
        noted = SourceNotes(ledger, options, self.clock, origin.reach)
        noted.start()
        publisher = self._publisher(origin, registry, heard, figures, noted)
        previous = PreviousGraph(led, origin.plan, self.checkpoints, self._savepoints())
        starter = QueryStarter(
            origin,
            registry,
            lifecycle,
            calls,
            ledger,
            allow_new=options.allow_new_queries,
            remote_allowed=options.allow_remote_executors,
            component=component,
            restores=restores,
            claims=OutputClaims(led.coordinator, led.paths, led.leadership.commit, led.run.number),
            own=OwnLocations(origin.reach, root=own_root, begins=not led.run.start.asked),
            accept_duplicates=options.accept_duplicates,
            repeatable=options.repeatable,
            way_back=lambda: previous.way_back,
            ask_topics=noted.ask,
        )
        housekeeping = Housekeeping(
            RunStore(led.coordinator, led.paths),
            led.leadership,
            self.checkpoints,
            self.area,
            origin.key,
            partial(has_earlier_life, led.coordinator, led.paths, JobJournal(led.store, self._keys)),
        )
        return DriverParts(
            origin=origin,
            previous=previous,
            registry=registry,
            ledger=ledger,
            lifecycle=lifecycle,
            writer=writer,
            publisher=publisher,
            publishing=PublishLoop(
                publisher,
                writer,
                registry,
                lifecycle,
                self.way_out.thread_failed,
                settled=ledger.complete,
                running=self.spec.note_running,
                clean=self._cleaning(housekeeping).turn,
            ),
            recorder=recorder,
            stall_watch=StallWatch(
                registry,
                writer,
                lifecycle,
                options,
                self.clock,
                restart=lambda reason, failure: self.way_out.leave(ExitCode.FAILED, reason, failure=failure),
                failed=self.way_out.thread_failed,
            ),
            patches=self._patches(lifecycle, registry, starter),
            calls=calls,
            script=Script(
                self.spec.home.application_directory / "application" / led.graph.application.name, led.graph.arguments
            ),
            main_thread=MainThread(),
            housekeeping=housekeeping,
            component=component,
        )

    def _patches(self, lifecycle: Lifecycle, registry: QueryRegistry, starter: QueryStarter) -> Patches:
        if self.spark is None:
            return Patches(lifecycle, registry, starter)
        self.spark.patches.lead(lifecycle, registry, starter)
        return self.spark.patches

    def operations(self, parts: DriverParts, ending: DriverEnd) -> OperationsLoop:
        """Make the loop that answers requests for operations."""
        store = self._savepoints()
        savepoints = SavepointJob(
            store,
            self.led.leadership,
            parts.registry,
            self._provenance(),
            parts.origin.directory,
            store.tree,
            lambda query, _: parts.ledger.sources(query),
        )
        stop = StopJob(
            writer=parts.writer,
            publisher=parts.publisher,
            registry=parts.registry,
            lifecycle=parts.lifecycle,
            main_thread=parts.main_thread,
            area=self.area,
            working=parts.origin.key,
            savepoint=savepoints.create,
            drain=ending.drain,
            has_standby=StandbyStore(self.led.coordinator, self.led.paths, self.led.run.number).is_ready,
        )
        return OperationsLoop(
            coordinator=self.led.coordinator,
            paths=self.led.paths,
            leadership=self.led.leadership,
            lifecycle=parts.lifecycle,
            handlers=OperationHandlers(
                ready=parts.registry.ready_for,
                savepoint=savepoints.create,
                dispose=DisposalJob(self.checkpoints, self.led.leadership, savepoints.dispose).dispose,
                stop=stop.run,
                stopped=ending.stopped,
                cancel=ending.cancel,
                hand_over=stop.hand_over,
                make_way=ending.make_way,
                jvm_is_gone=self.way_out.has_lost_jvm,
                checkpoint=lambda _: requested_checkpoint(parts.publisher),
            ),
            run=self.led.run.number,
            clock=self.clock,
            failed=self.way_out.thread_failed,
        )

    def _component(self, jvm: Any, origin: Origin) -> Component | None:
        """Set up the component, and open its gate; ``None`` if the working directory does not need it."""
        if not is_layered(origin.location):
            return None
        leadership, spec = self.led.leadership, self.spec
        leader = ComponentLeader(
            job=spec.job_id,
            epoch=leadership.epoch,
            directory=origin.location,
            root=hadoop_uri(self.area.place),
            writer=writer_id(leadership.epoch, spec.submission_id, PROCESS),
            options=self.led.graph.options,
        )
        interval = spec.config.timings.heartbeat_interval
        component = Component(jvm, leadership.lease_left, interval, self.way_out.thread_failed)
        component.prepare(leader, self.led.graph.conf)
        return component

    def _restores(self, jvm: Any) -> StateRestoreReports | None:
        if not self.led.graph.options.local_recovery:
            return None
        return StateRestoreReports(jvm, self.spec.note_state_restores)

    @property
    def _keys(self) -> JobKeys:
        return JobKeys(self.spec.job_id)

    def _savepoints(self) -> SavepointStore:
        coordinator, paths = self.led.coordinator, self.led.paths
        start = partial(start_of_run, coordinator, paths)
        return SavepointStore(coordinator, paths, self._keys, self.area, clock=self.clock, start=start)

    def _provenance(self) -> Provenance:
        return Provenance(self.spec.job_id, self.led.run.number, self.led.run.graph.sha256, spark_version())

    def _publisher(
        self,
        origin: Origin,
        registry: QueryRegistry,
        heard: TriggerListener,
        figures: CheckpointFigures,
        noted: SourceNotes,
    ) -> Publisher:
        return Publisher(
            store=self.checkpoints,
            leadership=self.led.leadership,
            registry=registry,
            origin=origin,
            provenance=self._provenance(),
            options=self.led.graph.options,
            area=self.area,
            clock=self.clock,
            figures=figures,
            sources=noted.sources,
            measure=noted.measure,
            source=progress_source(registry, self.clock, cheap_listing=self.area.cheap_listing, heard=heard),
        )

    def _cleaning(self, housekeeping: Housekeeping) -> RemovalTurns:
        led = self.led
        journal = JobJournal(led.store, self._keys)
        past = PastAttempts(
            coordinator=led.coordinator,
            paths=led.paths,
            keys=self._keys,
            home_path=self.spec.config.home_path,
            leadership=led.leadership,
            journal=journal,
            options=led.graph.options,
            own=(led.run.number, self.spec.attempt),
            runs=PastRuns(
                led.coordinator,
                led.paths,
                journal,
                self.spec.config.retention,
                self.clock,
                partial(runs_in_use, led.coordinator, led.paths),
            ),
            notes=partial(
                clear_notes,
                self.checkpoints,
                led.leadership,
                lambda query: ForeachBatchLog(self.area.tree(self._keys.given(query))),
            ),
            blobs=OrphanCollection(
                led.coordinator, led.paths.cluster, led.store, self.area, self.clock, led.leadership.prove
            ).begin,
        )
        files = open_files(self.spec.config)
        collector = (
            WorkingFilesCollector(self.checkpoints, files, lambda: housekeeping.current, self.clock.lease_time)
            if files
            else None
        )

        def earlier() -> Iterator[None]:
            yield from housekeeping.finish_earlier(led.run.number)
            yield from past.clear()

        return RemovalTurns(self.checkpoints, led.leadership, self.clock, earlier, collector)


def spark_version() -> str:
    """Return the release of the installed pyspark."""
    import pyspark  # pyspark is imported inside functions

    return str(pyspark.__version__)
