"""The list of jobs: reads only the jobs of the shown page."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ha.control.administration.overview import (
    checkpoint_times,
    read_details,
    read_states,
    restarts_since,
)
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.views.overview import (
    DAY,
    Asked,
    OverviewView,
    SortKey,
    choose,
    on_page,
    overview,
    overview_row,
    pages_of,
)


def read_page(client: HaClient, asked: Asked, job_ids: Sequence[str]) -> OverviewView:
    """Return one page of the list: the state of every job, and complete data for the jobs of the page.

    :param job_ids: The jobs that the user may see.
    :raises NotConnectedError: ZooKeeper could not be read.
    """
    coordinator, paths, now = client.coordinator, client.paths, client.clock.now()
    since = now - DAY
    jobs = read_states(coordinator, paths, job_ids, now=now)
    found = choose(
        jobs,
        asked,
        checkpoints=checkpoint_times(coordinator, paths, job_ids) if asked.sort is SortKey.CHECKPOINT else None,
        restarts=restarts_since(coordinator, paths, job_ids, since) if asked.sort is SortKey.RESTARTS else None,
    )
    page = min(asked.page, pages_of(len(found)))
    details = read_details(coordinator, paths, found[on_page(page)], since=since)
    return overview(jobs, len(found), [overview_row(detail, now=now) for detail in details], page)
