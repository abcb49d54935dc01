"""What a work root asks of a job, as far as it is known where the job is submitted; the driver looks again.

On S3 the component in Spark's JVM keeps two drivers apart. It needs a release of Spark, and a part of the conf.
"""

from __future__ import annotations

from collections.abc import Mapping

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.engines.local import LocalEngine
from airflow_provider_ha.errors import ConfigurationError
from airflow_provider_ha.jobs.component_conf import needs_component, refuse_owned
from airflow_provider_ha.jobs.component_jar import component_jar
from airflow_provider_ha.jobs.engine_options import engine_options, named_spark_home
from airflow_provider_ha.jobs.model import Target
from airflow_provider_ha.jobs.spark_release import installed_spark, release_of


OLDEST_SPARK = (4, 1, 0)  # with Hadoop 3.4.2, which creates objects on condition


def check_work_root(config: HaConfig, target: Target, conf: Mapping[str, str]) -> None:
    """Refuse a job that could not work on this work root.

    :param conf: Spark's, as the user gives it.
    :raises ApplicationRefusedError: It sets what belongs to the component.
    :raises ConfigurationError: The Spark or the installation of this host, which would run the driver, cannot do it.
    """
    if not needs_component(config):
        return
    refuse_owned(conf)  # guard: submit-takes-conf-of-the-component
    if target.engine != LocalEngine.name:
        return
    component_jar()  # guard: submit-takes-an-installation-without-the-component
    home = named_spark_home(engine_options(config, target)) or installed_spark().home
    release = release_of(home) if home is not None else None
    if release is not None and release < OLDEST_SPARK:  # guard: submit-takes-an-old-spark
        raise ConfigurationError(
            f"the Spark in {str(home)!r} is of release {'.'.join(map(str, release))}, and checkpoints on "
            f"{config.work_root} need 4.1 or newer: earlier ones cannot create an object on condition",
            next_step="Install Spark 4.1 or newer on the hosts that run drivers, or use a work root on a mounted file "
            "system",
        )
