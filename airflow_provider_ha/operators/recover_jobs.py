"""Recover the lost jobs of a cluster as its leader, or one job by name.

The task holds the lock only while it has work: between two DAG runs the cluster has no leader, so any deployment may
lead next. Of several concurrent tasks one leads; the others wait for it or are skipped. A cluster led by a permanent
``spark-ha cluster recover --watch`` is left to that process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NoReturn

from airflow_provider_ha.airflow_side.compat.sdk import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    BaseOperator,
    TimeDeltaTrigger,
)
from airflow_provider_ha.airflow_side.links import SparkHaJobsLink
from airflow_provider_ha.api.documents.operation import RecoveredJobsView
from airflow_provider_ha.errors import LeadershipUnavailableError
from airflow_provider_ha.hooks.spark_ha import DEFAULT_CONN_ID, SparkHaHook
from airflow_provider_ha.names import check_job_id
from airflow_provider_ha.operators._base import (
    RETRY_DELAY,
    WAIT_RETRIES,
    PlainErrors,
    airflow_errors,
    request_id,
    retry_kwargs,
)
from airflow_provider_ha.operators._parameters import check_given, not_negative, number_of, whole_number


__all__ = ["SparkHaRecoverJobsOperator"]


_LONGEST_PAUSE = 15.0  # seconds: bounds the wait of a job that is lost while this task waits for another
_HERE = 5.0  # seconds of waiting in the worker, as a debounce; a longer wait is deferred


class SparkHaRecoverJobsOperator(PlainErrors, BaseOperator):
    """Recover every job of the cluster that has lost its driver, and clean up after jobs that are over.

    The task acts on the present state in ZooKeeper, not on the event that triggered it, so one run serves many events.
    A job is submitted again from its persisted graph after the delay of its restart strategy; until then the task
    defers and releases the lock. The task ends when every job has a leader or is over. Tasks that follow a job recover
    it without this operator; the first process that claims a loss recovers it, once.

    Succeeds with the jobs by outcome. Skipped when another process leads the cluster. Fails for good after recovering
    the other jobs when a job needs a person: it was quarantined, or has no attempts left.

    :param retries: Retries when the DAG sets none; a job that needs a person is not retried.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    :param leader_timeout: Seconds to wait for another leader of the cluster to finish, mostly without a worker.
    :param job_id: Recover only this job, without the lock of the cluster and without its restart delay. Empty: every
        job. Fails when the job is quarantined, or is not lost.
    :param seen_run: With *job_id*: newest run of the job when the recovery was decided. Fails if the job has started
        another run since.
    """

    template_fields: Sequence[str] = ("spark_ha_conn_id", "job_id", "seen_run")
    operator_extra_links = (SparkHaJobsLink(),)

    def __init__(
        self,
        *,
        spark_ha_conn_id: str = DEFAULT_CONN_ID,
        leader_timeout: float = 30.0,
        job_id: str | None = None,
        seen_run: int | str | None = None,
        retries: int | None = WAIT_RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**retry_kwargs(retries, retry_delay, WAIT_RETRIES), **kwargs)
        self.spark_ha_conn_id = spark_ha_conn_id
        self.leader_timeout = leader_timeout
        self.job_id = job_id
        self.seen_run = seen_run
        check_given(
            self, job_id=check_job_id, seen_run=whole_number("seen_run"), leader_timeout=not_negative("leader_timeout")
        )

    def execute(self, context: Any) -> dict[str, Any]:
        """Recover the lost jobs."""
        # A template that renders to an empty text means every job.
        if self.job_id and self.job_id != "None":
            return self._recover_one(self.job_id, request_id(context))
        return self._recover(context, {})

    def execute_complete(
        self,
        context: Any,
        event: Any = None,
        waiting: Mapping[str, Sequence[Any]] | None = None,
        waited: float = 0.0,
    ) -> dict[str, Any]:
        """Recover the jobs whose delay is over, or request the lock again.

        :param waited: Seconds spent waiting for another leader so far.
        """
        del event  # only says that the pause is over
        return self._recover(context, waiting or {}, waited)

    def _recover_one(self, job_id: str, asks: str) -> dict[str, Any]:
        from airflow_provider_ha.fleet.reconciler import recover_one  # noqa: PLC0415  # as below

        with airflow_errors(), SparkHaHook(self.spark_ha_conn_id).get_client() as client:
            done = recover_one(client, job_id, by=asks, seen=number_of(self.seen_run, "seen_run"))
        self.log.info("%s: %s (%s)", job_id, done.outcome.value, done.detail)
        return RecoveredJobsView.model_validate({done.outcome.value: [job_id]}).to_json()

    def _recover(self, context: Any, earlier: Mapping[str, Sequence[Any]], waited: float = 0.0) -> dict[str, Any]:
        from airflow_provider_ha.fleet.cluster_leader import ClusterLeader  # noqa: PLC0415  # as above
        from airflow_provider_ha.fleet.reconciler import JobWait, ReconcileOutcome  # noqa: PLC0415  # brings kazoo and boto3

        asks = request_id(context)
        with airflow_errors(), SparkHaHook(self.spark_ha_conn_id).get_client() as client:
            waiting = {name: JobWait(what, left) for name, (what, left) in earlier.items()}
            with ClusterLeader(client, by=asks, address=f"Airflow task {asks}", waiting=waiting) as leader:
                here = max(0.0, min(_HERE, self.leader_timeout - waited))
                try:
                    leader.lead(timeout=here)
                except LeadershipUnavailableError as error:
                    self._wait_for_leader(earlier, waited + here, error)
                attended = leader.settle(_HERE)
                left = leader.waiting
                leader.collect_blobs()
        found: dict[str, list[str]] = {}
        for each in attended:
            self.log.info("%s: %s (%s)", each.job_id, each.outcome.value, each.detail)
            found.setdefault(each.outcome.value, []).append(each.job_id)
        person = [
            each for each in attended if each.outcome in (ReconcileOutcome.QUARANTINED, ReconcileOutcome.GIVEN_UP)
        ]
        if person:
            reasons = "; ".join(f"{each.job_id} was {each.outcome.value}: {each.detail}" for each in person)
            raise AirflowFailException(f"Jobs that need a person: {reasons}.")
        if unknown := found.get(ReconcileOutcome.NOT_KNOWN.value):
            raise AirflowException(f"These jobs have an unknown state: {', '.join(unknown)}. See the log above.")
        self._defer_for([(each.job_id, left[each.job_id]) for each in attended if each.job_id in left])
        # Reported last and in each run: an open decision delays no other job, and remains until it is made.
        if open_ := [each.detail for each in attended if each.outcome is ReconcileOutcome.DECISION_NEEDED]:
            raise AirflowFailException(f"Jobs that wait for a decision: {'; '.join(open_)}.")
        return RecoveredJobsView.model_validate(found).to_json()

    def _wait_for_leader(
        self, earlier: Mapping[str, Sequence[Any]], waited: float, error: LeadershipUnavailableError
    ) -> NoReturn:
        """Wait for another leader without a worker; skip the task once *leader_timeout* is over."""
        left = self.leader_timeout - waited
        if left <= 0:
            raise AirflowSkipException(f"Another process recovers the jobs: {error}") from error
        pause = min(_HERE, left)
        self.log.info("Another process leads the cluster; trying to lead it again in %.0f s", pause)
        self.defer(
            trigger=TimeDeltaTrigger(timedelta(seconds=pause)),
            method_name="execute_complete",
            kwargs={"waiting": {name: list(each) for name, each in earlier.items()}, "waited": waited + pause},
        )

    def _defer_for(self, waiting: Sequence[tuple[str, Any]]) -> None:
        """Wait for the job that is due first, without the lock and without a worker."""
        if not waiting:
            return
        pause = min(_LONGEST_PAUSE, max(1.0, min(each.left for _, each in waiting)))
        self.log.info("%s: next look in %.0f s", ", ".join(name for name, _ in waiting), pause)
        self.defer(
            trigger=TimeDeltaTrigger(timedelta(seconds=pause)),
            method_name="execute_complete",
            kwargs={"waiting": {name: [each.what, max(0.0, each.left - pause)] for name, each in waiting}},
        )
