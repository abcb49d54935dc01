"""Spark's conf of a managed driver, set before the script makes its session.

It travels as system properties of the JVM: every ``SparkConf`` that the script makes reads them, and the user's
settings (which spark-submit also puts there) are never replaced. The only exception is the checkpoint location.
"""

from __future__ import annotations

from typing import Any

from airflow_provider_ha.checkpoints.areas.source_logs import compact_sources
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import SOURCES, progress_when_listed
from airflow_provider_ha.checkpoints.spark.metadata_log import read_commits, read_offsets
from airflow_provider_ha.checkpoints.spark.tree import Tree, WritableTree
from airflow_provider_ha.errors import ApplicationRefusedError
from airflow_provider_ha.jobs.drivers.spark_release import REMOTE_NEXT_STEP, is_local, remote_reason


CHECKPOINT_LOCATION = "spark.sql.streaming.checkpointLocation"
MIN_BATCHES = "spark.sql.streaming.minBatchesToRetain"
COMPACT_INTERVAL = "spark.sql.streaming.fileSource.log.compactInterval"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FORMAT_VERSION = "spark.sql.streaming.stateStore.checkpointFormatVersion"
LOG_LEVEL = "spark.log.level"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


_DEFAULT_CONFIGURATION = "org.apache.logging.log4j.core.config.DefaultConfiguration"
_SPARKS_OWN = "org/apache/spark/log4j2-"  # a resource of Spark's jars


def gateway() -> Any:
    """Return the JVM of this driver, started by spark-submit."""
    from pyspark import SparkContext  # pyspark is imported inside functions

    SparkContext._ensure_initialized()  # noqa: SLF001  # the only way to the JVM before there is a session
    return SparkContext._jvm  # noqa: SLF001  # the same


def prepare_conf(jvm: Any, location: str, min_batches: int) -> str | None:
    """Set the conf for a working directory; return the checkpoint location that the user's conf had in its place.

    :param location: URI of the directory.
    """
    system = jvm.java.lang.System
    own: str | None = system.getProperty(CHECKPOINT_LOCATION)
    system.setProperty(CHECKPOINT_LOCATION, location)
    prepare_session_conf(jvm, min_batches)
    return own


def prepare_session_conf(jvm: Any, min_batches: int) -> None:
    """Set the conf that depends on no epoch: a standby driver makes its session before it leads."""
    system = jvm.java.lang.System
    if system.getProperty(MIN_BATCHES) is None:
        system.setProperty(MIN_BATCHES, str(min_batches))
    if system.getProperty(PROVIDER) is None:
        system.setProperty(PROVIDER, ROCKSDB)
    # Format 2 names its files by attempt: a zombie can never replace files that a commit refers to.
    if system.getProperty(PROVIDER) == ROCKSDB and system.getProperty(FORMAT_VERSION) is None:
        system.setProperty(FORMAT_VERSION, "2")
    if system.getProperty(LOG_LEVEL) is None and not has_own_logging(jvm):
        system.setProperty(LOG_LEVEL, "WARN")


def has_own_logging(jvm: Any) -> bool:
    """Return whether the JVM logs by a configuration of the user's, and not by the defaults of log4j or of Spark.

    log4j itself is queried: a configuration can come from Spark's conf directory, a system property, the environment or
    a jar.
    """
    try:
        used = jvm.org.apache.logging.log4j.LogManager.getContext(False).getConfiguration()  # noqa: FBT003  # Java has no names for them
        kind, source = str(used.getClass().getName()), str(used.getConfigurationSource().getLocation())
    except Exception:  # noqa: BLE001  # any failure of py4j: another logging than Spark's own is the user's choice
        return True
    return kind != _DEFAULT_CONFIGURATION and _SPARKS_OWN not in source


def conf_of_script() -> dict[str, str]:
    """Return the conf of the script's context; empty if it made none, or its JVM is gone."""
    from pyspark import SparkContext  # pyspark is imported inside functions

    context = SparkContext._active_spark_context  # noqa: SLF001  # there is no public way that makes none
    try:
        return dict(context.getConf().getAll()) if context is not None else {}
    except Exception:  # noqa: BLE001  # any failure of py4j: the JVM has ended before the script
        return {}


def check_master(session: Any, *, allowed: bool) -> None:
    """Refuse a session whose executors cannot be proven dead: a script may choose a master itself.

    :param allowed: Whether the job explicitly allows it.
    :raises ApplicationRefusedError: The master is remote, and not allowed.
    """
    master = session.sparkContext.master
    if not allowed and not is_local(master):
        raise ApplicationRefusedError(remote_reason(master), next_step=REMOTE_NEXT_STEP)


def fit(session: Any, checkpoint: WritableTree) -> None:
    """Make a session and the checkpoint of a query that it is about to start agree.

    :param checkpoint: Listed for this start.
    """
    fit_state_format(session, checkpoint)
    if checkpoint.names(SOURCES):
        compact_sources(checkpoint, int(session.conf.get(COMPACT_INTERVAL)))


def fit_state_format(session: Any, checkpoint: Tree) -> None:
    """Set the session's state format to that of the query's checkpoint, or to one that its provider supports.

    Spark reads the provider from the checkpoint, but takes the format from the session: a checkpoint of format 1 that
    is opened with format 2 does not start, and a script that chose the HDFS provider cannot have format 2.
    """
    now = progress_when_listed(checkpoint)
    provider = session.conf.get(PROVIDER, None)
    if now.planned >= 0:
        provider = read_offsets(checkpoint, now.planned).conf.get(PROVIDER, provider)
    if now.committed >= 0:
        held = "2" if read_commits(checkpoint, now.committed).state_ids else None
        version = held or ("1" if _has_state(checkpoint) else None)
    else:
        version = None if provider == ROCKSDB else "1"
    if version is not None and session.conf.get(FORMAT_VERSION, None) != version:
        session.conf.set(FORMAT_VERSION, version)


def _has_state(checkpoint: Tree) -> bool:
    return (checkpoint / "state").is_directory()
