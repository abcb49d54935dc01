"""End of a run, or of this driver only: by the script, a stop, a cancel, a refusal or a failure.

Invariant: a result is written when the run cannot be helped, or its work is complete; every other end leaves the run to
the restart strategy. The lock is released only when every query has ended: otherwise it stays until the supervisor has
proven that all processes are dead (contract 10).

Invariant: a lack of memory, of disk, of a connection or of an answer is never taken for damage (contract 6). A refusal
only makes the next attempt look for a checkpoint, which then decides whether it continues from one.
"""

from __future__ import annotations

import logging
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import unquote

from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.verify.proof_protocol import SparkError, is_refusal
from airflow_provider_ha.driver.checkpointing.origin import Origin, OriginKind
from airflow_provider_ha.driver.checkpointing.progress import ProgressRecorder
from airflow_provider_ha.driver.checkpointing.publish_loop import PublishLoop
from airflow_provider_ha.driver.checkpointing.publisher import Publisher
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, failure_of_driver
from airflow_provider_ha.driver.ending.failure_kinds import links
from airflow_provider_ha.driver.ending.process_end import ProcessTerminator
from airflow_provider_ha.driver.ending.run_failure import (
    failed_queries,
    failure_of_run,
    own_modules,
    text_of,
    text_of_queries,
)
from airflow_provider_ha.driver.ending.stop_job import DrainFork, DrainStarter, MainThread, stop_all
from airflow_provider_ha.driver.jvm.component import Component
from airflow_provider_ha.driver.members.driver_session import DriverSession
from airflow_provider_ha.driver.members.housekeeping import Housekeeping
from airflow_provider_ha.driver.members.run_writer import JobWriter
from airflow_provider_ha.driver.queries.checked_writer import WriterCalls
from airflow_provider_ha.driver.queries.patches import Patches
from airflow_provider_ha.driver.queries.query_fit import PreviousGraph, misfit_of_run
from airflow_provider_ha.driver.queries.query_naming import StartLedger
from airflow_provider_ha.driver.queries.query_registry import QueryRegistry
from airflow_provider_ha.driver.queries.script_paths import from_missing_file
from airflow_provider_ha.driver.queries.stall_watch import StallWatch
from airflow_provider_ha.driver.script import Lifecycle, Script
from airflow_provider_ha.errors import (
    ApplicationRefusedError,
    CheckpointCorruptError,
    ConfigurationError,
    HaError,
    OperationFailedError,
)
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec
from airflow_provider_ha.jobs.model import DrainedQuery, JobState, Operation, OperationKind, RunEnd
from airflow_provider_ha.jobs.runs.submissions import MESSAGE_LIMIT, Failure, FailureKind


_OF_STATE = re.compile(
    r"CANNOT_LOAD_STATE_STORE|CHECKPOINT_FILE_CHECKSUM|STATE_STORE_UNEXPECTED_EMPTY_FILE"
    r"|STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY|INVALID_CHECKPOINT"
)
_OF_A_FILE = re.compile(r"(?:FileNotFound|NoSuchFile|EOF|Checksum|MalformedInput|ZipException|ZstdIO)\w*\Z")


def refused_directory(script: BaseException | None, registry: QueryRegistry, key: str) -> bool:
    """Return whether Spark refused the working directory at the start of a query; never raises.

    :param script: The exception of the script; ``None`` when it ended normally.
    :param key: Key of the working directory.
    """
    try:
        return any(refuses(error, key) for error in _errors(script, registry))
    except Exception:  # noqa: BLE001  # the JVM may be gone: then it is unknown
        return False


def refused(failure: Failure, key: str, registry: QueryRegistry) -> Failure:
    """Return a failure as a failure of its working directory: it is no error of the application."""
    kind = FailureKind.UNKNOWN if failure.kind is FailureKind.APPLICATION else failure.kind
    pending = _pending(registry)
    query = next(iter(pending)) if failure.query is None and len(pending) == 1 else failure.query
    return failure.model_copy(update={"kind": kind, "refused": key, "query": query})


def refuses(error: BaseException, key: str) -> bool:
    """Return whether an error of a query's start is about the checkpoint below *key*. Pure."""
    if isinstance(error, CheckpointCorruptError):
        return True
    text = text_of(error)
    found = [SparkError(error_class=link.condition or link.name, message=link.message) for link in links(text)]
    # guard: outages-refuse-the-directory
    if not is_refusal(found):
        return False
    if any(_OF_STATE.search(each.error_class) for each in found):
        return True
    of_a_file = any(_OF_A_FILE.search(each.error_class) for each in found)
    return of_a_file and f"{key}/" in unquote(text)


def _errors(script: BaseException | None, registry: QueryRegistry) -> Iterator[BaseException]:
    for query, error in failed_queries(registry.started):
        if query.status().committed <= query.committed_before:
            yield error
    # Checks and replays before the start of a query fail in the script's own call.
    if script is not None and (_pending(registry) or isinstance(script, CheckpointCorruptError)):
        yield script


def _pending(registry: QueryRegistry) -> frozenset[str]:
    """Return the queries whose start has begun, and is not complete."""
    return frozenset(registry.begun) - {query.name for query in registry.started}


@dataclass(frozen=True, slots=True)
class DriverParts:
    """The parts of a driver.

    :param calls: pyspark's own calls, as they were before they were patched.
    :param previous: The starting point of the run, and the difference between its graph and the run's.
    :param component: Of the JVM; ``None`` if the working directory does not need it.
    """

    origin: Origin
    registry: QueryRegistry
    ledger: StartLedger
    lifecycle: Lifecycle
    writer: JobWriter
    publisher: Publisher
    publishing: PublishLoop
    recorder: ProgressRecorder
    stall_watch: StallWatch
    patches: Patches
    calls: WriterCalls
    script: Script
    main_thread: MainThread
    housekeeping: Housekeeping
    previous: PreviousGraph
    component: Component | None = None


log = logging.getLogger(__name__)

_WORKED = (OriginKind.RECOVERY, OriginKind.FALLBACK)  # origins of a run that has worked before


@dataclass(frozen=True, slots=True)
class DriverEnd:
    """The ends of a driver. They do not return, except for :meth:`drain`."""

    spec: DriverSpec
    led: DriverSession
    way_out: ProcessTerminator
    parts: DriverParts

    def conclude(self, failure: str | None) -> NoReturn:
        """End with the result of the script; on the main thread.

        :param failure: Why the script failed.
        """
        parts = self.parts
        if parts.lifecycle.refusal is not None:
            self._refuse(parts.lifecycle.refusal)
        if not parts.lifecycle.claim_end():  # a stop has the run
            parts.main_thread.serve()
            self._leave_finished()
        reason = failure or parts.registry.failure()
        if reason is not None:
            modules = own_modules(self.led.graph)
            described = failure_of_run(parts.script.error, parts.registry, modules=modules)
            parts.registry.note_commits(described.batches or {})
            described = misfit_of_run(described, parts.registry, parts.previous)
            application = self.spec.home.application_directory / "application"
            step = from_missing_file(described.message, self.led.graph.beside, (application, Path.cwd()))
            if step := step or parts.script.advice(text_of_queries(parts.registry)):
                described = described.model_copy(update={"message": f"{described.message}: {step}"[:MESSAGE_LIMIT]})
            if refused_directory(parts.script.error, parts.registry, parts.origin.key):
                described = refused(described, parts.origin.key, parts.registry)
            self.way_out.leave(ExitCode.FAILED, reason, failure=described)
        if not parts.registry.started and not parts.registry.aside:
            ended = "the script ended without a streaming query"
            self._refuse(ApplicationRefusedError(ended, next_step=parts.script.advice()))
        if (number := parts.script.signals.received) is not None:
            # The script is over, but the run is not: a signal from outside does not stop the job.
            said = f"the script ended after {signal.Signals(number).name}, which is no stop of the job"
            self.way_out.leave(ExitCode.RESTART_WANTED, said)
        self._finish()

    def stopped(self, failure: str | None) -> None:
        """End after a stop; on the operations' thread.

        :param failure: Why the stop failed after it had requested the first query to end: the run is then restarted.
        """
        if failure is not None:
            self.way_out.leave(ExitCode.RESTART_WANTED, failure)
        if not self.parts.lifecycle.script_ended.is_set():
            self._leave_finished()  # the main thread is still the script's
        self.parts.main_thread.finish()

    def make_way(self, operation: Operation) -> NoReturn:
        """End without a result for a standby driver; after a hand-over in order, after a fail-over by a kill."""
        if operation.operation is OperationKind.FAIL_OVER:
            self.way_out.crash()
        said = f"handed over by operation {operation.operation_id} of {operation.requested_by}"
        self.way_out.leave(ExitCode.HANDED_OVER, said)

    def cancel(self, operation: Operation) -> NoReturn:
        """End immediately, without a result: queries commit until this process and its JVM are dead.

        The supervisor kills the remaining processes, then writes CANCELED and the answer (``supervisor.after_death``).
        """
        self.way_out.leave(ExitCode.CANCELED, f"operation {operation.operation_id} cancels run {self.led.run.number}")

    def drain(self, fork: DrainFork) -> Mapping[str, DrainedQuery]:
        """Run the script a second time, each query for its last batch; on the main thread.

        The fork stays until the run has its result, and is removed with the other directories: if this driver dies
        before that, only the fork shows that the batch in the sinks is the drain's.

        :raises OperationFailedError: The script or any of its queries failed.
        """
        component = self.parts.component
        if component is not None:
            component.move_to(fork.location)
        starter = DrainStarter(fork, self.parts.calls, component, self.parts.origin.reach)
        self.parts.patches.starter = starter
        failure = self.parts.script.run()
        if failure is not None:
            raise OperationFailedError(f"the drain failed: {failure}")
        return starter.drained

    def _refuse(self, refusal: HaError) -> NoReturn:
        """End a run whose script is refused: restarts do not help, but an output that has changed may be checked again.

        If the run has worked before, then a missing requirement of the application was met: another place may meet it.
        """
        if isinstance(refusal, ConfigurationError) and self.parts.origin.kind in _WORKED:
            self.way_out.leave(ExitCode.UNFIT, str(refusal))
        if self.parts.origin.kind is OriginKind.FALLBACK and not isinstance(refusal, ApplicationRefusedError):
            self.way_out.leave(ExitCode.DECISION_NEEDED, str(refusal))
        if isinstance(refusal, ApplicationRefusedError) or self.parts.origin.kind is not OriginKind.RECOVERY:
            self.parts.writer.end(JobState.FAILED, reason=str(refusal))
            # Immediately: a query that was started before the refusal works until then. The supervisor cleans up.
            self.way_out.leave(ExitCode.REFUSED, str(refusal))
        self.way_out.leave(ExitCode.FAILED, str(refusal), failure=failure_of_driver(refusal))

    def _finish(self) -> NoReturn:
        """The script has ended well: take a sharp checkpoint, and finish the run.

        A query that the run was restored with, and that its script never started, is no longer part of the script and
        is dropped, only here. Queries that the run itself has started stay, whether or not they came back.
        """
        parts = self.parts
        parts.lifecycle.begin_stop()
        stop_all(parts.registry, parts.lifecycle)
        unknown = parts.origin.plans.keys() - parts.ledger.names
        dropped = [query.name for query in parts.registry.resting if query.name in unknown]
        parts.registry.drop(dropped)
        left = [query.name for query in parts.registry.resting]
        checkpoint = parts.publisher.publish(CheckpointKind.STOP)
        end = RunEnd(result={"checkpoint": checkpoint.number, "path": checkpoint.pin})
        reason = script_ended(dropped, left, checkpoint.number)
        if dropped or left:
            log.warning("run %d: %s", self.led.run.number, reason)
        parts.writer.end(JobState.FINISHED, reason=reason, checkpoint=checkpoint.number, end=end)
        self._leave_finished()

    def _leave_finished(self) -> NoReturn:
        """Every query has ended: this process can no longer write for the job, so it releases the lock immediately."""
        self.parts.lifecycle.leaving.set()
        self.parts.publishing.stop()
        self.parts.recorder.stop()
        self.parts.housekeeping.finish(self.led.run.number)
        if self.parts.component is not None:
            self.parts.component.close("the leadership is released")
        self.led.leadership.release()
        self.led.coordinator.close()
        self.spec.home.session.unlink(missing_ok=True)
        self.spec.home.driver_pid.unlink(missing_ok=True)  # an orderly end: the supervisor lets the JVM clean up
        self.way_out.leave(ExitCode.DONE)


def script_ended(dropped: Sequence[str], left: Sequence[str], checkpoint: int) -> str:
    """Return the reason of a run whose script has ended well.

    :param dropped: Queries that the run was restored with, and that its script never started.
    :param left: Queries that the run has started before a loss, and that the script did not start again.
    :param checkpoint: Number of the run's last checkpoint.
    """
    said = ["the script ended"]
    if dropped:
        names = ", ".join(map(repr, dropped))
        said.append(f"it never started {names}, which the run was restored with: checkpoint {checkpoint} drops them")
    if left:
        names = ", ".join(map(repr, left))
        said.append(f"it did not start {names} again, which checkpoint {checkpoint} holds as it was")
    return "; ".join(said)
