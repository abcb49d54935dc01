"""Drivers that are really killed: whatever the moment, the next epoch goes on and the output is exact."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.driver.exit_codes import ExitCode
from airflow_provider_ha.jobs.model import OperationKind, OperationState
from airflow_provider_ha.testing.waiting import wait_until
from tests.driver_helpers import APPS, PATIENCE, ManagedJob, Stream, finished


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
QUERIES = ("windows", "rows")


def sink_has(output: Path, batch: int) -> bool:
    log = output / "_spark_metadata"
    return (log / str(batch)).exists() or (log / f"{batch}.compact").exists()


def test_kill_between_sink_log_and_commit_restarts_and_the_output_is_exact(job: ManagedJob, stream: Stream) -> None:
    """Without the noop run Spark never starts again: "CheckpointInfo length: 0" (main-job-spikes section 0)."""
    stream.feed(6)
    run = job.submit(APPS / "counts.py", [*stream.arguments, "0"])
    process = job.start(run)
    wait_until(lambda: sink_has(stream.output, 3), timeout=PATIENCE, what="batch 3 in the sink's log", interval=0.001)
    job.kill(process)
    job_before = job.working
    # The kill may come after the commit: then the window is made by hand, as the kill would have left it.
    assert job_before is not None
    for entry in sorted((job_before / "windows" / "commits").iterdir()):
        if (
            entry.name.strip(".").removesuffix(".crc").isdigit()
            and int(entry.name.strip(".").removesuffix(".crc")) >= 3
        ):
            entry.unlink()
    assert job.progress("windows").committed == 2

    attempt = job.resubmit(run)
    process = job.start(run, attempt)
    wait_until(lambda: job.working != job_before, timeout=PATIENCE, what="the next epoch's working directory")
    job.await_consumed(process, QUERIES, 5)
    answer = job.await_operation(job.ask(OperationKind.STOP, mode="terminate"))

    assert answer.state is OperationState.COMPLETED, answer.error
    assert process.wait(PATIENCE) == 0
    finished(job.result(run))
    assert "batch 3 is executed again into noop" in job.log(run, attempt)
    assert stream.windows() == stream.expected_windows(6)
    assert stream.seen() == stream.expected_rows(6)
    assert not job_before.exists()
    assert job_before.with_name(job_before.name + ".dead").is_dir()


def test_submission_that_is_not_the_newest_does_not_lead(job: ManagedJob, stream: Stream) -> None:
    stream.feed(1)
    run = job.submit(APPS / "counts.py", [*stream.arguments, "0"])
    job.resubmit(run)

    code = job.start(run, 1).wait(PATIENCE)

    assert code == ExitCode.NOT_ADMITTED
    assert "is not the newest one" in job.failure(run, 1)
    assert job.working is None
