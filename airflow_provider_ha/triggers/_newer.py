"""The base of the triggers for live facts: they wait for a job that does not exist yet, not for one that has ended.

A sensor often starts beside the task that submits the job. So an unknown job, or a run that had already ended when the
sensor was first executed, is no reason to fail. A run that ends while the sensor watches is: nothing would come any
more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_ha.coordination.paths import JobPaths
from airflow_provider_ha.errors import UnknownJobError
from airflow_provider_ha.triggers._base import Event, Need, Outage, SparkHaTrigger
from airflow_provider_ha.triggers._watched_nodes import Nodes
from airflow_provider_ha.triggers.job import leader_of
from airflow_provider_ha.views.events import HopelessEvent


if TYPE_CHECKING:
    from airflow_provider_ha.control.client import HaClient
    from airflow_provider_ha.jobs.status import JobStatus


class NewerThanTrigger(SparkHaTrigger):
    """Wait for a fact about the job's live run.

    :param ended_run: Newest run that already had a result when the sensor was first executed; 0 for none.
    """

    def __init__(self, *, ended_run: int = 0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ended_run = ended_run
        self._unknown = Outage(self, "The job is not known yet")

    def kwargs(self) -> dict[str, Any]:
        """Return the keyword arguments, as plain JSON."""
        return super().kwargs() | {"ended_run": self.ended_run}

    def need(self, found: Nodes, paths: JobPaths) -> Need:
        """Need one look at each state of a job that is led: what would end the wait changes a node."""
        return Need.ALWAYS if leader_of(found[paths.leader]) is None else Need.ON_CHANGE

    def passed(self, snapshot: JobStatus) -> Event | None:
        """Return the event when *snapshot* shows what is waited for."""
        raise NotImplementedError

    def look(self, client: HaClient) -> Event | None:
        """Read the job."""
        try:
            snapshot = client.job(self.job_id).snapshot()
        except UnknownJobError as error:
            self._unknown.goes_on(str(error))
            return None
        return self.passed(snapshot) or hopeless_event(snapshot, ended_run=self.ended_run)


def hopeless_event(snapshot: JobStatus, *, ended_run: int) -> Event | None:
    """Return an event when the run that was watched has ended, so that what is waited for will not come."""
    view = snapshot.run
    if view is None or view.result is None or view.run.number <= ended_run:
        return None
    reason = f"run {view.run.number} of job {snapshot.job_id!r} ended {view.result.state.value}: {view.result.reason}"
    return HopelessEvent(run=view.run.number, state=view.result.state, reason=reason).to_json()
