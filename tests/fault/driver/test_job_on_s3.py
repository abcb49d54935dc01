"""A job whose checkpoints are on S3: killed at the moments that matter, stopped, restored; the output is exact."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.jobs.model import JobState, OperationState
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.s3.s3_server import S3Access
from tests.support.s3.s3a_jars import s3a_jars
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.layered_job import CHANGELOG, HDFS_BACKED, PROVIDER, LayeredJob
from tests.support.spark.supervised_job import compare, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.usefixtures("jobs_on_s3")]
Gated = Callable[..., LayeredJob]


@pytest.fixture
def gated(client: HaClient, tmp_path: Path) -> Gated:
    """Make the job with the gated script; it is not submitted yet."""
    return lambda *queries: LayeredJob(client, Stream(tmp_path), queries or ("windows",))


def kill_in_the_window(job: LayeredJob, epoch: int, batch: int) -> None:
    """Kill between ``_spark_metadata/<batch>`` and ``commits/<batch>``; makes the window where the kill came later."""
    job.await_sink(batch)
    job.kill()
    directory = f"{job.key(epoch)}/windows"
    for log, first in (("commits", batch), ("offsets", batch + 1)):
        for name in job.files.names(f"{directory}/{log}/"):
            if int(name) >= first:
                job.files.delete(f"{directory}/{log}/{name}")
    assert (job.progress(epoch).planned, job.progress(epoch).committed) == (batch, batch - 1)


def await_output(job: LayeredJob, files: int) -> None:
    """Wait until the windows of so many files are out, each once."""
    expected, log = job.stream.expected_windows(files), job.stream.output / "_spark_metadata" / "0"
    job.await_alive(lambda: log.exists() and job.stream.windows() == expected, f"the windows of {files} files")


@pytest.mark.long
def test_a_killed_driver_is_followed_by_one_that_goes_on_from_its_base(gated: Gated) -> None:
    """Between sink log and commit; the new driver has no file of its predecessor but by name."""
    job = gated()
    job.stream.feed(3)
    job.submit()
    kill_in_the_window(job, epoch=1, batch=2)
    before = job.content(1)

    job.recover()
    job.stream.feed(1)
    await_output(job, 3)

    assert "batch 2 is executed again into noop" in job.log(newest_only=True)
    after = job.content(1)
    assert {name: after[name] for name in before} == before


@pytest.mark.long
@pytest.mark.hours
@pytest.mark.parametrize(
    "conf",
    [
        pytest.param(CHANGELOG, id="changelog"),
        pytest.param({PROVIDER: HDFS_BACKED}, id="hdfs"),
    ],
)
def test_kills_in_a_row_leave_an_exact_output(gated: Gated, conf: dict[str, str]) -> None:
    """Each in the window, then one in the middle of a batch; the directory of each epoch stays as it was left."""
    job = gated("windows", "rows")
    job.conf |= conf
    job.stream.feed(3)
    job.submit()
    kill_in_the_window(job, epoch=1, batch=2)
    left = job.content(1)
    job.recover()
    job.await_read(2)
    job.close_gate("plan")
    job.stream.feed(1)
    job.await_held("plan")
    job.kill()
    left |= job.content(2)

    job.open_gate("plan")
    job.recover()
    job.stream.feed(1)
    job.await_read(3)

    terminate_and_compare(job, 5)
    now = job.content(1) | job.content(2)
    assert {name: now[name] for name in left} == left


@pytest.mark.long
@pytest.mark.hours
def test_a_drain_that_died_is_taken_back_and_made_again(gated: Gated) -> None:
    """The last batch is in the sink, and neither in a checkpoint nor in a result."""
    job = gated()
    job.stream.feed(3)
    job.submit()
    await_output(job, 2)
    job.stop("terminate")
    job.await_alive(lambda: job.drained(1) >= 0, "the fork of the drain")
    job.await_sink(job.drained(1))
    job.kill()

    job.recover()

    assert job.await_result().reason == "terminated"
    assert "of an unfinished drain was set aside in its sink" in job.log(newest_only=True)
    compare(job, 3)


@pytest.mark.hours
@pytest.mark.long
def test_a_savepoint_of_a_running_job_is_restored_with_its_records(gated: Gated) -> None:
    job = gated("windows", "rows")
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    asked = job.job.request_savepoint(operation_id=new_id(), requested_by="test")
    job.await_alive(lambda: job.operation(asked.operation_id).state.final, "the savepoint")
    made = job.operation(asked.operation_id)
    assert made.state is OperationState.COMPLETED, made
    job.stream.feed(2)
    job.await_read(1)
    job.stop("suspend")
    job.await_result()

    savepoint = str(made.result["savepoint_id"])
    assert job.job.savepoints.verify(savepoint) == []
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"savepoint-{savepoint}"))
    job.stream.feed(1)
    job.await_read(2)  # by both queries: their replays are over

    terminate_and_compare(job, 5)


def shown_by(process: psutil.Process) -> str:
    """Return command line and environment of a process; nothing of one that has ended."""
    try:
        return " ".join([*process.cmdline(), *process.environ().values()])
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


@pytest.mark.long
def test_the_keys_of_the_bucket_are_on_no_disk_and_no_command_line(gated: Gated, s3: S3Access, tmp_path: Path) -> None:
    job = gated()
    job.stream.feed(1)
    job.submit()
    job.await_committed(1, 0)

    secret = s3.secret_key
    processes = [job.supervisor(), *job.driver()]
    assert not [each for each in processes if secret in shown_by(each)]
    files = (path for path in tmp_path.rglob("*") if path.is_file())
    assert not [path for path in files if secret.encode() in path.read_bytes()]


@pytest.mark.long
def test_a_driver_without_s3a_changes_nothing_and_says_what_is_missing(gated: Gated) -> None:
    job = gated()
    job.conf = {}
    job.stream.feed(1)

    job.submit()

    result = job.await_result()
    assert result.state is JobState.FAILED
    assert "the driver's JVM cannot open s3a://" in result.reason
    assert "hadoop-aws" in result.reason
    assert job.key(1) is None


@pytest.mark.long
@pytest.mark.hours
def test_a_host_without_s3a_does_not_end_a_run_that_has_worked_elsewhere(gated: Gated, tmp_path: Path) -> None:
    job, jars = gated(), tmp_path / "jars"
    jars.mkdir()
    for jar in s3a_jars():
        (jars / jar.name).symlink_to(jar)
    job.conf = {"spark.driver.extraClassPath": f"{jars}/*"}
    job.stream.feed(1)
    job.submit()
    job.await_read(1)
    job.kill()
    jars.rename(tmp_path / "away")

    job.recover()
    lost = wait_until(lambda: job.newest().exit, timeout=PATIENCE, what="the end of the second driver")
    assert "cannot open s3a://" in lost.reason
    assert job.key(2) is None, "nothing was fenced or made"
    (tmp_path / "away").rename(jars)
    job.recover()
    job.stream.feed(1)

    await_output(job, 1)  # of the two files


@pytest.mark.long
def test_a_frozen_driver_that_wakes_up_after_the_takeover_writes_nothing_and_dies(gated: Gated) -> None:
    job = gated("windows", "rows")
    job.stream.feed(2)
    job.submit()
    job.await_read(1)
    job.close_gate("plan")
    job.stream.feed(1)
    job.await_held("plan")
    frozen = [job.supervisor(), *job.driver()]
    for process in frozen:
        process.suspend()
    job.await_lost()
    held, out = job.content(1), set(job.stream.windows())

    job.open_gate("plan")
    job.recover()
    job.await_read(2)
    taken_over = job.content(1)
    for process in reversed(frozen):
        with suppress(psutil.NoSuchProcess):  # its JVM is awake first, and may have ended it
            process.resume()
    psutil.wait_procs(frozen, timeout=PATIENCE)

    assert not any(process.is_running() for process in frozen)
    fence = {name for name in taken_over if name not in held}
    assert {name.split("/")[-3] for name in fence} == set(job.queries), "one entry for each query"
    assert all(job.files.read(name).startswith(b"spark-ha-fence") for name in fence)
    assert {name for name in job.content(1) if "/state/" not in name} <= taken_over.keys(), "no batch was added"
    assert {name: job.content(1)[name] for name in taken_over} == taken_over
    assert set(job.stream.windows()) >= out
    job.stream.feed(1)
    job.await_read(2)
    terminate_and_compare(job, 4)


@pytest.mark.long
@pytest.mark.hours
def test_a_stopped_job_goes_on_from_its_checkpoint(gated: Gated) -> None:
    job = gated("windows", "rows")
    job.conf |= {PROVIDER: HDFS_BACKED}
    job.stream.feed(2)
    job.submit()
    job.await_committed(1, 1)
    job.stop("suspend")
    assert job.await_result().reason == "suspended"

    job.stream.feed(2)
    job.job.restore(RestoreRequest(job_id=job.job_id, request_id=new_id()))
    job.await_read(2)

    terminate_and_compare(job, 4)
