"""Base of submit, restore and follow: follow a run until it is RUNNING or over.

The loss of a driver does not fail a task. The operator submits the run again from its persisted graph and defers again,
as often as the job's restart strategy allows. Airflow's retries are left for failures of Airflow.

Invariant: reads of a driver's log never fail a task, and delay a recovery by at most one read. The output of a driver
is for people and never appears in an event of a trigger or in XCom.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from airflow_provider_ha.airflow_side.compat import AIRFLOW, AIRFLOW_V_3_3_PLUS
from airflow_provider_ha.airflow_side.compat.sdk import AirflowException, AirflowFailException
from airflow_provider_ha.airflow_side.links import report_facts, report_run
from airflow_provider_ha.airflow_side.openlineage import LineageMixin, is_active, lineage_conf, reason_of
from airflow_provider_ha.api.documents.operation import TaskRunResultView
from airflow_provider_ha.coordination.paths import ClusterPaths, JobPaths
from airflow_provider_ha.errors import ConfigurationError, DecisionNeededError, HaError, JobStateError, LeadershipError
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.recovery.losses import last_failure
from airflow_provider_ha.jobs.runs.watchers import KillPolicy, claim
from airflow_provider_ha.jobs.submit.requests import SubmittedRun
from airflow_provider_ha.operators._base import (
    FOLLOW_RETRIES,
    RETRY_DELAY,
    SparkHaBaseOperator,
    acting,
    airflow_errors,
    because,
    is_own,
    is_retry,
    read_log,
    refuse_error,
    request_id,
    retry_kwargs,
)
from airflow_provider_ha.operators._parameters import ArgumentSecrets, check_given, flag, one_of, take_task_options
from airflow_provider_ha.triggers.job import FINISHED, RUNNING, SparkHaJobTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.job_context import CallerIdentity


@dataclass(frozen=True, slots=True)
class LossRecovery:
    """Outcome of a recovery, and the next step.

    :param sentence: Text for the log, and for the error once the run is over.
    :param wait: Seconds until the recovery; ``None`` when there is nothing left to recover.
    """

    sentence: str
    wait: float | None = None


def after_loss(client: HaClient, job_id: str, *, run: int, by: str) -> LossRecovery:
    """Recover the loss of the newest submission of *run*, after the trigger has waited for the restart delay.

    Several watchers may do this at the same time: one claims the loss in ZooKeeper, and the others find its recovery. A
    run without attempts left gets the result FAILED here, which the trigger then reports.

    :param by: Name of the caller, recorded for people.
    :raises DecisionNeededError: The run needs a decision of its user to continue.
    :raises HaError: A retryable error leaves the job unchanged.
    """
    job = client.job(job_id)
    snapshot = job.snapshot()
    if snapshot.run is None or snapshot.run.run.number != run:
        return LossRecovery(f"Run {run} is no longer the newest run of job {job_id!r}")
    try:
        submitted = job.recover(by=by, wait=False)
    except DecisionNeededError:
        raise
    except (JobStateError, LeadershipError) as error:
        # The run ended or was recovered in between; the trigger's next read shows which.
        return LossRecovery(f"Nothing to submit again: {error}")
    made = "was submitted again from its persisted graph" if submitted.created else "needs no new submission"
    return LossRecovery(f"Run {run} of job {job_id!r} {made}: attempt {submitted.attempt}")


def later(error: HaError, seconds: float) -> LossRecovery:
    """Return the step for an unreachable cluster, which costs no Airflow retry."""
    return LossRecovery(f"The loss cannot be recovered yet, trying again in {seconds:.0f} s: {error}", wait=seconds)


def where_is_log(client: HaClient, job_id: str, run: int) -> tuple[int | None, str]:
    """Return the newest attempt of a run, and a sentence with the place of its driver's log.

    The attempt is ``None`` when it could not be read; the sentence is empty before the first driver started.
    """
    from airflow_provider_ha.jobs.drivers.driver_log import newest_log, printed_place  # noqa: PLC0415  # brings pydantic

    try:
        view = client.context(job_id).runs.get(run)
        place = newest_log(job_id, view)
    except HaError:
        return None, ""
    attempt = view.newest.submission.attempt if view.newest is not None else None
    if place is not None:
        return attempt, f"The log of its driver: {place}"
    printed = printed_place(view.newest) if view.newest is not None else ""
    return attempt, f"Its supervisor has not reported where it runs. Should it not: {printed}" if printed else ""


def last_words_of(client: HaClient, job_id: str, run: int, attempt: int | None = None) -> str:
    """Return the place of a driver's log and its last lines without secrets; empty when neither is known.

    :param attempt: Attempt of the driver; the newest started attempt by default.
    """
    from airflow_provider_ha.jobs.drivers.driver_log import log_place  # noqa: PLC0415  # brings pydantic
    from airflow_provider_ha.jobs.drivers.run_logs import choose, last_words  # noqa: PLC0415  # brings kazoo and boto3

    try:
        job = client.context(job_id)
        view = job.runs.get(run)
        submission = choose(job_id, view, attempt)
        place, words = log_place(job_id, run, submission), last_words(job, view, submission)
    except HaError:
        return ""
    if place is None:
        return ""
    said = f"Its last lines:\n{words}" if words else "Its last lines are not known on this host."
    return f"The log of attempt {place.attempt}: {place}. {said}"


class SparkHaWatchOperator(LineageMixin, SparkHaBaseOperator):
    """Base of the operators that watch a run; not for DAGs.

    :param when_killed: Effect on the job when a user marks the waiting task failed or successful: ``"detach"`` (none),
        ``"stop_with_checkpoint"`` or ``"cancel"``. A clear leaves the job alone: the next try attaches again. All but
        ``"detach"`` need Airflow 3.3, because older releases do not notify a waiting task.
    """

    template_fields: Sequence[str] = (*SparkHaBaseOperator.template_fields, "when_killed")
    wait_for: str = FINISHED

    def __init__(
        self,
        *,
        when_killed: str = KillPolicy.DETACH.value,
        retries: int | None = FOLLOW_RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**retry_kwargs(retries, retry_delay, FOLLOW_RETRIES), **kwargs)
        self.own_retries = is_own(retries, FOLLOW_RETRIES)
        self.when_killed = when_killed
        check_given(self, when_killed=one_of("when_killed", [choice.value for choice in KillPolicy]))

    def attach(self, client: HaClient, context: Any, request: str) -> int:
        """Return the number of the run that the task *request* watches. Idempotent; a refusal changes nothing.

        :raises HaError: The run does not exist, or cannot be started.
        """
        raise NotImplementedError

    def execute(self, context: Any) -> dict[str, Any]:
        """Claim the task, find its run, then defer."""
        with airflow_errors():
            one_of("wait_for", (RUNNING, FINISHED))(self.wait_for)
            one_of("when_killed", [choice.value for choice in KillPolicy])(self.when_killed)
            refuse_unheard(self.when_killed)
        request = request_id(context)
        with self.client() as client:
            # Claim first, then find the run: otherwise the trigger of an earlier try could still stop the run found
            # here. Without an earlier claim there is no such trigger, and a refused task leaves no trace.
            version = self._claim(client, context, request) if self._has_claim(client, request) else None
            run = self.attach(client, context, request)
            version = self._claim(client, context, request) if version is None else version
            report_run(self, context, client, run)
            self.learn_lineage(client, run, context)
            attempt, found = where_is_log(client, self.job_id, run)
            if found:
                self.log.info("%s", found)
        self._wait(run, request, version, attempt=attempt)

    def execute_complete(self, context: Any, event: dict[str, Any], claim: int | None = None) -> dict[str, Any]:
        """Return the state of the job, submit it again, or fail."""
        refuse_error(event)
        if event["status"] == "recover":
            self._recover(event, context, claim)
        report_facts(self, context, event)
        self._learn_lineage_of_end(event["run"])
        if event["status"] == "ended" and event["state"] != JobState.FINISHED.value:
            self._show_last_words(event["run"])
            raise AirflowFailException(
                f"Run {event['run']} of job {self.job_id!r} ended {event['state']}: "
                f"{because(event.get('reason'))} "
                f"Its latest checkpoint: {event.get('checkpoint') or 'none'}. "
                f"{read_log(self.job_id, event['run'])}"
            )
        return TaskRunResultView.of_event(event).to_json()

    def _recover(self, event: dict[str, Any], context: Any, claim: int | None) -> NoReturn:
        """Take the step that the restart strategy requires, then wait again."""
        request = request_id(context)
        self.log.warning("The driver of run %d of job %s is gone: %s", event["run"], self.job_id, event.get("reason"))
        try:
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                step = after_loss(client, self.job_id, run=event["run"], by=request)
                # After the recovery, so that it never waits for XCom or a log.
                report_run(self, context, client, event["run"])
                self.learn_lineage(client, event["run"], context)
                if event["attempt"] and (said := last_words_of(client, self.job_id, event["run"], event["attempt"])):
                    self.log.warning("%s", said)
        except HaError as error:
            if not error.retryable:
                raise AirflowFailException(str(error)) from error
            step = later(error, self.poll_interval)
        self.log.info("%s", step.sentence)
        lost_attempt = None if step.wait is None else event["attempt"]
        logged = event["attempt"] + 1
        self._wait(event["run"], request, claim, recover_after=step.wait, lost_attempt=lost_attempt, attempt=logged)

    def _learn_lineage_of_end(self, run: int) -> None:
        """Read the lineage at the end of a run; an unreadable event never hides how the run ended."""
        if not is_active():
            return
        try:
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                self.learn_lineage(client, run)
        except Exception as error:  # noqa: BLE001  # an error of lineage never fails a finished run
            self.log.warning(
                "OpenLineage events of run %d of job %s are not sent: %s", run, self.job_id, reason_of(error)
            )

    def _show_last_words(self, run: int) -> None:
        """Log the last lines of the driver that ended the run; an unreadable log never hides why it ended."""
        try:
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                said = last_words_of(client, self.job_id, run)
        except (HaError, AirflowException) as error:
            said = f"The log of its driver could not be looked up: {error}"
        if said:
            self.log.warning("%s", said)

    def _has_claim(self, client: HaClient, request: str) -> bool:
        return client.coordinator.find(self.paths(client).watcher(request)) is not None

    def _claim(self, client: HaClient, context: Any, request: str) -> int:
        paths, when_killed = self.paths(client), KillPolicy(self.when_killed)
        return claim(client.coordinator, paths, request, ti_id=str(context["ti"].id), when_killed=when_killed)

    def paths(self, client: HaClient) -> JobPaths:
        """Return the paths of the job."""
        return ClusterPaths(client.config.root, client.config.cluster_id).job(self.job_id)

    def _wait(self, run: int, request: str, claim: int | None, **recovery: Any) -> NoReturn:
        self.defer(
            trigger=SparkHaJobTrigger(
                run=run,
                wait_for=self.wait_for,
                when_killed=self.when_killed,
                watcher_id=request,
                claim=claim,
                **recovery,
                **self.trigger_kwargs(),
            ),
            method_name="execute_complete",
            kwargs={"claim": claim},
        )


class SparkHaRunOperator(ArgumentSecrets, SparkHaWatchOperator):
    """Base of the operators that start a run; not for DAGs.

    :param wait_for: ``"running"``: succeed once the run has a leader with a known epoch and is RUNNING, so that each
        query that the script started has committed a batch, or found no data at its first trigger. ``"finished"``:
        follow the run to its end, and submit it again after each loss of its driver.
    :param force: Act even though the job belongs to another DAG.
    """

    request_model: ClassVar[type[Any]]  # of its options
    template_fields: Sequence[str] = (*SparkHaWatchOperator.template_fields, "wait_for", "force")

    conf: Mapping[str, str] | None = None

    def __init__(
        self,
        *,
        wait_for: str = RUNNING,
        force: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.wait_for = wait_for
        self.force = force
        check_given(
            self,
            wait_for=one_of("wait_for", (RUNNING, FINISHED)),
            force=flag("force"),
        )
        self.lineage_conf: dict[str, str] = {}

    def _do_render_template_fields(self, parent: Any, *args: Any, **kwargs: Any) -> None:
        """Render the templates, and take the options of the task from a holder that was one."""
        super()._do_render_template_fields(parent, *args, **kwargs)
        if parent is self:
            take_task_options(self, self.request_model)

    def start_run(self, job: JobClient, request: str) -> SubmittedRun:
        """Start the run of *request*, or find it again. Idempotent.

        :raises JobStateError: The job has a live run of another request.
        """
        raise NotImplementedError

    def acting(self, context: Any) -> CallerIdentity:
        """Return the identity with which the task acts on the job."""
        return acting(context, force=self.force)

    def attach(self, client: HaClient, context: Any, request: str) -> int:
        """Start the run, or find it again.

        :raises JobStateError: An earlier try made this run, which then FAILED. Only a clear starts it again, never a
            retry.
        """
        from airflow_provider_ha.jobs.submit.run_submission import failed_run  # noqa: PLC0415  # brings the stores

        if is_retry(context, self.retries) and (failed := failed_run(client.context(self.job_id), request)):
            reason = (failed.result.reason if failed.result else "").rstrip(".")
            raise JobStateError(
                f"run {failed.run.number} of job {self.job_id!r} has FAILED: {reason}",
                next_step="Clear the task to start a new run",
            )
        self.warn_of_argument_secrets()
        self.lineage_conf = lineage_conf(self, context, self.conf)
        run = self.start_run(client.job(self.job_id, acting=self.acting(context)), request)
        found = "created" if run.created else "found again"
        self.log.info("Run %d of job %s was %s (submission %d)", run.run, self.job_id, found, run.attempt)
        self._warn_of_a_loop(client)
        return run.run

    def _warn_of_a_loop(self, client: HaClient) -> None:
        """Log a warning when the job fails repeatedly, also across runs of different tasks."""
        last = last_failure(client.job(self.job_id).snapshot(), HaOptions(), now=client.clock.now())
        if last is not None and last.loops:
            self.log.warning("Job %s fails repeatedly: %s", self.job_id, last.sentence)


def refuse_unheard(when_killed: str) -> None:
    """Refuse a ``when_killed`` that the installed Airflow does not support.

    :raises ConfigurationError: A waiting task is not notified when a user ends it.
    """
    if when_killed != KillPolicy.DETACH.value and not AIRFLOW_V_3_3_PLUS:
        raise ConfigurationError(
            f"when_killed={when_killed!r} needs Airflow 3.3, and {'.'.join(map(str, AIRFLOW))} is installed: "
            "before 3.3 a waiting task is not notified when a user ends it",
            next_step="Use when_killed='detach', and end the job with SparkHaStopOperator or SparkHaCancelOperator",
        )
