"""Who owns what a restore starts from, as the plan says it before anything is changed, on a real ZooKeeper."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_ha.checkpoints.model import Checkpoint, SavepointPointer
from airflow_provider_ha.checkpoints.ownership import ClaimMode, Owner
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.job_graph import Blob
from airflow_provider_ha.jobs.model import Run, StartPoint
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.restore.job_restore import plan_for
from tests.integration.conftest import RECORDED_BATCH
from tests.support.checkpoints.checkpoint_helpers import AT, Job
from tests.support.clusters import submit_helpers as helpers
from tests.support.spark.recorded_job import copy_live


pytestmark = pytest.mark.timeout(300)
CLAIM, NO_CLAIM = ClaimMode.CLAIM, ClaimMode.NO_CLAIM


@pytest.fixture
def flights(source: Job, tmp_path: Path) -> JobContext:
    """The job of the checkpoint, which has a savepoint as well."""
    request = replace(source.request("mine", RECORDED_BATCH), graph=checkpoint(source).graph)
    source.savepoints.create(source.leadership.commit, request, LocalTree(copy_live(tmp_path / "live")))
    return helpers.context(source.config, source.coordinator)


def checkpoint(source: Job) -> Checkpoint:
    return source.checkpoints.load(source.checkpoints.pointer(1))


def owner(job: JobContext, **values: Any) -> Owner:
    return plan_for(job, RestoreRequest(job_id=job.job_id, **{"request_id": "r", **values}))[1].owner


def claimed(job: JobContext, run: int) -> None:
    """Note that a run has claimed the savepoint, as its driver did."""
    node = job.coordinator.get(job.paths.savepoint("mine"))
    pointer = SavepointPointer.from_bytes(node.data, source=node.path).model_copy(update={"claimed_by": run})
    job.coordinator.commit(SetData(node.path, pointer.to_bytes(), node.version))


@pytest.mark.parametrize(
    ("start_from", "mode", "afterwards"),
    [
        ("savepoint-mine", NO_CLAIM, Owner.USER),
        ("savepoint-mine", CLAIM, Owner.JOB),
        ("checkpoint-1", NO_CLAIM, Owner.JOB),
        ("checkpoint-1", CLAIM, Owner.JOB),
    ],
)
def test_the_plan_says_who_owns_it_afterwards(
    flights: JobContext, start_from: str, mode: ClaimMode, afterwards: Owner
) -> None:
    assert owner(flights, start_from=start_from, claim_mode=mode) is afterwards


@pytest.mark.usefixtures("flights")
def test_what_is_another_jobs_is_not_claimed(copy: JobContext) -> None:
    with pytest.raises(RestoreRefusedError, match="belongs to job 'flights'") as caught:
        owner(copy, source_job="flights", start_from="savepoint-mine", claim_mode=CLAIM)

    assert "NO_CLAIM" in caught.value.next_step
    assert owner(copy, source_job="flights", start_from="savepoint-mine") is Owner.USER


def test_a_savepoint_is_claimed_by_one_request(flights: JobContext) -> None:
    claimed(flights, run=1)
    flights.coordinator.ensure(flights.paths.runs)
    run = Run(number=1, graph=Blob(sha256="0" * 64, size=1), start=StartPoint(), request_id="tonight#2", created_at=AT)
    flights.coordinator.commit(flights.runs.create_op(run))

    with pytest.raises(RestoreRefusedError, match="was claimed by run 1, and is claimed once"):
        owner(flights, start_from="savepoint-mine", claim_mode=CLAIM)

    assert owner(flights, start_from="savepoint-mine") is Owner.JOB
    assert owner(flights, start_from="savepoint-mine", claim_mode=CLAIM, request_id="tonight") is Owner.JOB


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize(
    ("mode", "words"),
    [("NO_CLAIM", "the user's: never changed, never removed"), ("CLAIM", "the job's: removed once newer checkpoints")],
)
def test_the_command_shows_it_to_people_and_to_programs(spark_ha: Any, mode: str, words: str) -> None:
    wanted = ("flights", "--start-from", "savepoint-mine", "--claim-mode", mode)

    shown = spark_ha("job", "restore", "--dry-run", *wanted)[1]
    document = json.loads(spark_ha("job", "restore", "--dry-run", *wanted, "--json")[1])

    assert words in shown
    assert (document["claim_mode"], document["owner"]) == (mode, "job" if mode == "CLAIM" else "user")


def test_the_list_of_savepoints_says_which_are_claimed(spark_ha: Any, flights: JobContext) -> None:
    claimed(flights, run=7)

    assert "run 7" in spark_ha("savepoint", "list", "flights")[1]
