"""Follow a run that another process started.

Invariant: a task follows one run. The task stores its number next to its claim when it first finds the run, so a retry,
a clear and a second live process follow the same run, even after the job has started another. Airflow's task state
store is unsuitable, because newer releases of Airflow empty it on a clear (apache/airflow#72100).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.errors import ConfigurationError, JobStateError
from airflow_provider_ha.jobs.removal.removal_records import removed
from airflow_provider_ha.jobs.runs.watchers import follow, follow_first
from airflow_provider_ha.operators._parameters import check_given, whole_number
from airflow_provider_ha.operators._run import SparkHaWatchOperator


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient


__all__ = ["SparkHaFollowOperator"]


class SparkHaFollowOperator(SparkHaWatchOperator):
    """Follow a job's run to its end, started by any caller, and submit it again after each loss of its driver.

    The task that starts a job can thus succeed as soon as the job runs, and other tasks can depend on it. This operator
    starts no runs: a run that is already over is reported with its result. The task holds no worker slot while it
    waits. Any number of tasks may follow one run: a loss is recovered once.

    Returns ``job_id``, ``run``, ``epoch``, ``state`` and ``checkpoint`` of a run that FINISHED; any other end fails the
    task for good, with the reason.

    :param job_id: Stable id of the job.
    :param run: Number of the run, for example from the task that started it. By default the job's newest run when the
        task first executes; retries and clears keep that run.
    :param when_killed: Effect on the job when a user marks the waiting task failed or successful: ``"detach"`` (none),
        ``"stop_with_checkpoint"`` or ``"cancel"``. A clear leaves the job alone: the next try attaches again.
    :param retries: Retries when the DAG sets none. A retry is cheap: it finds its run again.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha``.
    """

    template_fields: Sequence[str] = (*SparkHaWatchOperator.template_fields, "run")

    def __init__(self, *, run: int | str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        check_given(self, run=whole_number("run"))

    def attach(self, client: HaClient, context: Any, request: str) -> int:  # noqa: ARG002  # it needs none
        """Return the run given by number, else the run that this task found first.

        :raises UnknownJobError: The cluster has no such job.
        :raises JobStateError: The job has no such run, or the run was removed.
        """
        named = run_number(self.run)
        newest = client.job(self.job_id).snapshot().run
        if newest is None or newest.run.number < (named or 1):
            missing = "any run" if named is None else f"a run {named}"
            has = f"the newest is run {newest.run.number}" if newest else "it has none"
            raise JobStateError(
                f"job {self.job_id!r} does not have {missing}: {has}",
                next_step="Submit or restore the job first: SparkHaSubmitOperator, SparkHaRestoreOperator, or "
                f"`spark-ha job restore {self.job_id}`",
            )
        paths = self.paths(client)
        if named is None:
            number = follow_first(client.coordinator, paths, request, newest.run.number)
        else:
            number = named
            if client.coordinator.find(paths.run(number)) is None:
                raise removed(paths, number)
            follow(client.coordinator, paths, request, number)  # the claim is removed together with that run
        self.log.info("Following run %d of job %s", number, self.job_id)
        return number


def run_number(given: int | str | None) -> int | None:
    """Return a run number that may come from a template; ``None`` when the template rendered to an empty text.

    :raises ConfigurationError: The value is not a number from 1 on.
    """
    text = str(given).strip()
    if text in {"", "None"}:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise ConfigurationError(f"run={given!r} is not the number of a run", next_step="Use a number from 1 on")
    return int(text)
