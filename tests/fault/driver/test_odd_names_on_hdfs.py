"""The life of a job whose work root, input and output lie on HDFS, below a path with signs that others escape."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.config import HaConfig
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.verification.job_drill import DrillRequest, drill
from airflow_provider_ha.jobs.verification.job_verification import ProofOptions
from airflow_provider_ha.jobs.verification.verification_records import DrillVerdict
from airflow_provider_ha.storage.open_storage import open_root
from tests.support.hdfs.hdfs_server import CLIENT, Hdfs
from tests.support.odd_names import ODD, SPARED
from tests.support.sinks.play import numbers, report
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.layered_job import LayeredJob, on_hdfs


pytestmark = [pytest.mark.spark, pytest.mark.hours, pytest.mark.timeout(900)]
QUERY = "numbers"


@pytest.fixture
def config(config: HaConfig, hdfs: Hdfs, tmp_path: Path) -> HaConfig:
    """A cluster whose work root lies there; no storage root can."""
    odd = {"storage_root": f"file://{tmp_path}/{ODD}"}
    return on_hdfs(HaConfig.model_validate({**config.model_dump(), **odd}), hdfs, tmp_path)


def test_a_job_is_submitted_lost_saved_drilled_stopped_and_restored(
    client: HaClient, hdfs: Hdfs, tmp_path: Path
) -> None:
    place = f"{hdfs.new_root()}/{SPARED}"
    source = open_root(client.config, f"{place}/in")
    job = LayeredJob(client, Stream(tmp_path), (QUERY,), conf=dict(CLIENT))

    def feed(batch: int) -> None:
        source.write(f"{batch:03d}.json", "".join(f"{json.dumps({'number': n})}\n" for n in numbers(batch)).encode())

    feed(0)
    job.submit_script(APPS / "every_sink.py", ["parquet", f"{place}/in", f"{place}/out", str(job.gates)])
    job.await_committed(1, 0)
    job.kill()
    feed(1)
    job.recover()
    job.await_committed(2, 1)

    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test").operation_id
    job.await_alive(lambda: job.operation(asked).state is OperationState.COMPLETED, "the savepoint")
    savepoint = f"savepoint-{job.operation(asked).result['savepoint_id']}"
    options = ProofOptions(heap="512m", deadline=600.0)
    proven = drill(client.context(job.job_id), DrillRequest(drill_id="d", requested_by="test", options=options))
    assert (proven.verdict, proven.reasons) == (DrillVerdict.PASSED, ())
    assert (proven.queries[QUERY].loaded, proven.queries[QUERY].started) == ("proven", "proven")

    feed(2)
    job.await_committed(2, 2)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=savepoint))
    feed(3)
    job.await_committed(3, 3)

    assert report(job) == Counter(number for batch in range(4) for number in numbers(batch))
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
