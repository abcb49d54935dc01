"""A run that a request has led to."""

from __future__ import annotations

from airflow_provider_ha.views.view import View


class SubmittedView(View):
    """The run of a request.

    :param job_id: The job.
    :param run: Number of the run.
    :param attempt: Its newest submission.
    :param created: Whether this call made the run; ``false`` when an earlier request of this id did.
    """

    job_id: str
    run: int
    attempt: int
    created: bool
