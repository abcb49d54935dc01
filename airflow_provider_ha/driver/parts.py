"""The cooperating parts during the script's run, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_ha.driver.housekeeping import Housekeeping
from airflow_provider_ha.driver.job_writer import JobWriter
from airflow_provider_ha.driver.jvm.component import Component
from airflow_provider_ha.driver.lifecycle import Lifecycle
from airflow_provider_ha.driver.misfit import PreviousGraph
from airflow_provider_ha.driver.origin import Origin
from airflow_provider_ha.driver.patches import Patches
from airflow_provider_ha.driver.progress_recorder import ProgressRecorder
from airflow_provider_ha.driver.publish_loop import PublishLoop
from airflow_provider_ha.driver.publisher import Publisher
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.query_start import WriterCalls
from airflow_provider_ha.driver.script import Script
from airflow_provider_ha.driver.stall_watch import StallWatch
from airflow_provider_ha.driver.start_ledger import StartLedger
from airflow_provider_ha.driver.stop_job import MainThread


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a driver.

    :param calls: pyspark's own calls, as they were before they were patched.
    :param previous: The starting point of the run, and the difference between its graph and the run's.
    :param component: Of the JVM; ``None`` if the working directory does not need it.
    """

    origin: Origin
    registry: QueryRegistry
    ledger: StartLedger
    lifecycle: Lifecycle
    writer: JobWriter
    publisher: Publisher
    publishing: PublishLoop
    recorder: ProgressRecorder
    stall_watch: StallWatch
    patches: Patches
    calls: WriterCalls
    script: Script
    main_thread: MainThread
    housekeeping: Housekeeping
    previous: PreviousGraph
    component: Component | None = None
