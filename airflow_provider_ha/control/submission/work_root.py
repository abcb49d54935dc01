"""What a work root asks of a job, as far as it is known where the job is submitted; the driver looks again.

On S3 the component in Spark's JVM keeps two drivers apart. It needs a release of Spark, and a part of the conf.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from airflow_provider_ha.checkpoints.working.work_area import costs
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.control.job.context import JobContext
from airflow_provider_ha.engines.engine import Engine
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.model import Target
from airflow_provider_ha.jobs.options.component_conf import needs_component, refuse_owned
from airflow_provider_ha.jobs.options.component_jar import component_jar


log = logging.getLogger(__name__)

OLDEST_SPARK = (4, 1, 0)  # with Hadoop 3.4.2, which creates objects on condition


def check_work_root(config: HaConfig, engine: Engine, target: Target, conf: Mapping[str, str]) -> None:
    """Refuse a job that could not work on this work root.

    :param engine: Runs the drivers of *target*.
    :param conf: Spark's, as the user gives it.
    :raises ApplicationRefusedError: It sets what belongs to the component.
    :raises ConfigurationError: The Spark that would run the driver cannot do it, or this host would run it and has no
        component.
    """
    if not needs_component(config):
        return
    refuse_owned(conf)
    if engine.runs_here:
        component_jar()
    spark = engine.spark_of(target)
    where, release = spark.where, spark.release
    if release is not None and release < OLDEST_SPARK:
        raise ConfigurationError(
            f"the Spark {where} is of release {'.'.join(map(str, release))}, and checkpoints on {config.work_root} "
            "need 4.1 or newer: earlier ones cannot create an object on condition",
            next_step="Install Spark 4.1 or newer on the hosts that run drivers, or use a work root on a mounted file "
            "system",
        )


def check_storage(job: JobContext) -> None:
    """Assert that a run can be made here, before anything is made that only one may make; log what has a cost.

    :raises ConfigurationError: The storage or the work root removes files by a rule.
    :raises StorageUnavailableError: One of them cannot be written, or lets two create one object.
    """
    job.store.check_writable()
    for cost in costs(job.area):
        log.warning("job %s: %s", job.job_id, cost)
