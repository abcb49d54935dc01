"""What a driver leaves for its supervisor while it becomes the leader; a real ZooKeeper, no Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.election import acquire
from airflow_provider_ha.coordination.raw_socket import close_session
from airflow_provider_ha.driver.members.driver_session import lead
from airflow_provider_ha.jobs.drivers.driver_home import Ticket
from airflow_provider_ha.jobs.drivers.driver_spec import DriverSpec, read_session
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, ManagedJob


def test_the_session_that_leads_is_left_for_the_supervisor_not_the_one_that_waited(managed: ManagedJob) -> None:
    """Closing a session that has ended frees no lock: the recovery would wait for the timeout of the other one."""
    spec = spec_of(managed, managed.submit(APPS / "plain.py", []))
    holder = acquire(
        managed.coordinator,
        managed.paths,
        timings=managed.config.timings,
        clock=managed.clock,
        describe=lambda _: b"holder",
        timeout=5,
    )
    holder.start_heartbeats(lambda _: None)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lead, spec, SystemClock())
        first = wait_until(lambda: read_session(spec.home.session), timeout=10, what="the first session")
        assert first is not None
        wait_until(lambda: close_session(managed.config, first), timeout=10, what="the end of the first session")
        holder.release()
        led = waiting.result(30)
    try:
        assert led.coordinator.session != first
        assert read_session(spec.home.session) == led.coordinator.session
    finally:
        led.leadership.release()
        led.coordinator.close()


def spec_of(job: ManagedJob, run: int) -> DriverSpec:
    view = job.runs.get(run)
    directory = job.directory(run)
    directory.mkdir(parents=True)
    return DriverSpec(
        config=job.config,
        ticket=Ticket(
            job_id=job.job_id,
            run=run,
            attempt=1,
            submission_id=view.submissions[-1].submission.submission_id,
            graph=view.run.graph,
        ),
        directory=directory,
    )
