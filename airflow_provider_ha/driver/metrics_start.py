"""Starts the metrics endpoint of a driver if its job enables it: only then Prometheus' client is loaded."""

from __future__ import annotations

import logging
from collections.abc import Callable

from airflow_provider_ha.checkpoints.retention.store import CheckpointStore
from airflow_provider_ha.clock import Clock
from airflow_provider_ha.coordination.records import read_record
from airflow_provider_ha.driver.checkpoint_figures import CheckpointFigures, NewestCheckpoint
from airflow_provider_ha.driver.job_writer import JobWriter
from airflow_provider_ha.driver.lead import DriverSession
from airflow_provider_ha.driver.queries import QueryRegistry
from airflow_provider_ha.driver.trigger_figures import Trigger
from airflow_provider_ha.errors import HaError
from airflow_provider_ha.jobs.host.driver_spec import DriverSpec
from airflow_provider_ha.jobs.runs import RunStore
from airflow_provider_ha.jobs.submissions import SubmissionLed


log = logging.getLogger(__name__)


def start_metrics(
    spec: DriverSpec,
    led: DriverSession,
    *,
    registry: QueryRegistry,
    writer: JobWriter,
    clock: Clock,
    checkpoints: CheckpointStore,
    figures: CheckpointFigures,
) -> Callable[[str, Trigger], None]:
    """Serve the metrics if the options of the job enable them, and put the address into the status.

    :returns: Receiver of every trigger.
    """
    if led.graph.options.metrics_port is None:
        return _ignore
    from airflow_provider_ha.driver.metrics_collector import DriverMetrics, Observed  # noqa: PLC0415  # see above
    from airflow_provider_ha.driver.metrics_server import serve  # noqa: PLC0415

    try:
        newest = next(iter(checkpoints.list()), None)
        run = RunStore(led.coordinator, led.paths).get(led.run.number)
        granted = read_record(led.coordinator, led.paths.submission_led(led.run.number, spec.attempt), SubmissionLed)
    except HaError as error:
        log.warning("the job runs without metrics: %s", error)
        return _ignore
    if newest is not None:
        figures.found(NewestCheckpoint(newest.number, newest.created_at))
    metrics = DriverMetrics(
        Observed(
            cluster=spec.config.cluster_id,
            job_id=spec.job_id,
            epoch=led.leadership.epoch,
            led_at=granted[0].at if granted is not None else clock.now(),
            state=lambda: writer.state,
            lease_left=led.leadership.least_lease_left,
            losses=lambda: writer.losses,
            triggers=registry.triggers,
            checkpoints=figures,
            run=run,
            attempt=spec.attempt,
            alive_at=led.alive_at,
            options=led.graph.options,
            clock=clock,
        )
    )
    writer.set_metrics(serve(metrics, led.graph.options))
    return metrics.note


def _ignore(query: str, trigger: Trigger) -> None:
    """Ignore the trigger."""
