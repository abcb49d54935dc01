"""Assembles the cooperating parts of a driver for the run of its script, and the loop of operations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from airflow_provider_ha.checkpoints.connectors.foreach_batch import GivenLog
from airflow_provider_ha.checkpoints.retention.runs_in_use import runs_in_use
from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.checkpoints.retention.working_files import WorkingFilesCollector
from airflow_provider_ha.checkpoints.savepoints.store import SavepointStore
from airflow_provider_ha.checkpoints.working.open_work_area import open_files
from airflow_provider_ha.checkpoints.working.work_area import WorkArea
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.driver.checkpoint_figures import CheckpointFigures
from airflow_provider_ha.driver.cleaning import Cleaning
from airflow_provider_ha.driver.disposal_job import DisposalJob
from airflow_provider_ha.driver.ending import Ending
from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.housekeeping import Housekeeping
from airflow_provider_ha.driver.job_writer import JobWriter
from airflow_provider_ha.driver.jvm.component import Component, Leader
from airflow_provider_ha.driver.lead import PROCESS, DriverSession
from airflow_provider_ha.driver.leaving import ProcessTerminator
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.metrics_start import start_metrics
from airflow_provider_ha.driver.misfit import PreviousGraph
from airflow_provider_ha.driver.operations_loop import Handlers, OperationsLoop
from airflow_provider_ha.driver.origin import Origin
from airflow_provider_ha.driver.own_location import OwnLocations
from airflow_provider_ha.driver.parts import Parts
from airflow_provider_ha.driver.past_attempts import PastAttempts
from airflow_provider_ha.driver.past_notes import clear_notes
from airflow_provider_ha.driver.patches import Patches
from airflow_provider_ha.driver.progress_recorder import ProgressRecorder
from airflow_provider_ha.driver.progress_source import Heard, progress_source
from airflow_provider_ha.driver.publish_loop import PublishLoop
from airflow_provider_ha.driver.publisher import Provenance, Publisher, requested_checkpoint
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.query_start import QueryStarter, WriterCalls
from airflow_provider_ha.driver.resting import expected_queries
from airflow_provider_ha.driver.savepoint_job import SavepointJob
from airflow_provider_ha.driver.script import Script
from airflow_provider_ha.driver.source_notes import SourceNotes
from airflow_provider_ha.driver.spark_conf import gateway, prepare_conf
from airflow_provider_ha.driver.stall_watch import StallWatch
from airflow_provider_ha.driver.start_ledger import StartLedger
from airflow_provider_ha.driver.stop_job import MainThread, StopJob
from airflow_provider_ha.driver.trigger_figures import Trigger
from airflow_provider_ha.driver.undo_drain import undo_drains
from airflow_provider_ha.jobs.history.progress_history import ProgressHistory
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec
from airflow_provider_ha.jobs.journal import JobJournal
from airflow_provider_ha.jobs.options.component_conf import is_layered, writer_id
from airflow_provider_ha.jobs.output_claims import OutputClaims
from airflow_provider_ha.jobs.retention.earlier_life import has_earlier_life
from airflow_provider_ha.jobs.retention.past_runs import PastRuns
from airflow_provider_ha.jobs.run_start import start_of_run
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.pointers.orphan_collection import OrphanCollection
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.uris import hadoop_uri


@dataclass(frozen=True, slots=True)
class Assembly:
    """Makes the parts of a driver."""

    spec: DriverSpec
    led: DriverSession
    way_out: ProcessTerminator
    clock: Clock
    area: WorkArea
    checkpoints: CheckpointStore

    def parts(self, origin: Origin, registry: QueryRegistry, lifecycle: Lifecycle, writer: JobWriter) -> Parts:
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
        calls = WriterCalls.of_pyspark()
        recorder = ProgressRecorder(ProgressHistory(led.store, self._keys, led.leadership.epoch), self.clock)
        figures = CheckpointFigures()
        writer.failed_checkpoints = lambda: figures.failures
        measured = start_metrics(
            self.spec,
            led,
            registry=registry,
            writer=writer,
            clock=self.clock,
            checkpoints=self.checkpoints,
            figures=figures,
        )

        def heard(query: str, trigger: Trigger) -> None:
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
            claims=OutputClaims(led.coordinator, led.paths, led.leadership.commit, led.run.number),
            own=OwnLocations(origin.reach, root=own_root, begins=not led.run.start.asked),
            accept_duplicates=options.accept_duplicates,
            repeatable=options.repeatable,
            way_back=lambda: previous.way_back,
            ask_topics=noted.ask,
        )
        return Parts(
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
                clean=self._cleaning(origin.key).turn,
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
            patches=Patches(lifecycle, registry, starter),
            calls=calls,
            script=Script(
                self.spec.home.application_directory / "application" / led.graph.application.name, led.graph.arguments
            ),
            main_thread=MainThread(),
            housekeeping=Housekeeping(
                RunStore(led.coordinator, led.paths),
                led.leadership,
                self.checkpoints,
                self.area,
                origin.key,
                partial(has_earlier_life, led.coordinator, led.paths, JobJournal(led.store, self._keys)),
            ),
            component=component,
        )

    def operations(self, parts: Parts, ending: Ending) -> OperationsLoop:
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
        )
        return OperationsLoop(
            coordinator=self.led.coordinator,
            paths=self.led.paths,
            leadership=self.led.leadership,
            lifecycle=parts.lifecycle,
            handlers=Handlers(
                ready=parts.registry.ready_for,
                savepoint=savepoints.create,
                dispose=DisposalJob(self.checkpoints, self.led.leadership, savepoints.dispose).dispose,
                stop=stop.run,
                stopped=ending.stopped,
                cancel=ending.cancel,
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
        leader = Leader(
            job=spec.job_id,
            epoch=leadership.epoch,
            directory=origin.location,
            root=hadoop_uri(self.area.place),
            writer=writer_id(leadership.epoch, spec.submission_id, PROCESS),
        )
        interval = spec.config.timings.heartbeat_interval
        component = Component(jvm, leadership.lease_left, interval, self.way_out.thread_failed)
        component.prepare(leader, self.led.graph.conf)
        return component

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
        heard: Heard,
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

    def _cleaning(self, current: str) -> Cleaning:
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
                lambda query: GivenLog(self.area.tree(self._keys.given(query))),
            ),
            blobs=OrphanCollection(
                led.coordinator, led.paths.cluster, led.store, self.area, self.clock, led.leadership.prove
            ).begin,
        )
        files = open_files(self.spec.config)
        collector = (
            WorkingFilesCollector(self.checkpoints, files, lambda: current, self.clock.lease_time) if files else None
        )
        return Cleaning(self.checkpoints, led.leadership, self.clock, past.clear, collector)


def spark_version() -> str:
    """Return the release of the installed pyspark."""
    import pyspark  # pyspark is imported inside functions

    return str(pyspark.__version__)
