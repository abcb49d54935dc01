"""What a driver of Spark needs in any case, made ready while it connects and waits for the job's lock.

Nothing of this touches the job. Under the lock, where the job stands still, importing pyspark and reaching the JVM took
more than half a second of each recovery.
"""

from __future__ import annotations

import logging
import os
import threading

from airflow_provider_ha.driver.spark_conf import gateway


log = logging.getLogger(__name__)


def preload() -> None:
    """Begin in another thread, and return at once.

    A thread that imports the same modules waits on Python's import locks. What fails there fails again, and is
    reported, where it is needed.
    """
    threading.Thread(target=_preload, name="ha-preload", daemon=True).start()


def _preload() -> None:
    try:
        import pyspark.sql  # pyspark is imported inside functions
        import pyspark.sql.streaming.query  # the same
        import pyspark.sql.streaming.readwriter  # noqa: F401  # the same

        if "PYSPARK_GATEWAY_PORT" in os.environ:  # else pyspark would start another JVM
            gateway()
    except Exception as error:  # noqa: BLE001  # reported where it is needed
        log.info("pyspark is not ready yet: %s", error)
