"""At which host the metrics of a driver can be read when they are served at a loopback."""

from __future__ import annotations

import pytest

from airflow_provider_ha.api.documents.job import out_of_reach
from airflow_provider_ha.jobs.model import LeaderInfo
from airflow_provider_ha.jobs.runs.run_store import RunView, SubmissionView
from airflow_provider_ha.jobs.runs.submissions import DriverHandle, SubmissionStarted
from airflow_provider_ha.jobs.status import JobStatus
from tests.support.clusters.jobs_helpers import a_leader, a_run, a_status, a_submission


EVERYWHERE = ["127.0.0.1:9400", "127.0.1.1:9400", "localhost:9400", "[::1]:9400"]


def submission(attempt: int, host: str, *, zxid: int) -> SubmissionView:
    started = SubmissionStarted(handle=DriverHandle(engine="local", log_uri=f"file://{host}/driver.log"))
    return SubmissionView(submission=a_submission(attempt), started=started, created_zxid=zxid)


def snapshot(
    *submissions: SubmissionView, leader: LeaderInfo | None = None, place: str = "127.0.0.1:9400"
) -> JobStatus:
    """A job whose epoch 1 began with transaction 20, and whose driver has said where its metrics are."""
    return JobStatus(
        job_id="flights",
        leader=leader,
        epoch=1,
        epoch_zxid=20,
        run=RunView(run=a_run(), submissions=submissions),
        status=a_status().model_copy(update={"metrics": place}),
    )


@pytest.mark.parametrize("place", EVERYWHERE)
def test_a_loopback_is_read_on_the_host_of_the_leader_alone(place: str) -> None:
    led = snapshot(leader=a_leader(), place=place)

    assert out_of_reach(led, "host") == ""
    assert f"{place} of host host, which host-2 cannot reach" in out_of_reach(led, "host-2")


@pytest.mark.parametrize("place", ["host-1:9400", "192.0.2.1:9400", "[2001:db8::1]:9400"])
def test_any_other_address_is_read_from_everywhere(place: str) -> None:
    assert out_of_reach(snapshot(leader=a_leader(), place=place), "host-2") == ""


def test_a_lost_driver_is_a_target_of_the_host_that_it_was_on_while_the_next_one_waits_elsewhere() -> None:
    lost = snapshot(submission(1, "host-1", zxid=10), submission(2, "host-2", zxid=30))

    assert out_of_reach(lost, "host-1") == ""
    assert "of host host-1" in out_of_reach(lost, "host-2")


def test_the_place_of_an_earlier_leader_is_on_a_host_that_is_not_known() -> None:
    taken_over = snapshot(submission(1, "host", zxid=10), leader=a_leader(2))

    assert "of a host that is not known" in out_of_reach(taken_over, "host")
