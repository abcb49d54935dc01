"""Which job writes to which output, on the fake ensemble."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.coordination.paths import ClusterPaths
from airflow_provider_ha.errors import ApplicationRefusedError, OutcomeUnknownError
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.runs.output_claims import OutputClaims
from tests.support.fake import FakeEnsemble


PLACE = "s3://bucket/out"
CLUSTER = ClusterPaths("spark-ha", "c")


@pytest.fixture
def coordinator() -> Coordinator:
    config = HaConfig.build(zookeeper="fake:1", storage_root="file:///nowhere")
    return FakeEnsemble().connect(config)


def claims_of(coordinator: Coordinator, job_id: str, run: int = 1, commit: Any = None) -> OutputClaims:
    """Return the claims of a run that has no result."""
    paths = CLUSTER.job(job_id)
    coordinator.ensure(paths.run(run))
    return OutputClaims(coordinator, paths, commit or coordinator.commit, run)


def end(coordinator: Coordinator, job_id: str, run: int = 1) -> None:
    """Give a run its result."""
    result = RunResult(state=JobState.FINISHED, epoch=1, at=datetime(2026, 1, 1, tzinfo=timezone.utc))
    coordinator.commit(Create(CLUSTER.job(job_id).run_result(run), result.to_bytes()))


def test_an_output_of_another_job_that_is_not_over_is_refused_with_its_name(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")

    with pytest.raises(ApplicationRefusedError, match=r"query 'rows' of job 'first', whose run 1 is not over"):
        claims_of(coordinator, "second").claim(PLACE, "windows")


def test_an_output_goes_to_the_next_job_when_the_run_that_had_it_is_over(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")
    end(coordinator, "first")
    second = claims_of(coordinator, "second")

    second.claim(PLACE, "rows")

    with pytest.raises(ApplicationRefusedError, match="job 'second'"):
        claims_of(coordinator, "first", run=2).claim(PLACE, "rows")


def test_a_claim_of_a_run_that_was_forgotten_hinders_no_job(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")
    coordinator.commit(Delete(CLUSTER.job("first").run(1)))

    claims_of(coordinator, "second").claim(PLACE, "rows")


def test_later_runs_and_epochs_of_the_job_keep_its_outputs(coordinator: Coordinator) -> None:
    for run in (1, 1, 2):
        claims_of(coordinator, "first", run).claim(PLACE, "rows")

    with pytest.raises(ApplicationRefusedError, match="whose run 2 is not over"):
        claims_of(coordinator, "second").claim(PLACE, "rows")


def test_other_outputs_are_free(coordinator: Coordinator) -> None:
    claims_of(coordinator, "first").claim(PLACE, "rows")

    claims_of(coordinator, "second").claim(f"{PLACE}-2", "rows")


def test_a_claim_whose_answer_was_lost_is_found_again(coordinator: Coordinator) -> None:
    asked = []

    def losing(*ops: Any, **more: Any) -> list[int]:
        asked.append(ops)
        coordinator.commit(*ops, **more)
        raise OutcomeUnknownError("no answer")

    claims_of(coordinator, "first", commit=losing).claim(PLACE, "rows")

    assert len(asked) == 1


def test_of_two_jobs_that_claim_an_output_at_once_one_is_refused(coordinator: Coordinator) -> None:
    second = claims_of(coordinator, "second")

    def overtaken(*ops: Any, **more: Any) -> list[int]:
        second.claim(PLACE, "rows")
        return coordinator.commit(*ops, **more)

    with pytest.raises(ApplicationRefusedError, match="job 'second'"):
        claims_of(coordinator, "first", commit=overtaken).claim(PLACE, "rows")


def test_of_two_jobs_that_take_over_an_output_at_once_one_is_refused(coordinator: Coordinator) -> None:
    """What is there was read before: the version of that must still be the one."""
    claims_of(coordinator, "old").claim(PLACE, "rows")
    end(coordinator, "old")
    second = claims_of(coordinator, "second")

    def overtaken(*ops: Any, **more: Any) -> list[int]:
        second.claim(PLACE, "rows")
        return coordinator.commit(*ops, **more)

    with pytest.raises(ApplicationRefusedError, match="job 'second'"):
        claims_of(coordinator, "first", commit=overtaken).claim(PLACE, "rows")
