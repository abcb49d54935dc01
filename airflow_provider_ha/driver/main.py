"""The program of a driver: connect, lead, and run the script under the lock.

Order matters: work that does not touch the job (:func:`preload`) before the lock, the lock before any access to the
job. The job is down until then, so a driver loads the rest of itself beside the wait for the lock.
"""

from __future__ import annotations

import logging
import os
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.driver.ending.exit_reason import ExitCode, reserve
from airflow_provider_ha.driver.ending.process_end import ProcessTerminator, Watchdog
from airflow_provider_ha.driver.members.driver_session import lead
from airflow_provider_ha.driver.script_environment import log_beside_the_script
from airflow_provider_ha.errors import HaError, JobStateError
from airflow_provider_ha.jobs.drivers.driver_spec import SPEC_VARIABLE, DriverSpec
from airflow_provider_ha.redaction import remember, secrets_of


if TYPE_CHECKING:  # loaded beside the wait for the lock
    from airflow_provider_ha.driver.queries.patches import PatchedSpark

log = logging.getLogger(__name__)
_AFTER_THE_LOCK = (  # in this order: the driver as soon as this process leads, pyspark with the script
    "airflow_provider_ha.driver.driver",
    "pyspark.sql",
    "pyspark.sql.streaming.query",
    "pyspark.sql.streaming.readwriter",
)


def main() -> None:
    """Run the driver of the spec file that the environment names, and end the process."""
    log_beside_the_script()
    spec = DriverSpec.read(Path(os.environ[SPEC_VARIABLE]))
    spec.forget()
    remember(secrets_of(spec.config))
    way_out = ProcessTerminator(spec.home.directory)
    watchdog = Watchdog(way_out)
    watchdog.start()
    reserve(spec.home.directory)
    loading = preload(spec.config)
    spark: PatchedSpark | None = None
    try:
        if spec.ticket.is_standby:
            from airflow_provider_ha.driver.standby.standby_driver import StandbyDriver  # noqa: PLC0415  # of few drivers

            loading.join()  # two threads that import pyspark at once find it half loaded
            promotion = StandbyDriver(spec, way_out, SystemClock()).wait()
            spec, led, spark = promotion.spec, promotion.led, promotion.spark
        else:
            led = lead(spec, SystemClock())
    except JobStateError as error:
        way_out.leave(ExitCode.NOT_ADMITTED, str(error))
    except HaError as error:
        way_out.leave(ExitCode.OUTAGE if error.retryable else ExitCode.FAILED, str(error))
    except BaseException as error:  # noqa: BLE001  # the process must not outlive its main thread
        way_out.thread_failed(error)
    watchdog.follow(led.leadership)
    led.leadership.start_heartbeats(way_out.leadership_lost)
    try:
        from airflow_provider_ha.driver.driver import Driver  # noqa: PLC0415  # waits until the preload has it

        Driver(spec, led, way_out, SystemClock(), spark).run()
    except BaseException as error:  # noqa: BLE001  # as above
        way_out.thread_failed(error)


def preload(config: HaConfig) -> threading.Thread:
    """Load the rest of the driver in another thread: modules, pyspark, the classes of S3A. Return the thread.

    Imports that need the same modules wait for Python's import locks. A failure here recurs where the resource is
    needed, and is reported there.
    """
    thread = threading.Thread(target=_preload, args=(config,), name="ha-preload", daemon=True)
    thread.start()
    return thread


def _preload(config: HaConfig) -> None:
    try:
        for name in _AFTER_THE_LOCK:
            import_module(name)
        if "PYSPARK_GATEWAY_PORT" in os.environ:  # else pyspark would start another JVM
            component = import_module("airflow_provider_ha.driver.jvm.component")
            component.warm_up_for(config)
    except Exception as error:  # noqa: BLE001  # reported where it is needed
        log.info("pyspark is not ready yet: %s", error)
