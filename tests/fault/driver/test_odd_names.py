"""The whole life of a job whose roots, application, input and output lie below a path with signs that others escape."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.submit.requests import LATEST
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import ProofOptions
from airflow_provider_ha.jobs.verification.verification_records import DrillVerdict
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.odd_names import ODD, SPARED
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob, terminate_and_compare


PROOF = ProofOptions(heap="512m", deadline=600.0)
pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def config(config: HaConfig, tmp_path: Path) -> HaConfig:
    """A cluster with roots of that name."""
    return HaConfig.model_validate({**config.model_dump(), "storage_root": f"file://{tmp_path}/{ODD}"})


def submit(job: SupervisedJob, start_from: str) -> None:
    """Submit the gated script from such a path as well."""
    script = job.stream.root / "gated.py"
    shutil.copy(APPS / "gated.py", script)
    job.submit_script(script, [*job.stream.arguments, str(job.gates), ",".join(job.queries)], start_from=start_from)


def test_a_job_is_submitted_lost_saved_stopped_and_restored(client: HaClient, tmp_path: Path) -> None:
    (tmp_path / SPARED).mkdir()
    job = SupervisedJob(client, Stream(tmp_path / SPARED))
    job.stream.feed(2)
    submit(job, LATEST)
    job.await_committed(1, 1)
    job.await_alive(lambda: job.job.snapshot().state is JobState.RUNNING, "the job to be RUNNING")
    job.kill()
    job.stream.feed(1)
    job.recover()
    job.await_read(2)

    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test").operation_id
    job.await_alive(lambda: job.operation(asked).state is OperationState.COMPLETED, "the savepoint")
    stopped = job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    assert job.operation(stopped).state is OperationState.COMPLETED
    job.stream.feed(1)
    submit(job, f"savepoint-{job.operation(asked).result['savepoint_id']}")
    wait_until(lambda: job.progress(3).committed >= 0, timeout=PATIENCE, what="a batch of the restored run")
    job.await_read(3)

    terminate_and_compare(job, 4)
    assert {path.name for path in tmp_path.iterdir() if "rk" in path.name} == {ODD, SPARED}
    # The application below that path again, on a copy below the work root, with the input below the other one.
    proven = drill(client.context(job.job_id), DrillRequest(drill_id="weekly", requested_by="test", options=PROOF))
    assert (proven.verdict, proven.reasons) == (DrillVerdict.PASSED, ())
    answer = proven.queries["windows"]
    assert (answer.loaded, answer.started) == ("proven", "proven"), answer


ELSEWHERE = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
writer = spark.readStream.text(sys.argv[1]).writeStream.queryName("windows").format("json").option("path", sys.argv[2])
writer._jwrite.option("checkpointLocation", sys.argv[3])  # past everything that a script calls
writer.start().awaitTermination()
"""


@pytest.mark.hours
def test_a_query_that_commits_elsewhere_ends_its_run_with_the_reason(client: HaClient, tmp_path: Path) -> None:
    (tmp_path / SPARED).mkdir()
    job = SupervisedJob(client, Stream(tmp_path / SPARED))
    job.stream.feed(1)
    script = tmp_path / SPARED / "elsewhere.py"
    script.write_text(ELSEWHERE)

    job.submit_script(script, [str(job.stream.source), str(job.stream.output), str(tmp_path / "elsewhere")])

    result = job.await_result()
    assert result.state is JobState.FAILED
    assert "'windows' has committed batch 0 in " in result.reason
    assert job.progress(1).committed == -1
    assert job.job.snapshot().state is JobState.FAILED
