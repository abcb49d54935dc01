"""A takeover is interrupted at each of its moments, and a second standby driver takes over; the output is exact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from tests.support.spark.driver_helpers import Stream
from tests.support.spark.interrupted_takeovers import play
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(3600)]


def test_a_takeover_on_a_mounted_work_root_is_followed_by_another_one(gated: Callable[..., SupervisedJob]) -> None:
    job = gated("windows", "rows")
    play(job, job.submit)
    terminate_and_compare(job, job.stream.files)


@pytest.mark.usefixtures("jobs_on_s3")
def test_a_takeover_on_s3_is_followed_by_another_one(client: HaClient, tmp_path: Path) -> None:
    job = LayeredJob(client, Stream(tmp_path), ("windows", "rows"))
    play(job, job.submit)
    terminate_and_compare(job, job.stream.files)
