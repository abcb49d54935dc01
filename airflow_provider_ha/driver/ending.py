"""The end of a run, or of this driver only: by the script, a stop, a cancel, a refusal or a failure.

Invariant: a result is written when the run cannot be helped, or its work is complete; every other end leaves the run to
the restart strategy. The lock is released only when every query has ended: otherwise it stays until the supervisor has
proven that all processes are dead (contract 10).
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.driver.drain_run import DrainFork, DrainStarter
from airflow_provider_ha.driver.evidence import failure_of_driver, failure_of_run, own_modules, text_of_queries
from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.driver.lead import DriverSession
from airflow_provider_ha.driver.leaving import ProcessTerminator
from airflow_provider_ha.driver.misfit import misfit_of_run
from airflow_provider_ha.driver.origin import OriginKind
from airflow_provider_ha.driver.parts import Parts
from airflow_provider_ha.driver.refused_start import refused, refused_directory
from airflow_provider_ha.driver.stop_job import stop_all
from airflow_provider_ha.driver.way_forward import from_missing_file
from airflow_provider_ha.errors import ApplicationRefusedError, ConfigurationError, HaError, OperationFailedError
from airflow_provider_ha.jobs.failures import MESSAGE_LIMIT
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec
from airflow_provider_ha.jobs.model import DrainedQuery, JobState, Operation, RunEnd


log = logging.getLogger(__name__)

_WORKED = (OriginKind.RECOVERY, OriginKind.FALLBACK)  # origins of a run that has worked before


@dataclass(frozen=True, slots=True)
class Ending:
    """The ends of a driver. They do not return, except for :meth:`drain`."""

    spec: DriverSpec
    led: DriverSession
    way_out: ProcessTerminator
    parts: Parts

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
