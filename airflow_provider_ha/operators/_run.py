"""Follow a run until it is up or over: base of submit, restore and follow.

The loss of a driver is not the failure of a task. The operator submits it again from the persisted graph and defers
again, as often as the job's restart strategy allows; Airflow's own retries are left for Airflow's own troubles.

Invariant: nothing of it can fail a task, or keep a recovery waiting for more than a read. None of it is in an event of
a trigger or in XCom: a driver's output is for people.
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
from airflow_provider_ha.api.documents.task_results import TaskRunResultView
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
from airflow_provider_ha.operators._parameters import ArgumentSecrets, OfTask, check_given, flag, one_of
from airflow_provider_ha.triggers.job import FINISHED, RUNNING, SparkHaJobTrigger


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.job_context import CallerIdentity


@dataclass(frozen=True, slots=True)
class LossRecovery:
    """What was done, and what comes next.

    :param sentence: For the log, and for the error when it is over.
    :param wait: Seconds until the loss is to be recovered; ``None`` when it need not be.
    """

    sentence: str
    wait: float | None = None


def after_loss(client: HaClient, job_id: str, *, run: int, by: str) -> LossRecovery:
    """Recover the loss of the newest submission of *run*: the trigger has waited for the restart strategy's delay.

    Several watchers may do this at one time: a loss is claimed once in ZooKeeper, and the second watcher finds the
    recovery of the first. A run that has used up its attempts gets the result FAILED here; the trigger then reports it.

    :param by: Caller, as recorded for people.
    :raises DecisionNeededError: The run goes on only after a decision of its user.
    :raises HaError: A retryable one leaves everything as it was.
    """
    job = client.job(job_id)
    snapshot = job.snapshot()
    if snapshot.run is None or snapshot.run.run.number != run:
        return LossRecovery(f"Run {run} is not the newest run of job {job_id!r} any more")
    try:
        submitted = job.recover(by=by, wait=False)
    except DecisionNeededError:
        raise
    except (JobStateError, LeadershipError) as error:
        # Ended, given up or recovered between the look and the act: the next look of the trigger will see which.
        return LossRecovery(f"Nothing to submit again: {error}")
    made = "was submitted again from its persisted graph" if submitted.created else "needs no new submission"
    return LossRecovery(f"Run {run} of job {job_id!r} {made}: attempt {submitted.attempt}")


def later(error: HaError, seconds: float) -> LossRecovery:
    """Return the step for a cluster that cannot be reached just now: no Airflow retry is spent on that."""
    return LossRecovery(f"The loss cannot be recovered yet, trying again in {seconds:.0f} s: {error}", wait=seconds)


def where_is_log(client: HaClient, job_id: str, run: int) -> tuple[int | None, str]:
    """Return the newest attempt of a run, and a sentence about where the log of its driver lies.

    The attempt is ``None`` when it could not be read; the sentence is empty when no driver was started yet.
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
    """Return where the log of a driver lies, and its last lines without secrets; empty when nothing is known.

    :param attempt: The newest one that was started when left out.
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

    :param when_killed: What a user's mark-failed or mark-success of the waiting task does to the job: ``"detach"``
        (nothing), ``"stop_with_checkpoint"`` or ``"cancel"``. A clear never touches it: the next try attaches again.
        All but ``"detach"`` need Airflow 3.3: older releases do not tell a waiting task that a user ended it.
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

        :raises HaError: There is no such run, or it cannot be made.
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
            # First the claim, then the run: else the trigger of an earlier try could still stop what this try finds.
            # Without an earlier claim there is no such trigger, and a task that is refused leaves no trace.
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
        """Return where the job stands, submit it again, or fail."""
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
        """Do what the restart strategy says, then wait again."""
        request = request_id(context)
        self.log.warning("The driver of run %d of job %s is gone: %s", event["run"], self.job_id, event.get("reason"))
        try:
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                step = after_loss(client, self.job_id, run=event["run"], by=request)
                # After that: the recovery waits for no XCom and no log.
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
        """Read what the last event of the task tells; what cannot be read never hides how the run ended."""
        if not is_active():
            return
        try:
            with SparkHaHook(self.spark_ha_conn_id).get_client() as client:
                self.learn_lineage(client, run)
        except Exception as error:  # noqa: BLE001  # nothing of lineage shows a run that finished as failed
            self.log.warning("OpenLineage is not told of run %d of job %s: %s", run, self.job_id, reason_of(error))

    def _show_last_words(self, run: int) -> None:
        """Show the last lines of the driver that ended the run; what cannot be looked up never hides why it ended."""
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
        """Return where the job lies."""
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

    :param wait_for: ``"running"``: succeed once a leader is there, its epoch is known and it says RUNNING: each query
        that the script has started has committed a batch, or its first trigger found no data.
        ``"finished"``: follow the run to its end, and submit it again whenever its driver is lost.
    :param force: Act although the job belongs to another DAG.
    """

    of_task: ClassVar[OfTask] = {"ha": ("when_killed",), "start": ("force",)}
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

    def start_run(self, job: JobClient, request: str) -> SubmittedRun:
        """Start the run that *request* asks for, or find it again. Idempotent.

        :raises JobStateError: The job has a live run of another request.
        """
        raise NotImplementedError

    def acting(self, context: Any) -> CallerIdentity:
        """Return the identity with which the task acts on the job."""
        return acting(context, force=self.force)

    def attach(self, client: HaClient, context: Any, request: str) -> int:
        """Start the run or find it again.

        :raises JobStateError: A try before this one made the run, which FAILED, and Airflow then lost the task: what is
            over is started again by a person's clear, never by a retry.
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
        """Say in the log of the task that the job fails again and again, also when each run is of another task."""
        last = last_failure(client.job(self.job_id).snapshot(), HaOptions(), now=client.clock.now())
        if last is not None and last.loops:
            self.log.warning("Job %s fails again and again: %s", self.job_id, last.sentence)


def refuse_unheard(when_killed: str) -> None:
    """Refuse to promise what the installed Airflow cannot keep.

    :raises ConfigurationError: A task that is killed while it waits would not hear of it.
    """
    if when_killed != KillPolicy.DETACH.value and not AIRFLOW_V_3_3_PLUS:
        raise ConfigurationError(
            f"when_killed={when_killed!r} needs Airflow 3.3, and {'.'.join(map(str, AIRFLOW))} is installed: "
            "before 3.3 a waiting task does not hear that a user ended it",
            next_step="Use when_killed='detach', and end the job with SparkHaStopOperator or SparkHaCancelOperator",
        )
