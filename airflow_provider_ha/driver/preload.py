"""Prepares resources that every Spark driver needs, while the driver connects and waits for the job's lock.

It does not touch the job. Done under the lock, while the job is down, importing pyspark and reaching the JVM took more
than half a second of every recovery.
"""

from __future__ import annotations

import logging
import os
import threading

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.jvm.file_system import warm_up
from airflow_provider_ha.driver.jvm.s3a_conf import s3a_conf
from airflow_provider_ha.driver.spark_conf import gateway
from airflow_provider_ha.jobs.options.component_conf import needs_component
from airflow_provider_ha.uris import hadoop_uri


log = logging.getLogger(__name__)


def preload(config: HaConfig) -> None:
    """Start in another thread, and return immediately.

    A thread that imports the same modules waits on Python's import locks. A failure here recurs where the resource is
    needed, and is reported there.
    """
    threading.Thread(target=_preload, args=(config,), name="ha-preload", daemon=True).start()


def _preload(config: HaConfig) -> None:
    try:
        import pyspark.sql  # pyspark is imported inside functions
        import pyspark.sql.streaming.query  # the same
        import pyspark.sql.streaming.readwriter  # noqa: F401  # the same

        if "PYSPARK_GATEWAY_PORT" in os.environ:  # else pyspark would start another JVM
            jvm = gateway()
            if needs_component(config):  # S3A takes a second to be loaded
                warm_up(jvm, hadoop_uri(config.work_uri), s3a_conf(config))
    except Exception as error:  # noqa: BLE001  # reported where it is needed
        log.info("pyspark is not ready yet: %s", error)
