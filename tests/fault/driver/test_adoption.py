"""A plain query that is really killed goes on as a managed job, and a claim outlives the kill of its driver."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.checkpoints.ownership import ClaimMode
from airflow_provider_ha.checkpoints.spark.checkpoint_layout import progress
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import JobSpec, RestoreRequest, Start
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, CONF, PATIENCE, Stream
from tests.support.spark.supervised_job import FAST_POLL, SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1800)]
SCRIPT = APPS / "plain.py"


def run_plain_and_kill(stream: Stream, checkpoint: Path, batch: int) -> None:
    """Run the script as its user did, without any of this package, and kill it once its sink has *batch*."""
    options = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    with (stream.root / "plain.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(stream.source), str(stream.output), str(checkpoint)],
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": " ".join(_quoted(options))},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    entry = stream.output / "_spark_metadata" / str(batch)

    def written() -> bool:
        assert process.poll() is None, (stream.root / "plain.log").read_text(errors="replace")[-3000:]
        return entry.exists()

    try:
        wait_until(written, timeout=PATIENCE, what=f"batch {batch} in the sink", interval=FAST_POLL)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    # The kill may have come after the commit, or in the next batch: then the window is made by hand, as an earlier kill
    # would have left it.
    first_of = {checkpoint / "commits": batch, checkpoint / "offsets": batch + 1, entry.parent: batch + 1}
    for directory, first in first_of.items():
        for path in directory.iterdir():
            number = path.name.strip(".").split(".")[0]
            if number.isdigit() and int(number) >= first:
                path.unlink()


def _quoted(options: list[str]) -> list[str]:
    return [*(f'"{word}"' if " " in word else word for word in options), "pyspark-shell"]


def test_a_plain_query_that_was_killed_goes_on_as_a_managed_job(client: HaClient, tmp_path: Path) -> None:
    """Killed between its sink and its commit; adopted with CLAIM; killed again; no row is lost and none is twice.

    The script stays as it is: it names the checkpoint location that it had. So a submission without a word is refused.
    """
    stream, checkpoint = Stream(tmp_path), tmp_path / "plain" / "windows"
    stream.feed(3)
    run_plain_and_kill(stream, checkpoint, batch=2)
    assert (progress(LocalTree(checkpoint)).planned, progress(LocalTree(checkpoint)).committed) == (2, 1)
    job = SupervisedJob(client, stream)
    sinks = {"windows": str(stream.output)}
    wanted = RestoreRequest(job_id=job.job_id, request_id="r", adopt={"windows": str(checkpoint)}, sinks=sinks)
    plan = job.job.plan_restore(wanted)
    assert (plan.verdict, [entry.batch for entry in plan.queries["windows"].replay]) == (Verdict.SAFE, [2])

    arguments = [str(stream.source), str(stream.output), str(checkpoint)]
    job.submit_script(SCRIPT, arguments)
    refused = job.await_result()
    assert refused.state is JobState.FAILED
    assert f"start_from={{'windows': '{checkpoint}'}}, sinks={{'windows': '{stream.output}'}}" in refused.reason
    assert "start_from='fresh'" in refused.reason
    job.job.submit(
        JobSpec(
            job_id=job.job_id,
            request_id=new_id(),
            application=str(SCRIPT),
            arguments=arguments,
            conf={key: value for key, value in CONF.items() if key not in ("spark.master", "spark.driver.memory")},
            master="local[2]",
            driver_memory="1g",
            ha=HaOptions(checkpoint_interval=0, restart_in_place=False, restart_delay=0, retained_checkpoints=1),
            start_from=str(checkpoint),
            start=Start(sinks=sinks, claim_mode=ClaimMode.CLAIM),
        )
    )
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader of the adopted run")
    epoch = job.job.snapshot().epoch  # the refused run has had some
    job.await_committed(epoch, 2)
    assert "batch 2 is executed again into noop" in job.log()
    job.kill()
    job.recover()
    stream.feed(2)
    job.await_committed(epoch + 1, 4)
    job.stop("terminate")
    result = job.await_result()

    assert result.state is JobState.FINISHED, result.reason
    assert stream.windows() == stream.expected_windows(5)
    assert not checkpoint.exists()
    assert client.coordinator.children(client.paths.to_delete) == []
