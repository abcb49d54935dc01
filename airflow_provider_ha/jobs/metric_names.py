"""Metrics of a job: the single list of names for driver, Airflow, dashboard, alert rules and docs.

A driver serves Prometheus under these names. Airflow's triggerer sends states and alerts to Airflow's ``Stats``, as
gauges under :attr:`Metric.stats_name`, with the labels as tags.

Invariant: labels have no values that grow with time (epoch, run, attempt, batch): these are values of metrics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class MetricKind(str, Enum):
    """Type of a metric in Prometheus."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Emitter(str, Enum):
    """Process that emits a metric."""

    DRIVER = "driver"  # to Prometheus
    AIRFLOW = "airflow"  # through Airflow's Stats


COMMON_LABELS = ("cluster", "job_id")
"""Labels of every metric; a metric of the cluster has only the first. Prometheus reserves ``job``."""
_PREFIX = "spark_ha_"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    :param name: Name in Prometheus; it ends with its unit, a counter with ``_total``.
    :param unit: ``seconds``, ``bytes``, ``rows``, or empty for a plain number.
    :param help: Description, as a phrase.
    :param labels: Labels in addition to :data:`COMMON_LABELS`.
    :param emitters: Processes that emit the metric.
    :param of_cluster: Whether it describes the cluster and not a job.
    """

    name: str
    kind: MetricKind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    emitters: frozenset[Emitter] = frozenset({Emitter.DRIVER})
    of_cluster: bool = False

    @property
    def label_names(self) -> tuple[str, ...]:
        """All labels, the common ones first."""
        return (*(COMMON_LABELS[:1] if self.of_cluster else COMMON_LABELS), *self.labels)

    @property
    def stats_name(self) -> str:
        """Name in Airflow's Stats."""
        return f"spark_ha.{self.name.removeprefix(_PREFIX)}"


_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM
_BOTH = frozenset(Emitter)

JOB_STATE = Metric(
    "spark_ha_job_state", _G, "", "1 for the current state of the job, 0 for the others", ("state",), _BOTH
)
JOB_STALLED = Metric(
    "spark_ha_job_stalled", _G, "", "1 while the job should commit batches but does not, else 0", (), _BOTH
)
LEADER_EPOCH = Metric("spark_ha_leader_epoch", _G, "", "Epoch of the newest leadership")
LEADER_SINCE = Metric(
    "spark_ha_leader_since_timestamp_seconds", _G, "seconds", "Time of the leader's election, since 1970"
)
LEASE_MARGIN = Metric(
    "spark_ha_lease_margin_seconds",
    _G,
    "seconds",
    "Shortest remaining time of the leader's lease in the last two minutes",
)
CHECKPOINT_NUMBER = Metric("spark_ha_checkpoint_number", _G, "", "Number of the newest checkpoint")
CHECKPOINT_AGE = Metric("spark_ha_checkpoint_age_seconds", _G, "seconds", "Time since the newest checkpoint was taken")
CHECKPOINT_SIZE = Metric("spark_ha_checkpoint_size_bytes", _G, "bytes", "Size of the files of the newest checkpoint")
CHECKPOINT_DURATION = Metric(
    "spark_ha_checkpoint_duration_seconds", _H, "seconds", "Time from the cut of a checkpoint to its pointer"
)
CHECKPOINT_FAILURES = Metric(
    "spark_ha_checkpoint_failures_total",
    _C,
    "",
    "Failed attempts of this driver to take a checkpoint; the next attempt follows after two seconds",
)
BATCH_NUMBER = Metric("spark_ha_batch_number", _G, "", "Number of the newest batch of a query", ("query",))
BATCH_DURATION = Metric("spark_ha_batch_duration_seconds", _H, "seconds", "Time that a batch took", ("query",))
BATCH_PHASE = Metric(
    "spark_ha_batch_phase_seconds",
    _G,
    "seconds",
    "Time that a phase of the newest batch took, as Spark names it",
    ("query", "phase"),
)
COMMIT_AGE = Metric("spark_ha_commit_age_seconds", _G, "seconds", "Time since a query committed a batch", ("query",))
INPUT_ROWS = Metric("spark_ha_input_rows_total", _C, "rows", "Rows that a query of this driver has read", ("query",))
INPUT_RATE = Metric(
    "spark_ha_input_rows_per_second", _G, "rows", "Rows per second that arrived for the newest batch", ("query",)
)
PROCESSED_RATE = Metric(
    "spark_ha_processed_rows_per_second",
    _G,
    "rows",
    "Rows per second that the newest batch processed",
    ("query",),
)
LAG = Metric(
    "spark_ha_lag_rows",
    _G,
    "rows",
    "Rows that the sources of a query had and the newest batch did not read; only from sources that report it (Kafka)",
    ("query",),
)
RESTARTS = Metric(
    "spark_ha_restarts_day", _G, "", "Restarts of the run in the last 24 hours, by their reason", ("reason",)
)
ATTEMPTS_USED = Metric("spark_ha_restart_attempts_used", _G, "", "Attempts that count against the limit of the run")
ATTEMPTS_LIMIT = Metric(
    "spark_ha_restart_attempts_limit", _G, "", "The limit of attempts, restart_attempts; -1 for none"
)
RECOVERY = Metric(
    "spark_ha_recovery_seconds",
    _G,
    "seconds",
    "Time that a phase of the newest recovery took: detect, submit, lead, bind, start, commit, and total",
    ("phase",),
)
CLASS_ARCHIVE = Metric(
    "spark_ha_class_archive",
    _G,
    "",
    "1 if the driver's JVM has loaded Spark's classes from a class archive, else 0 with the reason",
    ("reason",),
)
FIRST_COMMIT = Metric(
    "spark_ha_first_commit_seconds", _G, "seconds", "Time from the launch of the driver to its first commit"
)
STATE_READ = Metric(
    "spark_ha_state_restore_bytes",
    _G,
    "bytes",
    "Bytes of state that the tasks of a query have read up to its first commit, from copies and from the store; of a "
    "job with local_recovery",
    ("query", "place"),
)
STATE_READ_SECONDS = Metric(
    "spark_ha_state_restore_seconds", _G, "seconds", "Time of these reads, of all tasks together", ("query",)
)
COPIES_MADE = Metric(
    "spark_ha_state_copies_bytes_total",
    _C,
    "bytes",
    "Bytes of the copies of state that tasks have made under this driver; of a job with local_recovery",
)
COPIES_SECONDS = Metric("spark_ha_state_copies_seconds_total", _C, "seconds", "Time of tasks for these copies")
STANDBYS_READY = Metric(
    "spark_ha_standby_drivers_ready",
    _G,
    "",
    "Standby drivers that have done in advance what the job allows; of a job that requests any",
    emitters=_BOTH,
)
STANDBYS_REQUESTED = Metric(
    "spark_ha_standby_drivers_requested",
    _G,
    "",
    "Number of standby drivers that the options of the job request, standby_drivers",
    emitters=_BOTH,
)
STANDBY_LEVEL_AGE = Metric(
    "spark_ha_standby_driver_level_seconds",
    _G,
    "seconds",
    "Time for which a standby driver has been at a level, the longest of all; session is that of one that is warmed up",
    ("level",),
)
JOB_ALERT = Metric(
    "spark_ha_job_alert",
    _G,
    "",
    "1 while the DAG alerts or recover_jobs reports this event and its condition lasts, 0 when it ends",
    ("event",),
    frozenset({Emitter.AIRFLOW}),
)
NOT_INSPECTED = Metric(
    "spark_ha_not_inspected",
    _G,
    "",
    "1 while the leader of the cluster, which recovers its jobs, inspects no job, 0 when this ends",
    emitters=frozenset({Emitter.AIRFLOW}),
    of_cluster=True,
)
ACCEPTED_LOSSES = Metric(
    "spark_ha_accepted_losses_total",
    _C,
    "",
    "Times that the run has continued without missing input, because its user, its job or its reader allows it",
)

METRICS: tuple[Metric, ...] = (
    JOB_STATE,
    JOB_STALLED,
    LEADER_EPOCH,
    LEADER_SINCE,
    LEASE_MARGIN,
    CHECKPOINT_NUMBER,
    CHECKPOINT_AGE,
    CHECKPOINT_SIZE,
    CHECKPOINT_DURATION,
    CHECKPOINT_FAILURES,
    BATCH_NUMBER,
    BATCH_DURATION,
    BATCH_PHASE,
    COMMIT_AGE,
    INPUT_ROWS,
    INPUT_RATE,
    PROCESSED_RATE,
    LAG,
    RESTARTS,
    ATTEMPTS_USED,
    ATTEMPTS_LIMIT,
    RECOVERY,
    CLASS_ARCHIVE,
    FIRST_COMMIT,
    STATE_READ,
    STATE_READ_SECONDS,
    COPIES_MADE,
    COPIES_SECONDS,
    STANDBYS_READY,
    STANDBYS_REQUESTED,
    STANDBY_LEVEL_AGE,
    JOB_ALERT,
    NOT_INSPECTED,
    ACCEPTED_LOSSES,
)
