"""Requests of a takeover to a store between the grant of the lock and the first commit, by phase.

The numbers are bounded. Later phases have some slack: what a driver reads beside its batches depends on their time.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import StartTimes
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.s3.s3_faults import FOR_EVER, Exchange, Fault, s3_proxy
from tests.support.s3.s3_server import S3Access
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import LayeredJob, on_s3


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.hours, pytest.mark.timeout(900)]
MOST = {"bind": 33, "start": 35, "commit": 110}  # 31, 21 and 67 measured
METHODS = ("GET", "HEAD", "PUT", "POST", "DELETE")
LISTED = re.compile(r"[?&]prefix=([^&]*)")


@dataclass(frozen=True)
class Request:
    """One request to the store.

    :param at: Seconds since 1970.
    :param by_spark: Whether Spark's JVM has sent it, and not the driver's Python.
    """

    at: float
    method: str
    path: str
    by_spark: bool

    @property
    def verb(self) -> str:
        """``LIST``, or the method."""
        return "LIST" if self.method == "GET" and LISTED.search(self.path) else self.method


@pytest.fixture
def requests() -> list[Request]:
    return []


@pytest.fixture
def config(config: HaConfig, s3: S3Access, requests: list[Request], tmp_path: Path) -> Iterator[HaConfig]:
    """A cluster whose jobs work in a bucket, behind a proxy that notes their requests."""

    def noting(method: str) -> Callable[[Exchange], None]:
        def note(exchange: Exchange) -> None:
            by_spark = "Hadoop" in exchange.headers["User-Agent"]
            requests.append(Request(time.time(), method, exchange.path, by_spark))
            exchange.forward()

        return note

    faults = [Fault(noting(method), method, times=FOR_EVER) for method in METHODS]
    with s3_proxy(s3.endpoint, *faults) as proxied:
        found = on_s3(config, s3, tmp_path)
        yield found.model_copy(update={"s3": s3.options(proxied)})


def test_a_takeover_has_a_bounded_number_of_requests_in_each_phase(
    client: HaClient, requests: list[Request], tmp_path: Path, tell: Callable[[str], None]
) -> None:
    job = LayeredJob(client, Stream(tmp_path), ("windows",))
    job.options = HaOptions(checkpoint_interval=0, standby_drivers=1, class_archive=False)
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    job.await_standby()
    job.stream.feed(1)

    job.jvm().kill()
    job.await_takeover(2)
    led = time.time()
    times = wait_until(lambda: committed(job), timeout=PATIENCE, what="the first commit")

    moments = [led, *(each.timestamp() for each in (times.bound_at, times.started_at, times.committed_at) if each)]
    phases = {}
    for name, (begin, end) in zip(MOST, pairwise(moments), strict=True):
        phases[name] = Counter(
            f"{'Spark' if each.by_spark else 'Python'} {each.verb}" for each in requests if begin <= each.at < end
        )
        tell(f"{name}: {phases[name].total()} requests: {dict(sorted(phases[name].items()))}")
    assert {name: of_phase.total() for name, of_phase in phases.items() if of_phase.total() > MOST[name]} == {}


def committed(job: LayeredJob) -> StartTimes | None:
    """Return the phases of the newest driver, once it has committed a batch."""
    status = job.job.snapshot().status
    is_new = status is not None and status.epoch == 2 and status.times.committed_at is not None
    return status.times if status is not None and is_new else None
