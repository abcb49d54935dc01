"""The page of options is current."""

from __future__ import annotations

from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest
from tests.docs.options_page import PAGE, page


def test_the_page_is_in_step_with_the_spec() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(JobSpec, RestoreRequest), "run python -m tests.docs.options_page"
