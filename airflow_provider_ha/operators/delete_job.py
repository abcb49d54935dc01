"""Delete a job that has ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

from airflow_provider_ha.airflow_side.compat.sdk import AirflowException, AirflowFailException, TimeDeltaTrigger
from airflow_provider_ha.api.documents.operation import DeletionView
from airflow_provider_ha.errors import LeadershipUnavailableError
from airflow_provider_ha.operators._base import (
    RETRY_DELAY,
    WAIT_RETRIES,
    SparkHaBaseOperator,
    acting,
    as_flag,
    is_own,
    request_id,
    retry_kwargs,
)
from airflow_provider_ha.operators._parameters import check_given, flag, time_limit


__all__ = ["SparkHaDeleteJobOperator"]


class SparkHaDeleteJobOperator(SparkHaBaseOperator):
    """Delete a job that is over: runs, checkpoints and working directories, and its savepoints unless they are kept.

    A job with a live run, or in the middle of a move, is refused: the task fails for good and removes nothing. A driver
    that is still ending and a reader (restore, drill, copy) are waited for without a worker, so the task may directly
    follow ``SparkHaStopOperator``. The deletion takes effect in one step or leaves the job unchanged. A retry completes
    the deletion of an earlier try, and succeeds when the job is deleted already. A clear deletes the job in its present
    state, even if it was submitted again in between.

    Returns ``job_id``, ``state`` (``"deleted"``; ``"planned"`` with *plan_only*), ``runs``, ``checkpoints``,
    ``savepoints``, ``keep_savepoints`` and ``waiting``, which is empty. Logs of drivers on other hosts remain.

    :param job_id: Stable id of the job.
    :param keep_savepoints: Keep its savepoints, so that a later run of the same id can start from the newest one.
    :param plan_only: Return the runs, checkpoints and savepoints to remove, without removing them.
    :param wait_timeout: Longest wait for an ending driver and for readers; ``None`` for no limit.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaBaseOperator.template_fields, "keep_savepoints", "plan_only", "force")

    def __init__(
        self,
        *,
        keep_savepoints: bool | str = False,
        plan_only: bool | str = False,
        wait_timeout: timedelta | None = timedelta(minutes=10),
        force: bool | str = False,
        retries: int | None = WAIT_RETRIES,
        retry_delay: timedelta | float = RETRY_DELAY,
        **kwargs: Any,
    ) -> None:
        super().__init__(**retry_kwargs(retries, retry_delay, WAIT_RETRIES), **kwargs)
        self.own_retries = is_own(retries, WAIT_RETRIES)
        self.keep_savepoints = keep_savepoints
        self.plan_only = plan_only
        self.wait_timeout = wait_timeout
        self.force = force
        check_given(
            self,
            force=flag("force"),
            keep_savepoints=flag("keep_savepoints"),
            plan_only=flag("plan_only"),
            wait_timeout=time_limit("wait_timeout"),
        )

    def execute(self, context: Any) -> dict[str, Any]:
        """Delete the job, or wait for its users to finish."""
        return self._delete(context, 0.0)

    def execute_complete(self, context: Any, event: Any = None, waited: float = 0.0) -> dict[str, Any]:
        """Try the deletion again.

        :param waited: Seconds that the task has waited so far.
        """
        del event  # only says that the pause is over
        return self._delete(context, waited)

    def _delete(self, context: Any, waited: float) -> dict[str, Any]:
        from airflow_provider_ha.jobs.job_context import refuse_others  # noqa: PLC0415  # brings the stores
        from airflow_provider_ha.jobs.job_stores import in_use  # noqa: PLC0415  # as above

        who, keep, plan_only = acting(context, force=self.force), as_flag(self.keep_savepoints), as_flag(self.plan_only)
        with self.client() as client:
            job = client.context(self.job_id)
            refuse_others(job, who, "a deletion")
            used = [] if plan_only else in_use(job)
            if not used:
                try:
                    done = client.job(self.job_id, acting=who).delete(
                        requested_by=request_id(context), keep_savepoints=keep, dry_run=plan_only
                    )
                except LeadershipUnavailableError as error:
                    used = [str(error)]
                else:
                    used = list(done.waiting)
        if used:
            self._wait_for(used, waited)
        shown = DeletionView.of(done)
        self.log.info("Job %s is %s: %s", self.job_id, shown.state, shown.to_json())
        return shown.to_json()

    def _wait_for(self, used: list[str], waited: float) -> NoReturn:
        if self.wait_timeout is not None and waited >= self.wait_timeout.total_seconds():
            kind = AirflowFailException if self.own_retries else AirflowException
            raise kind(
                f"Job {self.job_id!r} is still used after {waited:.0f} s: {'; '.join(used)}. "
                "Clear the task once nothing uses the job; it completes the deletion."
            )
        self.log.info("Job %s is used: %s; next look in %.0f s", self.job_id, "; ".join(used), self.poll_interval)
        self.defer(
            trigger=TimeDeltaTrigger(timedelta(seconds=self.poll_interval)),
            method_name="execute_complete",
            kwargs={"waited": waited + self.poll_interval},
        )
