"""What the proof of outages calls untrue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_ha.jobs.model import JobState
from lab.outages import Outage, untrue


HELD = Outage(away="broker", attempts=4, seconds=40.0, ended=None, exact=True)


def test_a_job_that_continues_and_writes_each_row_once_keeps_the_promise() -> None:
    assert untrue([HELD]) == []


@pytest.mark.parametrize(
    ("outage", "sentence"),
    [
        (replace(HELD, ended=JobState.FAILED), "The run ended FAILED while the broker was away."),
        (replace(HELD, seconds=200.0), "The job committed again only 200 s after the broker was back."),
        (replace(HELD, exact=False), "The rows of the job whose broker was away are not exact."),
    ],
)
def test_what_does_not_hold_is_named(outage: Outage, sentence: str) -> None:
    assert untrue([outage]) == [sentence]
