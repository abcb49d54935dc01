"""A job that grows old run by run, with a real ZooKeeper and real directories; only Spark and the engine are left out.

Every so many runs one is submitted, led, recorded, checkpointed, stopped by an operation and cleaned up by the code
that does it in production; of the others the records are written that such a run leaves. Each has the epoch of its
number, and leaves a note about the one batch that its fenced function was given, claims of two tasks, a claim of an
output that no other run has, a claim of the process that recovers its loss, a separate graph, the directory of its
submission with a log, and a lease of a reader that came too late. Between two runs an hour passes by its clock.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path

from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea
from airflow_provider_ha.checkpoints.model import Checkpoint, CheckpointKind, QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.sinks.unread_sinks import ForeachBatchLog
from airflow_provider_ha.checkpoints.store.checkpoint_store import CheckpointStore
from airflow_provider_ha.checkpoints.store.claims import runs_in_use
from airflow_provider_ha.checkpoints.store.orphaned_blobs import OrphanCollection
from airflow_provider_ha.clock import SystemClock, new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Op, SetData
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.leadership import Leadership
from airflow_provider_ha.coordination.reader_leases import LeaseRecord, hold
from airflow_provider_ha.driver.checkpointing.publish_loop import RemovalTurns, clear_notes
from airflow_provider_ha.driver.members.driver_session import led_record
from airflow_provider_ha.driver.members.housekeeping import Housekeeping, PastAttempts
from airflow_provider_ha.host.engines.registry import Engines
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Artifact, Blob, JobGraph
from airflow_provider_ha.jobs.model import (
    Generation,
    JobState,
    LeaderInfo,
    Operation,
    OperationKind,
    OperationState,
    Recovery,
    Run,
    RunEnd,
    RunResult,
    StartPoint,
)
from airflow_provider_ha.jobs.observe import create_job
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.transactions import new_submission
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.runs.output_claims import OutputClaim, OutputClaims
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionExit, SubmissionStarted
from airflow_provider_ha.jobs.runs.watchers import (
    FOLLOWED,
    FollowedRun,
    KillPolicy,
    WatcherClaim,
    claim,
    follow_first,
)
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission, submit_run
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.open_storage import open_store
from tests.engine_helpers import NothingToSee, handle


JOB = "flights"
BETWEEN_RUNS = timedelta(hours=1)
RETAINED_CHECKPOINTS = 3


class AgingClock:
    """Leases in real time, records in a time that a test moves on."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def lease_time(self) -> float:
        return SystemClock().lease_time()

    def now(self) -> datetime:
        return self.at


class HomeEngine(NothingToSee):
    """Takes a submission by making its home, as a supervisor does."""

    name = "local"
    facts = replace(NothingToSee.facts, launch_seconds=30.0)

    def __init__(self, config: HaConfig) -> None:
        self._config = config

    def launch(self, ticket: Ticket, reserved: DriverHandle | None) -> DriverHandle:
        self.make_home(ticket.run, ticket.attempt)
        return handle()

    def make_home(self, run: int, attempt: int) -> None:
        """Make the directory of a submission, with a log."""
        home = self._config.home_path / JobKeys(JOB).application(run, attempt)
        home.mkdir(parents=True)
        (home / "driver.log").write_bytes(bytes(1000))


@dataclass(frozen=True)
class Size:
    """What there is of a cluster.

    :param znodes: Below the cluster's node.
    :param tree_bytes: Of their data.
    :param widest: Bytes of the names of the children of one node.
    :param files: Below storage and work root, beside blobs.
    :param file_bytes: Of these.
    :param directories: Below storage and work root.
    :param blobs: Of files and graphs.
    """

    znodes: int
    tree_bytes: int
    widest: int
    files: int
    file_bytes: int
    directories: int
    blobs: int


class AgedJob:
    """The job. One process is submitter, task, driver and supervisor in turn.

    :param led_every: Which of its runs have a driver.
    :param cleaning: Whether drivers remove what earlier runs have left: without, the job grows as it did before.
    """

    def __init__(
        self, config: HaConfig, coordinator: Coordinator, *, led_every: int = 10, cleaning: bool = True
    ) -> None:
        self.config, self.coordinator, self.clock, self.cleaning = config, coordinator, AgingClock(), cleaning
        self.led_every = led_every
        self.engine = HomeEngine(config)
        self.context = JobContext(
            job_id=JOB,
            config=config,
            coordinator=coordinator,
            store=open_store(config),
            engines=Engines.only(self.engine),
            clock=self.clock,
        )
        self.paths, self.keys = self.context.paths, self.context.keys
        self.area = LinkedWorkArea(config.work_path)
        self.runs = 0
        create_job(coordinator, self.paths)
        coordinator.ensure(self.paths.heartbeat, self.paths.epoch)
        coordinator.ensure(self.paths.cluster.outputs)

    def live(self, runs: int) -> None:
        """Let so many runs begin and end."""
        for _ in range(runs):
            self.runs += 1
            request = f"dag.scheduled-{self.runs}.submit"
            if self.runs % self.led_every == 0:
                self._run(request)
            else:
                self._write(request)
            self.clock.at += BETWEEN_RUNS

    def _run(self, request: str) -> None:
        job, number = self.context, submit_run(self.context, request, self._prepared).run
        for task in (request, f"{request}.follow"):
            claim(job.coordinator, job.paths, task, ti_id=task, when_killed=KillPolicy.DETACH)
        follow_first(job.coordinator, job.paths, f"{request}.follow", number)
        leadership = self._lead(number)
        directory = self._work(leadership, number)
        checkpoints = CheckpointStore(job.coordinator, job.store, job.paths, job.keys, self.area, clock=self.clock)
        housekeeping = Housekeeping(job.runs, leadership, checkpoints, self.area, directory)
        list(housekeeping.finish_earlier(number))
        self._publish(checkpoints, leadership, number, directory)
        if self.cleaning:
            self._clean(checkpoints, leadership, number)
        self._stop(leadership, number, request)
        housekeeping.finish(number)
        job.coordinator.commit(
            Create(job.paths.submission_exit(number, 1), SubmissionExit(code=0, at=self.clock.now()).to_bytes()),
            self._recovered(number, leadership.epoch),
        )
        leadership.release()
        # A reader that looked at a checkpoint that is gone by now.
        hold(job.coordinator, job.paths, f"checkpoint-{number}0", holder="reader", seconds=1, clock=self.clock)

    def _write(self, request: str) -> None:
        """Write what :meth:`_run` leaves, in one transaction."""
        job, at, number = self.context, self.clock.now(), self.runs
        epoch = job.coordinator.get(job.paths.epoch)
        self.given("rows").begin(epoch.version + 1, number)
        run = Run(number=number, graph=self._graph(), start=StartPoint(), request_id=request, created_at=at)
        submission = new_submission(job, 1, by=request, engine=HomeEngine.name)
        started = SubmissionStarted(handle=handle())
        result = RunResult(state=JobState.FINISHED, cleanup="CLEAN", epoch=epoch.version + 1, at=at)
        job.journal.submission(run, submission)
        job.journal.started(number, submission, started)
        job.journal.result(number, result)
        self.engine.make_home(number, 1)
        output = OutputClaim(place=f"file:///out/{number}", job_id=JOB, run=number, query="rows")
        lease = LeaseRecord(lease_id=new_id(), holder="reader", expires_at=at)
        follower = f"{request}.follow"
        claims = {
            name: WatcherClaim(holder=name, when_killed=KillPolicy.DETACH, nonce=new_id())
            for name in (request, follower)
        }
        asked = Operation(
            operation_id=f"{request}.stop",
            operation=OperationKind.STOP,
            run=number,
            requested_by=request,
            requested_at=at,
            state=OperationState.COMPLETED,
            finished_at=at,
        )
        leases = job.paths.leases(f"checkpoint-{number}0")
        job.coordinator.commit(
            job.runs.create_op(run),
            *job.runs.submission_ops(number, submission),
            Create(job.paths.submission_started(number, 1), started.to_bytes()),
            SetData(job.paths.epoch, b"aged", epoch.version),
            Create(job.paths.submission_led(number, 1), led_record(epoch.version + 1, self.clock).to_bytes()),
            Create(job.paths.submission_exit(number, 1), SubmissionExit(code=0, at=at).to_bytes()),
            job.runs.result_op(number, result),
            *(Create(job.paths.watcher(name), record.to_bytes()) for name, record in claims.items()),
            Create(job.paths.watcher(f"{follower}{FOLLOWED}"), FollowedRun(run=number).to_bytes()),
            Create(job.paths.cluster.output(hashlib.sha256(output.place.encode()).hexdigest()), output.to_bytes()),
            Create(job.paths.operation(asked.operation_id), asked.to_bytes()),
            Create(leases),
            Create(f"{leases}/{lease.lease_id}", lease.to_bytes()),
            self._recovered(number, epoch.version + 1),
        )

    def _recovered(self, run: int, epoch: int) -> Op:
        """Return the claim of the process that submits a run again after the loss of *epoch*."""
        claim = Recovery(lost_epoch=epoch, run=run, attempt=2, by="recover_jobs", at=self.clock.now())
        return Create(self.paths.recovery(epoch), claim.to_bytes())

    def _prepared(self) -> PreparedSubmission:
        return PreparedSubmission(self._graph(), StartPoint())

    def _graph(self) -> Blob:
        graph = JobGraph(
            job_id=JOB,
            name=JOB,
            application=Artifact(name="app.py", blob=Blob(sha256="0" * 64, size=1)),
            arguments=("--date", str(self.clock.now())),
        )
        blob = self.context.graphs.write_graph(graph)
        self._stamp(keys.blob(blob.sha256))
        return blob

    def _lead(self, run: int) -> Leadership:
        job = self.context

        def describe(epoch: int) -> bytes:
            since = self.clock.now()
            return LeaderInfo(epoch=epoch, run=run, attempt=1, host="host", pid=1, since=since).to_bytes()

        def also(epoch: int) -> tuple[Op, ...]:
            return (Create(job.paths.submission_led(run, 1), led_record(epoch, self.clock).to_bytes()),)

        leadership = acquire(
            job.coordinator,
            job.paths,
            timings=self.config.timings,
            clock=self.clock,
            describe=describe,
            timeout=30,
            also=also,
        )
        leadership.start_heartbeats(lambda _: None)
        return leadership

    def _work(self, leadership: Leadership, run: int) -> str:
        """Make the working directory of the epoch current, and claim an output."""
        job, key = self.context, self.keys.working_directory(leadership.epoch, "aged")
        (self.config.work_path / key / "rows" / "offsets").mkdir(parents=True)
        generation = Generation(run=run, epoch=leadership.epoch, directory=key)
        job.journal.generation(generation)
        node = job.coordinator.find(job.paths.generation)
        data = generation.to_bytes()
        leadership.commit(
            Create(job.paths.generation, data) if node is None else SetData(node.path, data, node.version)
        )
        self.given("rows").begin(leadership.epoch, run)
        OutputClaims(job.coordinator, job.paths, leadership.commit, run).claim(f"file:///out/{run}", "rows")
        return key

    def _publish(self, checkpoints: CheckpointStore, leadership: Leadership, run: int, directory: str) -> None:
        number = checkpoints.next_number()
        pin = self.keys.pin(number, leadership.epoch)
        (self.config.work_path / pin).mkdir(parents=True)
        checkpoints.add(
            leadership,
            Checkpoint(
                job_id=JOB,
                number=number,
                run=run,
                epoch=leadership.epoch,
                reason=CheckpointKind.PERIODIC,
                created_at=self.clock.now(),
                queries={"rows": QueryCut(batch=run, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))},
                directory=directory,
                pin=pin,
                graph=self.context.runs.get(run).run.graph.sha256,
                spark_version="4.2.0",
            ),
        )
        checkpoints.subsume(leadership, RETAINED_CHECKPOINTS)

    def _clean(self, checkpoints: CheckpointStore, leadership: Leadership, run: int) -> None:
        job = self.context
        past = PastAttempts(
            coordinator=job.coordinator,
            paths=job.paths,
            keys=job.keys,
            home_path=self.config.home_path,
            leadership=leadership,
            journal=job.journal,
            options=HaOptions(),
            own=(run, 1),
            runs=PastRuns(
                job.coordinator,
                job.paths,
                job.journal,
                self.config.retention,
                self.clock,
                partial(runs_in_use, job.coordinator, job.paths),
            ),
            notes=partial(clear_notes, checkpoints, leadership, self.given),
            blobs=lambda: self._collect_blobs(leadership),
        )
        cleaning = RemovalTurns(checkpoints, leadership, self.clock, past.clear)
        while not cleaning.turn(lambda: True):
            pass  # a turn ends after seconds: on a busy machine before all is done

    def given(self, query: str) -> ForeachBatchLog:
        """Return the notes about a query."""
        return ForeachBatchLog(self.area.tree(self.keys.given(query)))

    def _collect_blobs(self, leadership: Leadership) -> None:
        job = self.context
        collection = OrphanCollection(
            job.coordinator, job.paths.cluster, job.store, self.area, self.clock, leadership.prove
        )
        if collection.collect() is not None:
            self._stamp(keys.BLOB_COLLECTION)

    def _stamp(self, key: str) -> None:
        """Set the time of an object that was written now to that of the job's clock."""
        at = self.clock.now().timestamp()
        os.utime(self.config.work_path / key, (at, at))

    def _stop(self, leadership: Leadership, run: int, request: str) -> None:
        """Be stopped: the answer of the operation and the result in one transaction."""
        job, at = self.context, self.clock.now()
        asked = operations.request(
            job.coordinator,
            job.paths,
            OperationKind.STOP,
            operation_id=f"{request}.stop",
            arguments={},
            requested_by=request,
            clock=self.clock,
        )
        for operation in operations.expired(operations.list_operations(job.coordinator, job.paths), at):
            leadership.commit(operations.forget_op(job.paths, operation))
        end = RunEnd.of(asked, {})
        result = RunResult(state=JobState.FINISHED, epoch=leadership.epoch, end=end, at=at)
        job.journal.result(run, result)
        removal = job.graphs.remove_op(run)
        leadership.commit(
            job.runs.result_op(run, result),
            *operations.ending_ops(job.coordinator, job.paths, run, result),
            *([removal] if removal else []),
        )

    def measure(self) -> Size:
        """Count what there is of the cluster."""
        nodes = list(self._nodes(self.paths.cluster.base))
        every = list(Path(self.config.work_path).rglob("*"))
        found = [path for path in every if path.is_file()]
        files = [path for path in found if "blobs" not in path.parts]
        return Size(
            znodes=len(nodes),
            tree_bytes=sum(size for _, size, _ in nodes),
            widest=max(names for _, _, names in nodes),
            files=len(files),
            file_bytes=sum(path.stat().st_size for path in files),
            directories=len(every) - len(found),
            blobs=len(found) - len(files),
        )

    def _nodes(self, path: str) -> Iterator[tuple[str, int, int]]:
        names = self.coordinator.children(path)
        node = self.coordinator.get(path)
        yield path, len(node.data), sum(len(name) + 4 for name in names)
        for name in names:
            yield from self._nodes(f"{path}/{name}")


def seconds(job: AgedJob, runs: int) -> float:
    """Return the seconds that a run takes."""
    began = time.perf_counter()
    job.live(runs)
    return (time.perf_counter() - began) / runs
