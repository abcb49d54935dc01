"""A plain script under the driver: checkpoints appear, stops are sharp, drains emit every window."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_provider_ha.checkpoints.model import CheckpointKind
from airflow_provider_ha.jobs.model import JobState, OperationKind, OperationState
from airflow_provider_ha.jobs.progress_history import read_progress
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, PATIENCE, ManagedJob, Stream, finished
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
QUERIES = ("windows", "rows")
AGES_AGO = datetime(2024, 1, 1, tzinfo=timezone.utc)


@pytest.mark.long  # the quick suite saves and stops a job in tests/fault/driver/test_life_of_a_job.py
def test_running_script_publishes_checkpoints_and_suspends_at_a_batch_boundary(
    managed: ManagedJob, stream: Stream
) -> None:
    stream.feed(8)
    run = managed.submit(APPS / "counts.py", [*stream.arguments, "0.3"])
    process = managed.start(run)
    wait_until(lambda: managed.newest_checkpoint(), timeout=PATIENCE, what="the first checkpoint")
    wait_until(lambda: managed.status and managed.status.state is JobState.RUNNING, timeout=PATIENCE, what="RUNNING")
    managed.await_consumed(process, QUERIES, 2)

    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="suspend", savepoint=True))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert process.wait(PATIENCE) == 0, managed.log(run)
    for query in QUERIES:
        now = managed.progress(query)
        assert now.planned == now.committed >= 2
    result = finished(managed.result(run))
    newest = managed.newest_checkpoint()
    assert newest is not None
    assert (newest.number, newest.reason) == (result.checkpoint, CheckpointKind.STOP)
    assert newest.cut == {query: managed.progress(query).committed for query in QUERIES}
    assert answer.result["checkpoint"] == newest.number
    assert answer.result["savepoint_id"]
    assert managed.coordinator.find(managed.paths.job_graph) is None
    assert managed.coordinator.find(managed.paths.leader) is None
    known = {point.query: point for point in read_progress(managed.store, managed.job_id, since=AGES_AGO)}
    assert known.keys() == set(QUERIES)
    for query, point in known.items():
        assert 0 < point.batch <= managed.progress(query).committed
        assert point.longest_seconds > 0
    assert managed.status is not None
    assert all(query.batch_seconds and query.committed_at for query in managed.status.queries.values())
    assert managed.status.queries["rows"].input_rows == 6  # one file a batch


@pytest.mark.hours
@pytest.mark.long  # the quick suite drains after a kill, in tests/fault/driver
def test_terminate_emits_every_open_window_and_keeps_the_sharp_checkpoint(managed: ManagedJob, stream: Stream) -> None:
    stream.feed(5)
    run = managed.submit(APPS / "counts.py", [*stream.arguments, "0"])
    process = managed.start(run)
    managed.await_consumed(process, QUERIES, 4)
    assert (managed.working, stream.windows().keys()) != (None, stream.expected_windows(5).keys())

    answer = managed.await_operation(managed.ask(OperationKind.STOP, mode="terminate"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert process.wait(PATIENCE) == 0, managed.log(run)
    assert stream.windows() == stream.expected_windows(5)
    result = finished(managed.result(run))
    newest = managed.newest_checkpoint()
    assert newest is not None
    assert newest.number == result.checkpoint
    for query in QUERIES:
        assert result.drained[query].batch == newest.cut[query] + 1
    assert result.drained["windows"].sink_path == str(stream.output)
    assert result.drained["windows"].sink_entry_sha256
    assert managed.working is not None
    assert not managed.working.with_name(managed.working.name + ".drain").exists()


@pytest.mark.hours
@pytest.mark.long
def test_script_that_ends_by_itself_finishes_with_a_sharp_checkpoint(managed: ManagedJob, stream: Stream) -> None:
    stream.feed(3)
    run = managed.submit(APPS / "available_now.py", [str(stream.source), str(stream.output)])

    code = managed.start(run).wait(PATIENCE)

    assert code == 0, managed.log(run)
    assert finished(managed.result(run)).reason == "the script ended"
    newest = managed.newest_checkpoint()
    assert newest is not None
    assert newest.reason is CheckpointKind.STOP
    assert newest.cut == {"copy": managed.progress("copy").planned}


@pytest.mark.hours
@pytest.mark.long
def test_the_end_of_a_script_drops_a_query_that_it_was_restored_with_and_never_started(
    gated: SupervisedJob,
) -> None:
    """The script was changed with the new run; a stop in between keeps what the script has not come to yet."""
    gated.stream.feed(2)
    gated.submit()
    gated.await_read(1)
    gated.stop("suspend")
    assert gated.await_result().state is JobState.FINISHED

    copies = str(gated.stream.root / "copies")
    gated.submit_script(APPS / "available_now.py", [str(gated.stream.source), copies])

    result = gated.await_result()
    assert result.state is JobState.FINISHED
    assert "it never started 'windows', which the run was restored with" in result.reason
    assert gated.job.checkpoints.pointer(result.checkpoint or 0).cut.keys() == {"copy"}
    assert "it never started 'windows'" in gated.log(newest_only=True)
