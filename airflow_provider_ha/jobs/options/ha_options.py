"""The options of a job's high availability."""

from __future__ import annotations

from pydantic import Field, field_validator

from airflow_provider_ha.records import Model


class HaOptions(Model):
    """The options of a job's high availability.

    :param checkpoint_interval: Seconds between two checkpoint pointers; batches in between are coalesced.
    :param retained_checkpoints: How many completed checkpoints are kept; at least 1.
    :param restart_attempts: How often a lost driver is submitted again before the run fails; -1, the default, for no
        limit. A submission that met an outage (storage, a connection, memory, an executor, a broker, ZooKeeper) is not
        counted.
    :param restart_delay: Seconds before the next submission after a driver failed, or was lost before the job was
        RUNNING; doubles with each consecutive failure, up to *restart_delay_max*. A first loss, and a loss of a RUNNING
        job by an outside cause, is recovered as soon as its processes are proven dead.
    :param restart_delay_max: Upper bound of the delay in seconds.
    :param restart_reset_after: Seconds of life after which the counter of attempts begins again.
    :param restart_in_place: Whether the supervisor of a lost driver starts the next attempt on its host. Without it, a
        waiting task or the cluster leader does, on a host of theirs.
    :param application_failures: How often the same error of the application at the same batch ends a run that has
        worked; -1, the default, for never.
    :param application_failure_period: Minimum seconds between the first and the last of these failures.
    :param start_timeout: Seconds that a submission may take until it leads, before it is submitted again. A submission
        that its engine reports as running is never overdue.
    :param allow_new_queries: Whether the script may start queries of other names after a loss. A name that contains a
        time begins from nothing, and the replaced query does not continue.
    :param min_batches_to_retain: Spark's ``spark.sql.streaming.minBatchesToRetain``.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of its brokers. Spark's checkpoints do not record them; a
        restore reads their available offsets.
    :param kafka_properties: File of client properties for the login to the brokers; on the host that plans a restore.
    :param allow_remote_executors: Whether executors may run on hosts where a supervisor cannot prove their death.
    :param stall_timeout: Seconds after which a job is STALLED: a query stays inside one trigger without a commit; or a
        query, or a script without executors, reports no progress before the first batch. 0 for never. A query that
        waits for data is not stalled.
    :param restart_stalled: Whether the driver of a stalled job ends itself, so that the job is recovered as after any
        other loss, with the same limits and delays.
    :param metrics_port: Port at which the driver serves its metrics to Prometheus; 0 for any free one, and by default
        none.
    :param metrics_address: Address of the metrics port. It has no login: by default only its own host reaches it.
    :param accept_duplicates: Whether real-time and continuous queries may run: they write rows again after each loss. A
        request that accepts DUPLICATES_POSSIBLE sets it.
    :param repeatable: Queries with idempotent output: a repeated batch, with the same number and rows, does not change
        it. The function of ``foreachBatch`` or ``foreach`` writes by key, or consumers drop duplicates.
    :param driver_log_mb: Size in megabytes (1,000,000 bytes) from which on the log of a driver is rotated.
    :param driver_log_files: Maximum number of log files per attempt.
    """

    checkpoint_interval: float = Field(default=10.0, ge=0)
    retained_checkpoints: int = Field(default=3, ge=1)
    restart_attempts: int = Field(default=-1, ge=-1)
    restart_delay: float = Field(default=1.0, ge=0)
    restart_delay_max: float = Field(default=60.0, ge=0)
    restart_reset_after: float = Field(default=600.0, ge=0)
    restart_in_place: bool = True
    application_failures: int = Field(default=-1)
    application_failure_period: float = Field(default=600.0, ge=0)
    start_timeout: float = Field(default=120.0, gt=0)
    allow_new_queries: bool = False
    min_batches_to_retain: int = Field(default=100, ge=10)
    kafka_bootstrap: dict[str, str] = {}
    kafka_properties: str | None = None
    allow_remote_executors: bool = False
    stall_timeout: float = Field(default=600.0, ge=0)
    restart_stalled: bool = False
    metrics_port: int | None = Field(default=None, ge=0, le=65_535)
    metrics_address: str = "127.0.0.1"
    accept_duplicates: bool = False
    repeatable: tuple[str, ...] = ()
    driver_log_mb: int = Field(default=20, ge=1, le=10_000)
    driver_log_files: int = Field(default=10, ge=1, le=1000)

    @field_validator("application_failures")
    @classmethod
    def _check_application_failures(cls, value: int) -> int:
        if value != -1 and value < 2:  # noqa: PLR2004  # one failure has not repeated
            raise ValueError("should be 2 or more, or -1 for never")
        return value
