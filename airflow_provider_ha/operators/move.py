"""Move a job to another cluster, and to that cluster's storage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.airflow_side.openlineage import LineageMixin, lineage_conf
from airflow_provider_ha.api.documents.operation import MoveView, StopResultView
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.hooks.spark_ha import SparkHaHook
from airflow_provider_ha.jobs.move.move_records import MoveRequest
from airflow_provider_ha.jobs.options.conf import check_keys
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.operators._base import acting, airflow_errors, as_flag, request_id
from airflow_provider_ha.operators._operation import SparkHaOperationOperator
from airflow_provider_ha.operators._parameters import check_given, flag, refuse_all, wrong_options


if TYPE_CHECKING:
    from airflow_provider_ha.api.ha_client import HaClient
    from airflow_provider_ha.api.job_client import JobClient
    from airflow_provider_ha.jobs.model import Operation


__all__ = ["SparkHaMoveOperator"]

# Parameters that the restore has too.
_OF_RESTORE = ("packages", "master", "accept_verdicts", "accept_unverified", "kafka_bootstrap")


class SparkHaMoveOperator(LineageMixin, SparkHaOperationOperator):
    """Move a job to the cluster of another connection, by savepoint and restore; its outputs stay in place.

    A running job is stopped with a checkpoint if *stop* allows it; the task holds no worker slot until the run has
    ended. The worker then copies the application and the savepoint. The task succeeds once the job has its run in the
    new cluster. A retry or a clear continues the move from its last step, and finds a completed move.

    Returns ``job_id``, ``origin``, ``destination``, ``place``, ``state``, ``move_id``, ``run`` (in the new cluster),
    ``steps``, and from the try that ended the move ``source``, ``cut``, ``replayed``, ``files``, ``bytes`` and
    ``verdict``.

    :param job_id: Stable id of the job.
    :param to_spark_ha_conn_id: Airflow connection of type ``spark_ha`` for the destination cluster.
    :param stop: Stop a running job with a checkpoint; otherwise a running job is refused.
    :param conf: Spark conf for the destination, added to the job's own; an empty value removes a key.
    :param packages: Maven coordinates that replace the job's packages.
    :param master: Spark master that replaces the job's master.
    :param accept_verdicts: Verdicts to accept for the restore in the new cluster, each by name.
    :param accept_unverified: Queries for which unverified facts are accepted; judged as ``LOSS_POSSIBLE``.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of the brokers that it reads from.
    :param wait_timeout: Longest wait for the end of the run; ``None`` for no limit. The stop stays requested after a
        timeout.
    :param force: Act even though the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param retries: Retries when the DAG sets none. Only a task that Airflow lost, or an outage, uses them. A FAILED
        operation is requested again only by a clear, or by retries that the DAG sets.
    :param retry_delay: Delay between two tries, a timedelta or seconds; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Airflow connection of type ``spark_ha`` for the origin cluster.
    """

    template_fields: Sequence[str] = (
        *SparkHaOperationOperator.template_fields,
        "to_spark_ha_conn_id",
        "stop",
        "conf",
        "packages",
        "master",
        "accept_verdicts",
        "accept_unverified",
        "kafka_bootstrap",
    )
    template_fields_renderers = {"conf": "json"}
    result = StopResultView
    until_ended = True

    def __init__(
        self,
        *,
        to_spark_ha_conn_id: str,
        stop: bool | str = False,
        conf: Mapping[str, str] | None = None,
        packages: Sequence[str] | None = None,
        master: str | None = None,
        accept_verdicts: Sequence[str] = ("SAFE",),
        accept_unverified: Sequence[str] = (),
        kafka_bootstrap: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.to_spark_ha_conn_id = to_spark_ha_conn_id
        self.stop = stop
        self.conf = conf
        self.packages = packages
        self.master = master
        self.accept_verdicts = accept_verdicts
        self.accept_unverified = accept_unverified
        self.kafka_bootstrap = kafka_bootstrap
        found = wrong_options(RestoreRequest, {name: getattr(self, name) for name in _OF_RESTORE})
        try:
            check_given(self, stop=flag("stop"), conf=check_keys)
        except ConfigurationError as error:
            refuse_all(self.task_id, found, error)
        refuse_all(self.task_id, found)

    def execute(self, context: Any) -> dict[str, Any]:
        """Move a job that is over; stop a running job, and defer until its run has ended."""
        request = self.request(context)
        with self._clusters() as (here, there):
            run = here.job(self.job_id).snapshot().run
            is_running = run is not None and run.result is None
            if is_running:
                here.plan_move(self.job_id, there, request, acting=acting(context, force=self.force))
        return super().execute(context) if is_running else self._move(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Move the job once its run has ended, or fail with the leader's reason."""
        ended = super().execute_complete(context, event)
        return ended if event["status"] == "lost" else self._move(context)

    def operation_base(self, context: Any, job: JobClient) -> str:
        """Return the prefix of the ids of the stop, one per run, because the job may have come back in between."""
        run = job.snapshot().run
        return f"{request_id(context)}-run-{run.run.number if run is not None else 0}"

    def ask(self, job: JobClient, operation_id: str, requested_by: str) -> Operation:
        """Request the stop."""
        return job.request_stop(operation_id=operation_id, requested_by=requested_by, mode="suspend", savepoint=False)

    def request(self, context: Any, lineage: Mapping[str, str] | None = None) -> MoveRequest:
        """Return the request. A template that renders to an empty text keeps the job's own value.

        :param lineage: Spark conf for OpenLineage's listener.
        :raises airflow.sdk.exceptions.AirflowFailException: *accept_verdicts* or *stop* is invalid.
        """
        with airflow_errors():
            try:
                verdicts = frozenset(Verdict(verdict) for verdict in self.accept_verdicts)
            except ValueError as error:
                raise ConfigurationError(
                    f"the move of job {self.job_id!r} cannot be requested: {error}",
                    next_step=f"accept_verdicts is a list of {[verdict.value for verdict in Verdict]}",
                ) from error
        return MoveRequest(
            requested_by=request_id(context),
            stop=as_flag(self.stop),
            conf={key: str(value) for key, value in (self.conf or {}).items()},
            packages=tuple(self.packages) if self.packages else None,
            master=self.master or None,
            accept_verdicts=verdicts,
            accept_unverified=frozenset(self.accept_unverified or ()),
            kafka_bootstrap=dict(self.kafka_bootstrap or {}),
            lineage=lineage or {},
        )

    def _move(self, context: Any) -> dict[str, Any]:
        lineage = lineage_conf(
            self,
            context,
            self.conf,
        )
        request = self.request(context, lineage)
        with self._clusters() as (here, there):
            moved = here.move_job(self.job_id, there, request, acting=acting(context, force=self.force))
            if moved.run is not None:
                self.learn_lineage(there, moved.run)
        self.log.info(
            "Job %s works in cluster %s (%s) now, as run %s", self.job_id, moved.destination, moved.place, moved.run
        )
        return MoveView.of(moved).to_json()

    @contextmanager
    def _clusters(self) -> Iterator[tuple[HaClient, HaClient]]:
        """Open a session with both clusters."""
        with self.client() as here, SparkHaHook(self.to_spark_ha_conn_id).get_client() as there:
            yield here, there
