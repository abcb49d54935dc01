"""Many takeovers in a row: a leader is killed, then the standby driver that takes over; the output is exact."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import cycle
from random import Random

import pytest

from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.spark.interrupted_takeovers import MOMENTS, QUICKLY_READY, Seen, await_ready, interrupt
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(1800)]
SEED = 7
LONGEST = 8.0  # seconds from the grant to a kill: a driver has read everything by then


def take_over(job: SupervisedJob, number: int, moments: Iterator[Seen]) -> None:
    """Have standby drivers take the job over *number* times; every second one is killed at the next of the moments."""
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=2, class_archive=False)
    job.conf = dict(QUICKLY_READY)
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    while takeovers(job) < number:
        await_ready(job, 2)
        interrupt(job, next(moments), kill=True)


def takeovers(job: SupervisedJob) -> int:
    """Return how many attempts of the run were standby drivers before they led."""
    return sum(view.submission.standby for view in job.run.submissions)


def elapsed(seconds: float) -> Seen:
    """Return the moment so many seconds after the first look for it."""
    moment = 0.0

    def seen(_job: SupervisedJob, _epoch: int) -> bool:
        nonlocal moment
        moment = moment or time.monotonic() + seconds
        return time.monotonic() >= moment

    return seen


def test_six_takeovers_of_which_three_are_interrupted_leave_an_exact_output(
    gated: Callable[..., SupervisedJob],
) -> None:
    job = gated()
    take_over(job, 6, cycle(MOMENTS[name] for name in ("granted", "forked", "current")))
    terminate_and_compare(job, job.stream.files)


@pytest.mark.long
@pytest.mark.hours
def test_sixty_takeovers_with_kills_at_random_times_leave_an_exact_output(
    gated: Callable[..., SupervisedJob], tell: Callable[[str], None]
) -> None:
    job, random = gated(), Random(SEED)
    take_over(job, 60, iter(lambda: elapsed(random.uniform(0, LONGEST)), None))
    attempts = len(job.run.submissions)
    terminate_and_compare(job, job.stream.files)
    tell(f"{takeovers(job)} takeovers by standby drivers in {attempts} attempts")
