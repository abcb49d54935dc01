"""Savepoints on a schedule, a drill, a stop with a savepoint and templated arguments: through DAGs, on a real Airflow.

All tests look at one job, which the last but one of them stops, and the last one deletes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.jobs.model import JobState
from tests.system.harness.rest import DagRun
from tests.system.harness.servers import REPOSITORY
from tests.system.small_airflow import PATIENCE, CountedJob, SmallAirflow


pytestmark = [pytest.mark.system, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]

JOB_ID = "told"
RETAIN = 2
WORDS = "zwei Wörter: a=b # {c} \\ 'd'"


@pytest.fixture(scope="module")
def airflow() -> Iterator[SmallAirflow]:
    """An Airflow with the DAGs that we ship."""
    servers = SmallAirflow(REPOSITORY / "build" / "test-airflow-savepoints", shipped_dags=True)
    dags = ("submit_told", "savepoint_by_hand", "end_of_life")
    with servers.running(*dags, "scheduled_savepoint", "restore_drill", "stop_job"):
        yield servers


@dataclass(frozen=True, slots=True)
class ToldJob:
    """The job, as Airflow's users and as ZooKeeper and the disk see it.

    :param submission: The DAG run that follows it.
    """

    airflow: SmallAirflow
    submission: DagRun
    client: JobClient
    counted: CountedJob

    def run(self, dag_id: str, run_id: str, task_id: str, **conf: Any) -> tuple[DagRun, dict[str, Any]]:
        """Run a DAG for the job to its success; returns the run and what its task returned."""
        run = self.airflow.api.trigger(dag_id, run_id, {"job_id": JOB_ID, **conf})
        self.airflow.api.wait_for_run(run, timeout=PATIENCE)
        return run, self.airflow.api.xcom(run, task_id)

    def scheduled(self, number: int, *, schedule: str, retain: int) -> dict[str, Any]:
        """Take a savepoint as the schedule does."""
        run_id = f"{schedule}-{number}"
        return self.run("scheduled_savepoint", run_id, "savepoint", schedule=schedule, retain=retain)[1]

    def savepoints(self) -> set[str]:
        """Return the savepoints that ZooKeeper has."""
        return set(self.counted.coordinator.children(self.counted.paths.savepoints))

    def savepoints_on_disk(self) -> set[str]:
        """Return everything that lies where savepoints lie, what is hidden or half removed included."""
        return {path.name for path in self.client.savepoints.directory("any").parent.iterdir()}

    def damaged(self) -> dict[str, list[str]]:
        """Read every byte of every savepoint again; return what is wrong."""
        found = {name: self.client.savepoints.verify(name) for name in self.savepoints()}
        return {name: problems for name, problems in found.items() if problems}


@pytest.fixture(scope="module")
def job(airflow: SmallAirflow) -> Iterator[ToldJob]:
    """The job, running."""
    with HaClient.open(airflow.config) as client:
        conf = {"job_id": JOB_ID, "report": str(airflow.home / "report.json"), "words": WORDS, "partitions": 3}
        submission = airflow.api.trigger("submit_told", "submission", conf)
        counted = CountedJob.of(airflow, client.coordinator, JOB_ID)
        counted.wait_until_running()
        yield ToldJob(airflow, submission, client.job(JOB_ID), counted)


def test_templated_arguments_and_conf_arrive_at_the_application(job: ToldJob) -> None:
    told = json.loads((job.airflow.home / "report.json").read_text(encoding="utf-8"))

    assert told["arguments"] == ["--run=submission", WORDS]
    assert told["conf"] == {"spark.sql.shuffle.partitions": "3", "spark.told.words": WORDS}


def test_a_schedule_disposes_of_its_own_oldest_savepoints_and_of_nothing_else(job: ToldJob) -> None:
    _, by_hand = job.run("savepoint_by_hand", "oldest-of-all", "savepoint")

    made = [job.scheduled(number, schedule="often", retain=RETAIN) for number in range(RETAIN + 2)]
    other = job.scheduled(0, schedule="rarely", retain=1)

    ids = [savepoint["savepoint_id"] for savepoint in made]
    assert [savepoint["disposed"] for savepoint in made] == [[], [], [ids[0]], [ids[1]]]
    assert other["disposed"] == []
    kept = {by_hand["savepoint_id"], *ids[-RETAIN:], other["savepoint_id"]}
    assert job.savepoints() == kept
    assert job.savepoints_on_disk() == kept
    assert job.damaged() == {}
    assert job.counted.result() is None, "the job went on"


def test_a_drill_restores_the_newest_savepoint_while_the_job_runs(job: ToldJob) -> None:
    _, newest = job.run("savepoint_by_hand", "to-be-drilled", "savepoint")
    before = job.counted.counts()

    _, drilled = job.run("restore_drill", "weekly", "drill", max_age=1)

    assert (drilled["verdict"], drilled["source"]) == ("PASSED", f"savepoint-{newest['savepoint_id']}")
    assert drilled["queries"]["ticks"]["started"] == "proven"
    assert 0 < drilled["age_seconds"] < PATIENCE
    assert drilled["total_seconds"] > 0
    assert job.counted.counts() == before, "no run, no epoch, no operation and no driver more"
    assert job.counted.result() is None, "the job went on"


def test_a_stop_with_savepoint_leaves_a_sharp_checkpoint_and_a_verified_savepoint(job: ToldJob) -> None:
    run, result = job.run("stop_job", "stop", "stop", mode="suspend", savepoint=True)

    ended = job.counted.snapshot().run
    assert ended is not None
    assert ended.result is not None
    assert ended.result.state is JobState.FINISHED
    stop = job.airflow.api.request("GET", f"{run.path}/taskInstances/stop")
    assert ended.result.at < datetime.fromisoformat(stop["end_date"]), "the run was over before the task was"

    pointer = job.client.checkpoints.pointer(result["checkpoint"])
    checkpoint = job.client.checkpoints.load(pointer)
    assert (checkpoint.reason, ended.result.checkpoint) == (CheckpointKind.STOP, checkpoint.number)
    assert job.counted.snapshot().latest_checkpoint == checkpoint.number
    assert checkpoint.pin is not None
    standing = progress(LocalTree(job.airflow.config.work_path / checkpoint.pin / "ticks"))
    assert standing.planned == standing.committed == pointer.cut["ticks"], "nothing is in flight"

    savepoint = job.client.savepoints.load(result["savepoint_id"])
    assert {query: cut.batch for query, cut in savepoint.queries.items()} == pointer.cut
    assert job.client.savepoints.verify(savepoint.savepoint_id) == []

    job.airflow.api.wait_for_run(job.submission, timeout=PATIENCE)
    assert job.airflow.api.xcom(job.submission, "submit")["state"] == "FINISHED"


def test_a_dag_takes_a_checkpoint_cancels_with_a_savepoint_and_deletes_the_job(job: ToldJob) -> None:
    conf = {"job_id": JOB_ID, "report": str(job.airflow.home / "second.json"), "words": WORDS, "partitions": 3}
    run = job.airflow.api.trigger("end_of_life", "last", conf)
    job.airflow.api.wait_for_run(run, timeout=PATIENCE)

    submitted, taken, canceled, deleted = (
        job.airflow.api.xcom(run, task) for task in ("submit", "checkpoint", "cancel", "delete")
    )
    assert (submitted["run"], taken["run"], canceled["run"]) == (2, 2, 2)
    assert taken["checkpoint"] >= 1
    assert (deleted["state"], deleted["keep_savepoints"], deleted["waiting"]) == ("deleted", True, [])
    assert not job.counted.drivers()
    assert job.counted.coordinator.find(job.counted.paths.run(2)) is None
    assert canceled["savepoint_id"] in job.savepoints()
    assert job.damaged() == {}
