"""A run that has lost its driver, and whose working directory the next one continues or replaces. No Spark."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import CheckpointKind, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.file_sink_log import LOG
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.checkpointing.fallback import FallbackPlanner
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.publisher import Provenance, Publisher
from airflow_provider_ha.driver.checkpointing.start_point import prepare_start, start_from_fallback
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry, StartedQuery
from airflow_provider_ha.driver.queries.writer_notes import SinkSpec
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.graph_store import JobGraphStore
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.storage.keys import JobKeys
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.checkpoints.written_query import WrittenQuery
from tests.support.clusters.coordination_helpers import JOB
from tests.support.clusters.jobs_helpers import a_run
from tests.support.spark.recorded_job import QUERY


FOREACH_BATCH = SinkSpec(SinkKind.FOREACH_BATCH, "foreachBatch")
FORGETFUL = SinkSpec(SinkKind.OTHER, "noop")


@dataclass
class LostRun:
    """A run whose driver has died in its first epoch, after it had committed and published some batches."""

    job: Job
    sink: SinkSpec = FOREACH_BATCH
    previous: Generation = field(
        default_factory=lambda: Generation(run=1, epoch=1, directory=JobKeys(JOB).working_directory(1, "first"))
    )

    def __post_init__(self) -> None:
        self.area = LinkedWorkArea(self.job.config.work_path)
        self.query = WrittenQuery(self.directory)
        rate = self.directory / QUERY / "sources" / "0"
        rate.mkdir(parents=True)
        (rate / "0").write_text("v1\n1700000000000")
        self.registry = QueryRegistry(SystemClock())
        self.registry.add(StartedQuery(QUERY, SimpleNamespace(), self.sink, LocalTree(self.directory / QUERY)))
        self.registry.script_waits()
        self.publisher = Publisher(
            store=self.job.checkpoints,
            leadership=self.job.leadership,
            registry=self.registry,
            origin=Origin(OriginKind.FRESH, self.previous.directory, LocalTree(self.directory)),
            provenance=Provenance(JOB, 1, "0" * 64, "4.2.0"),
            options=HaOptions(checkpoint_interval=0.0),
            area=self.area,
            clock=SystemClock(),
        )

    @property
    def directory(self) -> Path:
        return self.job.config.work_path / self.previous.directory

    def publish(self, batches: int = 1) -> None:
        """Commit batches, then take a checkpoint."""
        for _ in range(batches):
            self.query.commit()
        self.publisher.publish(CheckpointKind.PERIODIC)

    def planner(
        self,
        *,
        run: int = 1,
        known: tuple[str, ...] = (QUERY,),
        writers_dead: bool = True,
        repeatable: tuple[str, ...] = (QUERY,),
    ) -> FallbackPlanner:
        return FallbackPlanner(
            store=self.job.objects,
            area=self.area,
            checkpoints=self.job.checkpoints,
            savepoints=self.job.savepoints,
            keys=self.job.keys,
            run=a_run(run),
            epoch=2,
            options=HaOptions(repeatable=repeatable),
            clock=SystemClock(),
            known=known,
            writers_dead=writers_dead,
        )

    def look_at_rows(self) -> Path:
        """Let the run have a query with a console beside it, with the same batches; returns its directory."""
        look = QuerySink(kind=SinkKind.OTHER, format="console")
        for name, sink in ((QUERY, QuerySink(kind=SinkKind.FOREACH_BATCH)), ("look", look)):
            StartLedger(LocalTree(self.directory)).note(name, sink)
        return Path(shutil.copytree(self.directory / QUERY, self.directory / "look"))

    def start(
        self, key: str = "second", *, refusal: str = "", refused: str | None = None, run: int = 1, **planned: Any
    ) -> Origin:
        """Make the working directory of the next epoch, as its driver does."""
        planner = self.planner(run=run, **planned)
        made = f"{self.job.keys.working_directory(2, key)}-restored"

        def fall_back(lost: Generation, error: HaError) -> Origin:
            found = planner.plan(lost, error, refused=bool(refusal))
            return start_from_fallback(self.area, self.job.paths, a_run(run), found, key=made)

        return prepare_start(
            self.job.objects,
            self.area,
            self.job.paths,
            a_run(run),
            self.previous,
            key=self.job.keys.working_directory(2, key),
            refusal=refusal,
            refused=refused,
            lengths=self.lengths(),
            fall_back=fall_back,
        )

    def lengths(self) -> dict[str, dict[str, int]]:
        """What the newest checkpoint has recorded, as the driver hands it on."""
        newest = next(iter(self.job.checkpoints.list()), None)
        queries = self.job.checkpoints.load(newest).queries if newest is not None else {}
        return {name: query.files for name, query in queries.items()}

    def begin(self, origin: Origin) -> None:
        """Make a working directory current, and take it for the last one."""
        self.writer().begin(origin)
        found = read_record(self.job.coordinator, self.job.paths.generation, Generation)
        assert found is not None
        self.previous = found[0]

    def writer(self) -> JobWriter:
        return JobWriter(
            coordinator=self.job.coordinator,
            paths=self.job.paths,
            graphs=JobGraphStore(self.job.coordinator, self.job.objects, self.job.paths),
            journal=JobJournal(self.job.objects, self.job.keys),
            leadership=self.job.leadership,
            registry=QueryRegistry(SystemClock()),
            run=1,
            clock=SystemClock(),
        )

    def empty_newest_entry(self, log: str = "offsets") -> None:
        """Damage the newest entry of a log, and not what a checkpoint has linked."""
        entry = self.directory / QUERY / log / str(self.query.batch)
        entry.unlink()
        entry.write_bytes(b"")

    def plan_next(self, content: str) -> None:
        """Plan a batch that is not committed."""
        (self.directory / QUERY / "offsets" / str(self.query.batch + 1)).write_text(content)

    def begin_to_drain(self, output: Path) -> None:
        """Give the batch of a drain to a file sink, and leave the drain unfinished."""
        batch = self.query.batch + 1
        for log, last in (("offsets", batch), ("commits", batch - 1)):
            entry = self.directory.with_name(f"{self.directory.name}.drain") / QUERY / log / str(last)
            entry.parent.mkdir(parents=True)
            entry.touch()
        (output / LOG / str(batch)).write_text("v1")

    def damage_pin(self, number: int) -> None:
        (self.job.pin_path(number) / QUERY / "metadata").unlink()
