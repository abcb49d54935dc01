"""The list of jobs: which jobs a page shows, read for it alone."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_provider_ha.control.administration.overview import read_briefs, read_details
from airflow_provider_ha.control.client import HaClient
from airflow_provider_ha.views.overview import (
    Asked,
    OverviewView,
    choose,
    on_page,
    overview,
    overview_row,
    pages_of,
    sort_rows,
)


def read_page(client: HaClient, asked: Asked, job_ids: Sequence[str]) -> OverviewView:
    """Return one page of the list: every job in brief, and as a whole only those that the page shows.

    :param job_ids: The jobs that the user may see.
    :raises NotConnectedError: It could not be found out.
    """
    coordinator, paths, now = client.coordinator, client.paths, client.clock.now()
    briefs = read_briefs(coordinator, paths, job_ids)
    found = [brief.job_id for brief in choose(briefs, asked)]
    page = min(asked.page, pages_of(len(found)))
    if asked.sort.needs_details:
        rows = [overview_row(detail, now=now) for detail in read_details(coordinator, paths, found)]
        return overview(briefs, len(found), sort_rows(rows, asked.sort)[on_page(page)], page)
    details = read_details(coordinator, paths, found[on_page(page)])
    return overview(briefs, len(found), [overview_row(detail, now=now) for detail in details], page)
