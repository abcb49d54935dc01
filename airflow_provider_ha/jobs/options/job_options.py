"""Options of a job: high availability, and the resources of its processes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, PlainValidator, field_validator

from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.options.declaration import INTERNAL, option, texts, words
from airflow_provider_ha.records import Model


_OF_JAVA = re.compile(r"[1-9]\d*[kmgt]", re.IGNORECASE)
_OF_SPARK = re.compile(r"[1-9]\d*(?:b|[kmgtp]b?)?", re.IGNORECASE)  # megabytes without a unit
_KEYS = {  # parameter -> conf key, as for spark-submit's options of the same names
    "executor_cores": "spark.executor.cores",
    "executor_memory": "spark.executor.memory",
    "total_executor_cores": "spark.cores.max",
    "num_executors": "spark.executor.instances",
    "driver_class_path": "spark.driver.extraClassPath",
    "repositories": "spark.jars.repositories",
    "exclude_packages": "spark.jars.excludes",
}
_PLACE = {"group": "Where it runs"}
_APPLICATION = {"group": "Application"}


def check_memory(size: str, parameter: str) -> str:
    """Return a memory size that Java accepts, or Spark for an executor.

    :raises ConfigurationError: The size is invalid.
    """
    known = _OF_SPARK if parameter == "executor_memory" else _OF_JAVA
    if not known.fullmatch(str(size)):
        raise ConfigurationError(f"{parameter}={size!r} is not an amount of memory", next_step="Write it as 512m or 4g")
    return size


def memory_bytes(size: str) -> int | None:
    """Return the bytes of a memory size; a plain number is in MiB, as for Spark. ``None`` for another text."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", size.strip().lower())
    return int(match[1]) << 10 * ("kmgt".index(match[2] or "m") + 1) if match is not None else None


def memory(parameter: str) -> AfterValidator:
    """Return the validator of an option with a memory size."""
    return AfterValidator(partial(check_memory, parameter=parameter))


ExecutorMemory = Annotated[str, BeforeValidator(str), memory("executor_memory")]


class Resources(Model):
    """Resources that a job requests from Spark; ``None`` leaves the choice to conf, site and Spark."""

    executor_cores: int | None = option(None, "Number of cores per executor.", shown=_PLACE, ge=1)
    executor_memory: ExecutorMemory | None = option(None, 'Memory per executor: ``"2g"``.', shown=_PLACE)
    total_executor_cores: int | None = option(
        None, "Number of cores of all executors together, on a standalone cluster.", shown=_PLACE, ge=1
    )
    num_executors: int | None = option(
        None, "Number of executors; on a standalone cluster with *executor_cores*.", shown=_PLACE, ge=1
    )
    driver_class_path: str | None = option(
        None, "Class path of the driver's JVM, in addition to its jars.", shown=_PLACE
    )
    repositories: str | None = option(
        None, "Maven repositories for *packages*, separated by commas.", shown=_APPLICATION
    )
    exclude_packages: str | None = option(
        None, "``group:artifact`` of packages to leave out, separated by commas.", shown=_APPLICATION
    )

    def conf(self) -> dict[str, str]:
        """Return the resources as Spark conf."""
        given = {name: getattr(self, name) for name in _KEYS}
        return {_KEYS[name]: str(value) for name, value in given.items() if value not in (None, "")}

    def beside(self, conf: Mapping[str, str]) -> dict[str, str]:
        """Return *conf* with the resources added.

        :raises ConfigurationError: Both set the same key to different values; the message has the parameter.
        """
        own = self.conf()
        for name, key in _KEYS.items():
            if key in own and conf.get(key, own[key]) != own[key]:
                raise ConfigurationError(
                    f"conf sets {key}={conf[key]!r}, and {name} is {own[key]!r}",
                    next_step=f"Remove {key} from conf, or leave {name} out",
                )
        return {**conf, **own}


_HA = {"group": "High availability", "holder": "ha"}
_BROKERS = re.compile(r"(?:\w+://)?[^\s,:/]+:\d+|(?:\w+://)?\[[0-9A-Fa-f:.]+\]:\d+")


def _brokers(given: dict[str, str]) -> dict[str, str]:
    for query, brokers in given.items():
        if not all(_BROKERS.fullmatch(each.strip()) for each in brokers.split(",")):
            raise ConfigurationError(
                f"has for query {query!r} brokers that cannot be read", next_step="Write host:port,host:port"
            )
    return given


KafkaBootstrap = Annotated[dict[str, str], PlainValidator(texts), AfterValidator(_brokers)]
Queries = Annotated[tuple[str, ...], BeforeValidator(words)]


class HaOptions(Model):
    """The options of a job's high availability."""

    checkpoint_interval: float = option(
        10.0, "Seconds between two checkpoint pointers; batches in between are coalesced.", shown=_HA, ge=0
    )
    retained_checkpoints: int = option(3, "How many completed checkpoints are kept; at least 1.", shown=_HA, ge=1)
    restart_attempts: int = option(
        -1,
        "How often a lost driver is submitted again before the run fails; -1, the default, for no limit. A submission "
        "that met an outage (storage, a connection, memory, an executor, a broker, ZooKeeper) is not counted.",
        shown=_HA,
        ge=-1,
    )
    restart_delay: float = option(
        1.0,
        "Seconds before the next submission after a driver failed, or was lost before the job was RUNNING; doubles "
        "with each consecutive failure, up to *restart_delay_max*. A first loss, and a loss of a RUNNING job by an "
        "outside cause, is recovered as soon as its processes are proven dead.",
        shown=_HA,
        ge=0,
    )
    restart_delay_max: float = option(60.0, "Upper bound of the delay in seconds.", shown=_HA, ge=0)
    restart_reset_after: float = option(
        600.0, "Seconds of life after which the counter of attempts restarts.", shown=INTERNAL, ge=0
    )
    restart_in_place: bool = option(
        True,  # noqa: FBT003  # a default
        "Whether the supervisor of a lost driver starts the next attempt on its host. Without it, a waiting task or "
        "the cluster leader does, on a host of theirs.",
        shown=_HA,
    )
    class_archive: bool = option(
        True,  # noqa: FBT003  # a default
        "Whether drivers load Spark's classes from an archive of their host. The first driver makes it, once its job "
        "is RUNNING.",
        shown=_HA,
    )
    standby_drivers: int = option(
        0,
        "Number of standby drivers: processes with a started Spark session, one of which takes the job over within "
        "seconds when its leader is lost. Each needs the memory of a driver.",
        shown=_HA,
        ge=0,
        le=2,
    )
    standby_executors: int = option(
        1,
        "Number of executors that each standby driver holds on a cluster while it waits. Without one, its first batch "
        "waits for the start of an executor. A local master has none.",
        shown=_HA,
        ge=0,
        le=1000,
    )
    local_recovery: bool = option(
        False,  # noqa: FBT003  # a default
        "Whether executors keep a copy of each state file on the disk of their host, and read it there after a "
        "restart. Only for a work root on S3 or HDFS, and for RocksDB with state format 2. Saves bytes and "
        "time of each restart, more with a larger state.",
        shown=_HA,
    )
    local_recovery_dir: str | None = option(
        None,
        "Directory of these copies on every host of drivers and executors, absolute; only its user may enter it. By "
        "default one per user below the temporary directory of the host.",
        shown={**_HA, "metavar": "DIRECTORY"},
    )
    local_recovery_mb: int = option(
        10_000,
        "Megabytes (1,000,000 bytes) that these copies may take per host; never more than half of the free space.",
        shown=_HA,
        ge=1,
        le=100_000_000,
    )
    application_failures: int = option(
        -1,
        "How often the same error of the application at the same batch ends a run that has worked; -1, the default, "
        "for never.",
        shown=_HA,
    )
    application_failure_period: float = option(
        600.0, "Minimum seconds between the first and the last such failure.", shown=_HA, ge=0
    )
    start_timeout: float = option(
        120.0,
        "Seconds that a submission may take until it leads, before it is submitted again. A submission that its "
        "engine reports as running is never overdue.",
        shown=_HA,
        gt=0,
    )
    allow_new_queries: bool = option(
        False,  # noqa: FBT003  # a default
        "Whether the script may start queries of other names after a loss. A query whose name contains a time starts "
        "from nothing, and the replaced query does not continue.",
        shown=_HA,
    )
    min_batches_to_retain: int = option(
        100, "Spark's ``spark.sql.streaming.minBatchesToRetain``.", shown=INTERNAL, ge=10
    )
    kafka_bootstrap: KafkaBootstrap = option(
        {},
        "Query -> ``host:port,host:port`` of its brokers. Spark's checkpoints do not record them; a restore reads "
        "their available offsets.",
        shown={**_HA, "metavar": "QUERY=HOST:PORT[,...]"},
    )
    kafka_properties: str | None = option(
        None,
        "File of client properties for the login to the brokers; on the host that plans a restore.",
        shown={**_HA, "metavar": "FILE"},
    )
    allow_remote_executors: bool = option(
        False,  # noqa: FBT003  # a default
        "Whether executors may run on hosts where a supervisor cannot prove their death.",
        shown={**_HA, "group": "Where it runs"},
    )
    stall_timeout: float = option(
        600.0,
        "Seconds after which a job is STALLED: a query stays inside one trigger without a commit; or a query, or a "
        "script without executors, reports no progress before the first batch. 0 for never. A query that waits for "
        "data is not stalled.",
        shown=_HA,
        ge=0,
    )
    restart_stalled: bool = option(
        False,  # noqa: FBT003  # a default
        "Whether the driver of a stalled job ends itself, so that the job is recovered as after any other loss, with "
        "the same limits and delays.",
        shown=_HA,
    )
    metrics_port: int | None = option(
        None,
        "Port at which the driver serves its metrics to Prometheus; 0 for any free one, and by default none.",
        shown=_HA,
        ge=0,
        le=65_535,
    )
    metrics_address: str = option(
        "127.0.0.1",
        "Address of the metrics port, which has no login. ``127.0.0.1`` is reachable only from its own host.",
        shown=_HA,
    )
    accept_duplicates: bool = option(
        False,  # noqa: FBT003  # a default
        "Whether real-time and continuous queries may run: they write rows again after each loss. A request that "
        "accepts DUPLICATES_POSSIBLE sets it.",
        shown=INTERNAL,
    )
    repeatable: Queries = option(
        (),
        "Queries with idempotent output: a repeated batch, with the same number and rows, does not change it. The "
        "function of ``foreachBatch`` or ``foreach`` writes by key, or consumers drop duplicates.",
        shown={**_HA, "metavar": "QUERY"},
    )
    driver_log_mb: int = option(
        20,
        "Size in megabytes (1,000,000 bytes) from which on the log of a driver is rotated.",
        shown=_HA,
        ge=1,
        le=10_000,
    )
    driver_log_files: int = option(10, "Maximum number of log files per attempt.", shown=_HA, ge=1, le=1000)

    @field_validator("local_recovery_dir")
    @classmethod
    def _check_local_recovery_dir(cls, value: str | None) -> str | None:
        if value is not None and not (value.startswith("/") and value.isprintable()):
            raise ConfigurationError(
                f"local_recovery_dir={value!r} is not the absolute path of a directory",
                next_step="Name a directory that every host of the job has, or can make: /var/spark/copies",
            )
        return value

    @field_validator("application_failures")
    @classmethod
    def _check_application_failures(cls, value: int) -> int:
        if value != -1 and value < 2:  # noqa: PLR2004  # a single failure is no repetition
            raise ConfigurationError(
                f"application_failures={value} should be 2 or more, or -1 for never",
                next_step="Use 2 or more, or -1",
            )
        return value
