"""What the leader of a cluster does with one job must not end its care for the others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.errors import JobStateError, NotConnectedError
from airflow_provider_ha.fleet import reconciler
from airflow_provider_ha.fleet.cluster_leader import ClusterLeader
from airflow_provider_ha.fleet.reconciler import ReconcileTimings
from airflow_provider_ha.jobs.removal.cleanup import clean_up
from tests.support.clusters.coordination_helpers import HeldClock


@pytest.fixture
def leader(monkeypatch: pytest.MonkeyPatch) -> ClusterLeader:
    client: Any = SimpleNamespace(clock=HeldClock())
    leader = ClusterLeader(client, by="test", patience=ReconcileTimings(poll=2.0))
    monkeypatch.setattr(leader, "_arm", lambda job_id: None)
    return leader


def test_jobs_that_cannot_be_listed_now_are_those_of_the_last_list(
    leader: ClusterLeader, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    leader._agenda.expect(["flights"])

    def unlisted(**_: object) -> list[str]:
        raise NotConnectedError("no server answers")

    monkeypatch.setattr(leader._client, "list_jobs", unlisted, raising=False)

    leader._expect_jobs()

    assert "the jobs cannot be listed now: no server answers" in caplog.text
    assert list(leader._agenda.take()) == ["flights"]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (NotConnectedError("no server answers"), "job flights is read again: no server answers"),
        (ZeroDivisionError("a mistake"), "job flights could not be reconciled"),
    ],
    ids=["outage", "mistake"],
)
def test_a_job_that_could_not_be_read_is_read_again_after_a_poll(
    leader: ClusterLeader,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    said: str,
) -> None:
    clock: Any = leader._client.clock

    def fail(job_id: str) -> None:
        raise error

    monkeypatch.setattr(leader, "attend", fail)
    leader._agenda.expect(["flights"])
    assert list(leader._agenda.take()) == ["flights"]

    leader._attend_watched("flights", None)

    assert said in caplog.text
    assert list(leader._agenda.take()) == []
    clock.time += 2.0
    assert list(leader._agenda.take()) == ["flights"]


def test_a_recovery_is_told_without_the_lost_log_when_the_run_cannot_be_read() -> None:
    def unread(number: int) -> None:
        raise NotConnectedError("no server answers")

    job: Any = SimpleNamespace(runs=SimpleNamespace(get=unread))
    run: Any = SimpleNamespace(run=1, attempt=2)

    assert reconciler._lost_log(job, run) == ""


def test_a_job_without_a_run_has_nothing_to_clean_up() -> None:
    job: Any = SimpleNamespace(job_id="flights", runs=SimpleNamespace(numbers=list))

    with pytest.raises(JobStateError, match="'flights' has no run"):
        clean_up(job)
