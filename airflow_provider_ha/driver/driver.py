"""The driver of a run that leads: make the working directory, run the script, publish, serve, end.

Order matters: the working directory before the generation names it, the generation before Spark's conf, Spark's conf
before the script makes its session.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_ha.argument_secrets import script_secrets
from airflow_provider_ha.checkpoints.areas.open_work_area import open_work_area
from airflow_provider_ha.checkpoints.areas.work_area import Successor
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointPointer
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import METADATA
from airflow_provider_ha.checkpoints.spark.metadata_log import read_query_id
from airflow_provider_ha.checkpoints.spark.places import StorageAccess
from airflow_provider_ha.checkpoints.spark.tree import Tree
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.savepoints.savepoint_store import SavepointStore
from airflow_provider_ha.clock import Clock, new_id
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver import context
from airflow_provider_ha.driver.assembly import Assembly
from airflow_provider_ha.driver.checkpointing.fallback import FallbackPlanner
from airflow_provider_ha.driver.checkpointing.in_flight import InFlightBatches, InFlightJudge
from airflow_provider_ha.driver.checkpointing.origin import Origin
from airflow_provider_ha.driver.checkpointing.start_point import prepare_start, start_from_fallback
from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.driver.ending.process_end import ProcessTerminator
from airflow_provider_ha.driver.ending.run_end import DriverEnd
from airflow_provider_ha.driver.jvm.component import check_names, prepare_file_system, s3a_conf
from airflow_provider_ha.driver.members.driver_session import DriverSession
from airflow_provider_ha.driver.members.run_writer import JobWriter, RunningApplication
from airflow_provider_ha.driver.queries.patches import PatchedSpark
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.script_reads_and_writes import refuse_relative_writes, refuse_streams
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.driver.spark_conf import conf_of_script, gateway
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    ConfigurationError,
    DecisionNeededError,
    HaError,
    ObjectMissingError,
    RecordCorruptError,
    RestoreRefusedError,
)
from airflow_provider_ha.jobs.cluster_roots import RootsOfCluster
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, write_secrets
from airflow_provider_ha.jobs.model import Generation, JobState, Status
from airflow_provider_ha.jobs.options.conf import needs_component
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.redaction import remember, secret_values
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.uris import hadoop_uri, split


log = logging.getLogger(__name__)


class Driver:
    """One leadership of a run. :meth:`run` does not return: it ends the process.

    :param spark: pyspark as a standby driver has prepared it; ``None`` for a driver that starts now.
    """

    def __init__(
        self,
        spec: DriverSpec,
        led: DriverSession,
        way_out: ProcessTerminator,
        clock: Clock,
        spark: PatchedSpark | None = None,
    ) -> None:
        graph = led.graph
        remember(script_secrets(graph.conf, graph.env, graph.arguments))
        self._spec = spec
        self._led = led
        self._exit = way_out
        self._clock = clock
        self._spark = spark
        self._keys = JobKeys(spec.job_id)
        self._area = open_work_area(spec.config, RootsOfCluster(spec.config, led.coordinator))
        self._checkpoints = CheckpointStore(led.coordinator, led.store, led.paths, self._keys, self._area)

    def run(self) -> None:
        """Run the script under leadership and end the process with its result."""
        lifecycle = Lifecycle()
        registry = QueryRegistry(self._clock, self._spec.note_started, self._spec.note_committed)
        writer = JobWriter(
            coordinator=self._led.coordinator,
            paths=self._led.paths,
            graphs=self._led.graphs,
            journal=JobJournal(self._led.store, self._keys),
            leadership=self._led.leadership,
            registry=registry,
            run=self._led.run.number,
            clock=self._clock,
            application=RunningApplication(),
            standby_drivers=self._led.graph.options.standby_drivers,
        )
        self._require_file_system(writer)
        try:
            origin = self._prepare(writer)
        except HaError as error:
            if not error.retryable:
                raise
            self._exit.leave(ExitCode.OUTAGE, str(error))  # the script has not begun: the next driver may do better
        self._spec.note_bound()
        assembly = Assembly(self._spec, self._led, self._exit, self._clock, self._area, self._checkpoints, self._spark)
        try:
            parts = assembly.parts(origin, registry, lifecycle, writer)
        except (ApplicationRefusedError, RestoreRefusedError) as error:
            writer.end(JobState.FAILED, reason=str(error))
            self._exit.leave(ExitCode.REFUSED, str(error))
        parts.patches.apply()
        refuse_relative_writes(lifecycle)
        refuse_streams(lifecycle)
        self._install_context(origin)
        parts.publishing.start()
        parts.recorder.start()
        parts.stall_watch.start()
        ending = DriverEnd(self._spec, self._led, self._exit, parts)
        assembly.operations(parts, ending).start()
        one = threading.Lock()  # the script's end comes once

        def end(failure: str | None) -> None:
            one.acquire()
            secrets = secret_values(conf_of_script())
            remember(secrets)
            write_secrets(self._spec.home.script_secrets, secrets)
            lifecycle.script_ended.set()
            ending.conclude(failure)

        def late(failure: str | None) -> None:
            try:
                end(failure)
            except BaseException as error:  # noqa: BLE001  # the process must not outlive this thread
                self._exit.thread_failed(error)

        end(parts.script.run(late))

    def _require_file_system(self, writer: JobWriter) -> None:
        """Exit if this JVM cannot reach the work root, before any change to the job."""
        config = self._spec.config
        try:
            mounted = [] if needs_component(config) else [split(config.work_uri).path]
            check_names(gateway, [str(config.home_path), *mounted])
            if needs_component(config):
                root, site = hadoop_uri(self._area.place), s3a_conf(config)
                prepare_file_system(gateway(), root, self._led.graph.conf, site)
        except (ApplicationRefusedError, ConfigurationError) as error:
            if isinstance(error, ConfigurationError) and self._has_worked():
                self._exit.leave(ExitCode.UNFIT, str(error))
            writer.end(JobState.FAILED, reason=str(error))
            self._exit.leave(ExitCode.REFUSED, str(error))

    def _has_worked(self) -> bool:
        """Return whether a driver of the run has had a working directory: that driver's place met all requirements."""
        known = read_record(self._led.coordinator, self._led.paths.generation, Generation)
        return known is not None and known[0].run == self._led.run.number

    def _prepare(self, writer: JobWriter) -> Origin:
        """Make this epoch's working directory, and make it current."""
        known = read_record(self._led.coordinator, self._led.paths.generation, Generation)
        previous = known[0] if known else None
        key = self._keys.working_directory(self._led.leadership.epoch, new_id()[:12])
        refusal, refused = self._refusal_of(previous)
        try:
            origin = prepare_start(
                self._led.store,
                self._area,
                self._led.paths,
                self._led.run,
                previous,
                key=key,
                published=self._published(),
                by=Successor(self._led.leadership.epoch, self._spec.submission_id),
                reach=StorageAccess.of(self._spec.config),
                refusal=refusal,
                refused=refused,
                lengths=self._lengths_in(previous),
                judge=self._judge,
                fall_back=lambda lost, error: self._fall_back(lost, error, f"{key}-restored", refused=bool(refusal)),
            )
        except DecisionNeededError as error:
            self._exit.leave(ExitCode.DECISION_NEEDED, str(error))
        except RestoreRefusedError as error:
            writer.end(JobState.FAILED, reason=str(error))
            self._exit.leave(ExitCode.REFUSED, str(error))
        if origin.drain is not None:
            origin = replace(origin, writers_dead=self._writers_dead())
        writer.begin(origin)
        log.info("epoch %d works in %s (%s %s)", self._led.leadership.epoch, key, origin.kind.value, origin.source)
        return origin

    def _judge(self, lost: Tree, previous: Generation) -> InFlightBatches:
        """Return the batches that the recovery of a lost directory executes again by consent."""
        run = RunStore(self._led.coordinator, self._led.paths).get(self._led.run.number)
        accepted = run.newest is not None and run.newest.submission.accept_loss
        exits = [view.exit for view in run.submissions if view.exit is not None]
        ended = exits[-1].failure if exits else None
        misfit = ended if ended is not None and ended.misfit else None
        known = self._newest_checkpoint()
        recorded = {name: query.entries for name, query in known.queries.items()} if known is not None else {}
        reach = StorageAccess.of(self._spec.config)
        return InFlightJudge(self._led.run, self._led.graph, reach, accepted, recorded, misfit).judge(lost, previous)

    def _refusal_of(self, previous: Generation | None) -> tuple[str, str | None]:
        """Return Spark's message when it refused the last working directory of this run, and the refused query.

        Empty and ``None`` if it did not refuse.
        """
        if previous is None or previous.run != self._led.run.number:
            return "", None
        views = RunStore(self._led.coordinator, self._led.paths).get(previous.run).submissions
        failures = [view.exit.failure for view in views if view.exit is not None and view.exit.failure is not None]
        told = next((each for each in reversed(failures) if each.refused == previous.directory), None)
        return (told.error, told.query) if told is not None else ("", None)

    def _lengths_in(self, previous: Generation | None) -> Mapping[str, Mapping[str, int]]:
        """Return the files of the newest checkpoint of this run that was taken in its last working directory."""
        if previous is None or previous.run != self._led.run.number:
            return {}
        checkpoint = self._newest_checkpoint()
        if checkpoint is None or checkpoint.directory != previous.directory:
            return {}
        return {name: query.files for name, query in checkpoint.queries.items()}

    def _newest_checkpoint(self) -> Checkpoint | None:
        """Return this run's newest checkpoint; ``None`` if it is missing or damaged."""
        newest = self._newest()
        try:
            return self._checkpoints.load(newest) if newest is not None else None
        except (RecordCorruptError, ObjectMissingError) as error:
            log.warning("the newest checkpoint's record of the last working directory is not known: %s", error)
            return None

    def _fall_back(self, lost: Generation, because: HaError, key: str, *, refused: bool) -> Origin:
        planned = self._fallback_planner().plan(lost, because, refused=refused)
        reach = StorageAccess.of(self._spec.config)
        return start_from_fallback(self._area, self._led.paths, self._led.run, planned, key=key, reach=reach)

    def _fallback_planner(self) -> FallbackPlanner:
        led, status = self._led, read_record(self._led.coordinator, self._led.paths.status, Status)
        of_run = status[0] if status is not None and status[0].run == led.run.number else None
        return FallbackPlanner(
            store=led.store,
            area=self._area,
            checkpoints=self._checkpoints,
            savepoints=SavepointStore(led.coordinator, led.paths, self._keys, self._area, clock=self._clock),
            keys=self._keys,
            run=led.run,
            epoch=led.leadership.epoch,
            options=led.graph.options,
            clock=self._clock,
            reach=StorageAccess.of(self._spec.config),
            writers_dead=self._writers_dead(),
            known=frozenset({*of_run.queries, *of_run.not_started}) if of_run is not None else frozenset(),
        )

    def _writers_dead(self) -> bool:
        """Return whether the earlier drivers of the run are proven dead."""
        run = RunStore(self._led.coordinator, self._led.paths).get(self._led.run.number)
        return run.are_dead_before(self._spec.attempt)

    def _published(self) -> Mapping[str, int]:
        """Return the cut of this run's newest checkpoint; batch numbers of other runs may mean other batches."""
        newest = self._newest()
        return newest.cut if newest else {}

    def _newest(self) -> CheckpointPointer | None:
        """Return this run's newest checkpoint."""
        own = (pointer for pointer in self._checkpoints.list() if pointer.run == self._led.run.number)
        return next(own, None)

    def _install_context(self, origin: Origin) -> None:
        context.install(
            context.DriverContext(
                job_id=self._spec.job_id,
                run=self._led.run.number,
                epoch=self._led.leadership.epoch,
                restored_from=origin.source,
                lease_left=self._led.leadership.lease_left,
                given=lambda query: ForeachBatchLog(self._area.tree(self._keys.given(query))),
                past=lambda query: _past(origin.directory / query),
            )
        )


def _past(directory: Tree) -> str | None:
    """Return the id of the query that works in *directory*; ``None`` before it has one."""
    now = directory.fresh()
    return read_query_id(now) if now.has(METADATA) else None
