"""Scripts that cannot be made highly available are refused with a reason, and never started again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_ha.driver.ending.exit_reason import ExitCode
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import JobState
from tests.support.spark.driver_helpers import APPS, PATIENCE, ManagedJob
from tests.support.spark.supervised_job import SupervisedJob
from tests.unit.checkpoints.test_verification_sparse import write_log


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
REASONS = {
    "unnamed": 'Add .queryName("...") to its writeStream (refused.py, line ',
    "unnamed output again": "and have no name ('own-rows-",
    "twice": "two streaming queries of a run are named 'q'",
    "location": "own/a', which holds its batches up to 1, and the job has no batch of this query",
    "location as keyword": "query 'b' sets checkpointLocation '/",
    "continuous": "accept_verdicts=DUPLICATES_POSSIBLE",
    "table": "toTable() to table 't' of hudi that is not there: such a table skips a batch",
    "table elsewhere": "toTable() to table 'other.db.t' of json in another catalog: such a table skips",
    "table in the warehouse": "the script writes table 'streamed' to file:/",
    "sink": "s3://bucket/out: Spark's own manager does not create entries of a sink's log exclusively",
    "relative": "query 'g' writes to the relative path 'out'",
    "relative option": "query 'h' writes to the relative path 'file:out'",
    "batch": "the script writes to the relative path 'rows'",
    "batch option": "the script writes to the relative path 'rows'",
    "batch table": "the script writes to the relative path 'rows'",
    "stream": "the script reads a stream from the relative path 'input'",
    "stream option": "the script reads a stream from the relative path 'file:input'",
    "dstreams": "the script starts a StreamingContext: DStreams have no queries",
    "warehouse": "the script writes table 't' to /",
    "conf": "own/a', which holds its batches up to 1, and the job has no batch of this query",
}


def contents(folder: Path) -> dict[str, bytes]:
    """Return what lies in a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_script_is_refused_with_a_result_although_it_swallows_the_errors(gated: SupervisedJob, tmp_path: Path) -> None:
    report, own = tmp_path / "refused.json", write_log(tmp_path / "own" / "a", offsets=[0, 1], commits=[0, 1])
    before = contents(own.parent)

    gated.submit_script(APPS / "refused.py", [str(report), str(tmp_path / "own")])
    result = gated.await_result()

    said = json.loads(report.read_text())
    assert said.keys() == REASONS.keys()
    assert {way: reason for way, reason in REASONS.items() if reason not in said[way]} == {}
    assert result.state is JobState.FAILED
    assert "has no name" in result.reason
    assert 'Add .queryName("...")' in result.reason
    assert contents(own.parent) == before, "no location of the script is used, and none is touched"
    assert list((tmp_path / "own-absolute").glob("*.json"))
    with pytest.raises(JobStateError, match="never run again"):
        gated.recover()
    snapshot = gated.job.snapshot()
    assert snapshot.graph is None
    assert snapshot.run is not None
    (only,) = snapshot.run.submissions
    assert only.exit is not None
    assert "has no name" in only.exit.reason


@pytest.mark.long
@pytest.mark.parametrize("way", ["query", "batch"])
def test_relative_output_ends_the_run_before_a_row_is_written(gated: SupervisedJob, tmp_path: Path, way: str) -> None:
    gated.submit_script(APPS / "relative.py", [way])
    result = gated.await_result()

    assert result.state is JobState.FAILED
    assert "writes to the relative path 'out'; here that is /" in result.reason
    assert "Write it as an absolute path, for example '/data/out'" in result.reason
    assert list(tmp_path.rglob("out")) == []
    with pytest.raises(JobStateError, match="never run again"):
        gated.recover()  # no second attempt with another directory


@pytest.mark.hours
@pytest.mark.long
def test_script_that_raises_fails_without_a_result(managed: ManagedJob) -> None:
    run = managed.submit(APPS / "raises.py", [])

    code = managed.start(run).wait(PATIENCE)

    assert code == ExitCode.FAILED
    assert managed.result(run) is None
    assert "no such table" in managed.failure(run)
    # Its secrets were read, and no supervisor was there.
    assert not (managed.directory(run, 1) / "driver.json").exists()
    assert managed.coordinator.find(managed.paths.job_graph) is not None


@pytest.mark.hours
@pytest.mark.long
def test_submission_that_is_not_the_newest_does_not_lead(managed: ManagedJob) -> None:
    run = managed.submit(APPS / "raises.py", [])
    managed.resubmit(run)

    code = managed.start(run, 1).wait(PATIENCE)

    assert code == ExitCode.NOT_ADMITTED
    assert "is not the newest one" in managed.failure(run, 1)
    assert managed.working is None
