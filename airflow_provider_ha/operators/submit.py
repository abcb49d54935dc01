"""Submit a PySpark script as a highly available job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_ha.control.job.requests import FRESH, SubmitRequest, SubmittedRun, accepted, check_start, if_lost
from airflow_provider_ha.control.job.requests import claim_mode as as_claim_mode
from airflow_provider_ha.hooks._spark_connection import SparkPlace, read_place
from airflow_provider_ha.jobs.host.executors import check_possible
from airflow_provider_ha.jobs.options.conf_keys import check_keys
from airflow_provider_ha.jobs.options.given_options import check_memory, ha_options, resources
from airflow_provider_ha.jobs.options.resources import Resources
from airflow_provider_ha.operators._given import check_given, is_known, lists
from airflow_provider_ha.operators._run import SparkHaRunOperator


if TYPE_CHECKING:
    from airflow_provider_ha.control.job_client import JobClient


__all__ = ["SparkHaSubmitOperator"]


# Of the job's high availability. A template may render to text: a number, true or false; nothing means the default.
OPTIONS = (
    "restart_attempts",
    "restart_delay",
    "restart_delay_max",
    "restart_in_place",
    "application_failures",
    "application_failure_period",
    "start_timeout",
    "checkpoint_interval",
    "retained_checkpoints",
    "allow_new_queries",
    "allow_remote_executors",
    "driver_log_mb",
    "driver_log_files",
    "stall_timeout",
    "restart_stalled",
    "metrics_port",
    "metrics_address",
)
RESOURCES = tuple(field.name for field in fields(Resources))


class SparkHaSubmitOperator(SparkHaRunOperator):
    """Run a plain PySpark streaming script as a job that survives the loss of its driver.

    Its queries have names, or outputs to be named after; a checkpoint location that it sets is not used. The task holds
    no worker slot while it waits. A retry or a clear of the task finds the run again; a clear submits one that FAILED
    again.

    Returns ``job_id``, ``run``, ``epoch`` and ``state``.

    :param job_id: Stable id of the job: epochs, checkpoints and savepoints belong to it.
    :param application: Path of the script; the modules beside it that it imports travel with it.
    :param arguments: The script's arguments. No place for secrets: the job graph holds them as they are.
    :param py_files: Zips, wheels, eggs and modules for ``--py-files``.
    :param files: Data files for ``--files``.
    :param jars: Jars for ``--jars``.
    :param archives: Archives for ``--archives``, unpacked for driver and executors: ``env.tar.gz#environment`` is the
        directory ``environment``. A packed environment travels so, with ``spark.pyspark.python`` in *conf*.
    :param packages: Maven coordinates for ``--packages``.
    :param conf: Spark conf; travels in a file that only its owner can read.
    :param env: Environment of the driver.
    :param spark_conn_id: Connection of type ``spark`` (of the Spark provider) that says where the driver runs: master,
        and with deploy mode ``cluster`` the standalone cluster as its engine.
    :param master: Spark master: ``local``, ``local[...]``, ``local-cluster[...]``, or with *allow_remote_executors*
        that of a cluster. By default that of *spark_conn_id*, else ``local[*]``.
    :param allow_remote_executors: Allow a master that is not local. Nothing then proves that the executors of a lost
        driver are dead.
    :param engine: What runs the driver: ``"local"`` (the host of the task) or ``"standalone"`` (a worker of a
        standalone cluster). By default that of *spark_conn_id*, else ``"local"``.
    :param engine_options: ``"python"``: interpreter of the driver, which has this package and pyspark; by default that
        of the task. ``"spark_home"``: Spark's directory on the driver's host; by default ``SPARK_HOME``, else pyspark.
        A standalone cluster has more of them, see the guide for one.
    :param driver_memory: Memory of the driver's JVM: ``"1g"``.
    :param executor_cores: Cores of each executor.
    :param executor_memory: Memory of each executor: ``"2g"``.
    :param total_executor_cores: Cores of all executors together, on a standalone cluster.
    :param num_executors: How many executors; on a standalone cluster with *executor_cores*.
    :param driver_class_path: Class path of the driver's JVM, beside its jars.
    :param repositories: Maven repositories for *packages*, separated by commas.
    :param exclude_packages: ``group:artifact`` of packages that are left out, separated by commas.
    :param name: Spark's application name; the job id when left out.
    :param start_from: ``"latest"`` (from nothing when the job has no checkpoint), ``"fresh"`` (from nothing although
        there is state; ``LOSS_POSSIBLE`` once another sink than files was given a batch), ``"checkpoint-<n>"``,
        ``"savepoint-<id>"``, or checkpoint directories that Spark wrote elsewhere: a path whose last name is the
        query's, or query -> path.
    :param sinks: Of these: query -> output directory of its file sink, or ``"foreachBatch"``, or another format.
    :param claim_mode: ``"CLAIM"``: the savepoint or the directories that it starts from become the job's, which removes
        them once newer checkpoints subsume them.
    :param accept_verdicts: Verdicts that are accepted for what it starts from.
    :param wait_for: ``"running"``: succeed once a leader is there, its epoch is known and it says RUNNING: each query
        that the script has started has committed a batch, or its first trigger found no data.
        ``"finished"``: follow the run to its end, and submit it again whenever its driver is lost.
    :param job_owner: Whose job it is from then on: the id of its DAG, ``"{{ dag.dag_id }}"``. Other DAGs and the
        command line are then refused unless they force it. Prevents accidents; it is no security.
    :param if_lost: What a task of a new DAG run does when the job has lost its driver. With the same graph it recovers
        the lost run and follows it. Another graph (script, arguments, conf, options) is refused, unless this says
        ``"recover"`` (go on with the old graph) or ``"restart"`` (end the lost run, and make a new one with the new
        graph from *start_from*, by default the latest checkpoint). With ``start_from="fresh"`` ``"restart"`` also
        consents to begin a job from nothing that only storage knows, as after a loss of ZooKeeper's data.
    :param force: Act although the job belongs to another DAG (``job_owner`` of the operator that submitted it).
    :param when_killed: What a user's mark-failed or mark-success of the waiting task does to the job: ``"detach"``
        (nothing), ``"stop_with_checkpoint"`` or ``"cancel"``. A clear never touches it: the next try attaches again.
    :param restart_attempts: How often a lost driver is submitted again before the run fails; no limit when left out.
        What meets an outage is not counted.
    :param restart_delay: Initial delay before a driver is submitted again that has failed by itself, or was lost before
        it was RUNNING; doubles each time in a row. Every other loss is recovered at once.
    :param restart_delay_max: Upper bound of that delay; a minute when left out.
    :param restart_in_place: Whether the host that has lost the driver starts it again by itself, without Airflow; yes
        when left out. Without it, this task or the cluster leader does, on a host of theirs.
    :param application_failures: How often the same error of the application (a traceback of the script, an analysis
        error, a missing module) at the same batch ends a run that has worked; never when left out.
    :param application_failure_period: Time that has to lie between the first and the last of these: ten minutes when
        left out.
    :param start_timeout: Time that a submission may take until it leads, before it is submitted again: two minutes when
        left out. One that its engine reports as running is never overdue.
    :param checkpoint_interval: Time between two checkpoints.
    :param retained_checkpoints: How many completed checkpoints are kept; at least 1.
    :param allow_new_queries: Whether the script may start queries of other names after a loss, in place of those that
        it had, which then stay behind with their state. Without it such a script is refused.
    :param repeatable: Queries whose output a batch that comes again, with its number and its rows, leaves as it was: a
        function that writes by key. A restore that gives them such batches is ``SAFE``; without it, it is refused.
    :param kafka_bootstrap: Query -> ``host:port,host:port`` of the Kafka brokers that it reads from: a restore asks
        them what they still have.
    :param kafka_properties: File of Kafka client properties, of mode 0600, on the hosts that plan restores.
    :param driver_log_mb: Size in megabytes from which on the driver's log is rotated; 20 when left out.
    :param driver_log_files: How many files of it there are at most, of each attempt; 10 when left out.
    :param stall_timeout: Time after which the job is STALLED, when a query has been inside one trigger all the time and
        has committed nothing; or nothing is heard before the first batch, of a query or of a script without executors;
        ten minutes when left out, 0 for never. A query that waits for data is none.
    :param restart_stalled: Whether the driver of a stalled job ends itself, so that the job is recovered as after any
        other loss; no when left out.
    :param metrics_port: Port at which the driver serves its metrics to Prometheus; 0 for any free one, none when left
        out.
    :param metrics_address: Address of that port; ``127.0.0.1`` when left out. There is no login.
    :param openlineage_inject_parent_job_info: Whether the driver's OpenLineage events name this task as their parent;
        by default what ``[openlineage] spark_inject_parent_job_info`` says, which is off.
    :param openlineage_inject_transport_info: Whether the driver sends them to where the worker sends its own; by
        default what ``[openlineage] spark_inject_transport_info`` says, which is off. One with a key is left out.
    :param retries: Tries after the first one when the DAG sets none: a try costs nothing, it finds its run again.
    :param retry_delay: Time between two tries; 10 s when the DAG sets no retries.
    :param spark_ha_conn_id: Connection of type ``spark_ha``.
    :param poll_interval: Seconds between two looks at a job without a leader; a watched change wakes it earlier.
    """

    template_fields: Sequence[str] = (
        *SparkHaRunOperator.template_fields,
        "application",
        "arguments",
        "py_files",
        "files",
        "jars",
        "archives",
        "packages",
        "conf",
        "env",
        "spark_conn_id",
        "master",
        "engine",
        "engine_options",
        "driver_memory",
        *RESOURCES,
        "name",
        "start_from",
        "sinks",
        "claim_mode",
        "accept_verdicts",
        "repeatable",
        "kafka_bootstrap",
        "kafka_properties",
        "job_owner",
        *OPTIONS,
    )
    template_fields_renderers = {"conf": "json", "env": "json"}

    def __init__(  # noqa: PLR0915  # one line for each parameter
        self,
        *,
        application: str,
        arguments: Sequence[str] = (),
        py_files: Sequence[str] = (),
        files: Sequence[str] = (),
        jars: Sequence[str] = (),
        archives: Sequence[str] = (),
        packages: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        spark_conn_id: str | None = None,
        master: str | None = None,
        engine: str | None = None,
        engine_options: Mapping[str, str] | None = None,
        driver_memory: str | None = None,
        executor_cores: int | str | None = None,
        executor_memory: str | None = None,
        total_executor_cores: int | str | None = None,
        num_executors: int | str | None = None,
        driver_class_path: str | None = None,
        repositories: str | None = None,
        exclude_packages: str | None = None,
        name: str | None = None,
        start_from: str | Mapping[str, str] = "latest",
        sinks: Mapping[str, str] | None = None,
        claim_mode: str = "NO_CLAIM",
        accept_verdicts: Sequence[str] = ("SAFE",),
        restart_attempts: int | None = None,
        restart_delay: float | timedelta | None = None,
        restart_delay_max: float | timedelta | None = None,
        restart_in_place: bool | None = None,
        application_failures: int | None = None,
        application_failure_period: float | timedelta | None = None,
        start_timeout: float | timedelta | None = None,
        checkpoint_interval: float | timedelta | None = None,
        retained_checkpoints: int | None = None,
        allow_new_queries: bool | None = None,
        repeatable: Sequence[str] = (),
        kafka_bootstrap: Mapping[str, str] | None = None,
        kafka_properties: str | None = None,
        allow_remote_executors: bool | str = False,
        driver_log_mb: int | None = None,
        driver_log_files: int | None = None,
        stall_timeout: float | timedelta | None = None,
        restart_stalled: bool | None = None,
        metrics_port: int | None = None,
        metrics_address: str | None = None,
        job_owner: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.application = application
        self.arguments = arguments
        self.py_files = py_files
        self.files = files
        self.jars = jars
        self.archives = archives
        self.packages = packages
        self.conf = conf
        self.env = env
        self.spark_conn_id = spark_conn_id
        self.master = master
        self.engine = engine
        self.engine_options = engine_options
        self.driver_memory = driver_memory
        self.executor_cores = executor_cores
        self.executor_memory = executor_memory
        self.total_executor_cores = total_executor_cores
        self.num_executors = num_executors
        self.driver_class_path = driver_class_path
        self.repositories = repositories
        self.exclude_packages = exclude_packages
        self.name = name
        self.start_from = start_from
        self.sinks = sinks
        self.claim_mode = claim_mode
        self.accept_verdicts = accept_verdicts
        self.restart_attempts = restart_attempts
        self.restart_delay = restart_delay
        self.restart_delay_max = restart_delay_max
        self.restart_in_place = restart_in_place
        self.application_failures = application_failures
        self.application_failure_period = application_failure_period
        self.start_timeout = start_timeout
        self.checkpoint_interval = checkpoint_interval
        self.retained_checkpoints = retained_checkpoints
        self.allow_new_queries = allow_new_queries
        self.repeatable = repeatable
        self.kafka_bootstrap = kafka_bootstrap
        self.kafka_properties = kafka_properties
        self.allow_remote_executors = allow_remote_executors
        self.driver_log_mb = driver_log_mb
        self.driver_log_files = driver_log_files
        self.stall_timeout = stall_timeout
        self.restart_stalled = restart_stalled
        self.metrics_port = metrics_port
        self.metrics_address = metrics_address
        self.job_owner = job_owner
        check_given(
            self,
            start_from=partial(check_start, words=(FRESH,), directories=True),
            claim_mode=as_claim_mode,
            accept_verdicts=accepted,
            master=check_possible,
            driver_memory=partial(check_memory, parameter="driver_memory"),
            conf=check_keys,
            **lists("arguments", "py_files", "files", "jars", "archives", "packages", "repeatable"),
        )
        ha_options(**{name: value for name in OPTIONS if is_known(value := getattr(self, name))})
        resources(**{name: value for name in RESOURCES if is_known(value := getattr(self, name))})

    def start(self, job: JobClient, request: str) -> SubmittedRun:
        """Submit the script, or find the run again."""
        place = self._place()
        return job.submit(
            SubmitRequest(
                job_id=self.job_id,
                request_id=request,
                application=self.application,
                name=self.name,
                arguments=self.argument_words(),
                py_files=list(self.py_files),
                files=list(self.files),
                jars=list(self.jars),
                archives=list(self.archives),
                packages=list(self.packages),
                conf={key: str(value) for key, value in (self.conf or {}).items()},
                env={key: str(value) for key, value in (self.env or {}).items()},
                master=place.master,
                engine=place.engine,
                engine_options=dict(place.engine_options),
                driver_memory=self.driver_memory,
                resources=resources(**{name: getattr(self, name) for name in RESOURCES}),
                options=ha_options(
                    restart_attempts=self.restart_attempts,
                    restart_delay=self.restart_delay,
                    restart_delay_max=self.restart_delay_max,
                    restart_in_place=self.restart_in_place,
                    application_failures=self.application_failures,
                    application_failure_period=self.application_failure_period,
                    start_timeout=self.start_timeout,
                    checkpoint_interval=self.checkpoint_interval,
                    retained_checkpoints=self.retained_checkpoints,
                    allow_new_queries=self.allow_new_queries,
                    repeatable=tuple(self.repeatable),
                    kafka_bootstrap=dict(self.kafka_bootstrap) if self.kafka_bootstrap else None,
                    kafka_properties=self.kafka_properties or None,
                    allow_remote_executors=self.allow_remote_executors,
                    driver_log_mb=self.driver_log_mb,
                    driver_log_files=self.driver_log_files,
                    stall_timeout=self.stall_timeout,
                    restart_stalled=self.restart_stalled,
                    metrics_port=self.metrics_port,
                    metrics_address=self.metrics_address,
                ),
                start_from=self.start_from,
                sinks=dict(self.sinks or {}),
                claim_mode=as_claim_mode(self.claim_mode),
                accept_verdicts=accepted(self.accept_verdicts),
                owner=self.job_owner or None,
                if_lost=if_lost(self.if_lost),
                lineage=self.lineage_conf,
            )
        )

    def _place(self) -> SparkPlace:
        """Return where the driver runs: what the connection says, with what the operator says itself."""
        named = read_place(self.spark_conn_id) if self.spark_conn_id else SparkPlace()
        engine = self.engine or named.engine
        options = named.engine_options if engine == named.engine else {}  # another engine has other options
        return SparkPlace(
            master=self.master or named.master,
            engine=engine,
            engine_options={**options, **(self.engine_options or {})},
        )
