"""Errors of the application: real Spark, real supervisor, and the words for their user."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.model import JobState, RunResult
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.runs.submissions import Failure, FailureKind
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.kafka_server import broker, connector_jars
from tests.support.spark.layered_job import HDFS_BACKED, PROVIDER
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]
OPTIONS = HaOptions(
    checkpoint_interval=0,
    restart_delay=0,
    restart_attempts=1,
    restart_in_place=False,
)


@pytest.fixture
def job(client: HaClient, tmp_path: Path) -> SupervisedJob:
    return SupervisedJob(client, Stream(tmp_path), ("rows",), options=OPTIONS)


def start(job: SupervisedJob, how: str) -> None:
    job.submit_script(APPS / "fails.py", [str(job.stream.source), how])


def await_failure(job: SupervisedJob, attempt: int) -> Failure:
    """Wait until an attempt has ended, and return what its driver told."""

    def ended() -> bool:
        run = job.job.snapshot().run
        return run is not None and len(run.submissions) >= attempt and run.submissions[attempt - 1].exit is not None

    wait_until(ended, timeout=PATIENCE, what=f"the end of attempt {attempt}")
    run = job.job.snapshot().run
    assert run is not None
    exit_ = run.submissions[attempt - 1].exit
    assert exit_ is not None
    assert exit_.failure is not None, exit_.reason
    return exit_.failure


@pytest.mark.long
def test_function_that_fails_at_the_same_batch_is_tried_again_and_ends_no_run(job: SupervisedJob) -> None:
    job.options = OPTIONS.model_copy(update={"restart_attempts": -1})
    job.stream.feed(3)
    start(job, "mistake")

    failures = []
    for attempt in (1, 2, 3, 4):
        failures.append(await_failure(job, attempt))
        job.recover()

    assert all(each.repeats(failures[0]) for each in failures)
    run = job.job.snapshot().run
    assert run is not None
    assert run.result is None
    assert len(job.job.checkpoints.list()) == 1, "an unchanged cut is no new checkpoint"


@pytest.mark.hours
def test_foreach_batch_that_raises_at_the_same_batch_ends_a_run_that_asks_for_it(job: SupervisedJob) -> None:
    limit = {"restart_attempts": -1, "application_failures": 3, "application_failure_period": 0}
    job.options = OPTIONS.model_copy(update=limit)
    job.stream.feed(3)
    start(job, "mistake")
    for attempt in (1, 2):
        await_failure(job, attempt)
        job.recover()

    last = await_failure(job, 3)
    with pytest.raises(JobStateError, match="KeyError: 'price'"):
        job.recover()

    run = job.job.snapshot().run
    assert run is not None
    assert run.result is not None
    assert (run.result.state, run.result.failure) == (JobState.FAILED, last)
    assert last.kind is FailureKind.APPLICATION
    assert (last.error, last.query, last.batches) == ("KeyError: 'price'", "rows", {"rows": 0})
    assert last.location.startswith("fails.py:")
    assert run.result.reason.startswith("KeyError: 'price', in query 'rows' after batch 0")
    assert len(run.submissions) == 3


@pytest.mark.hours
@pytest.mark.parametrize(
    "limit", [{"restart_attempts": 3}, {"application_failures": 4, "application_failure_period": 0}], ids=" ".join
)
def test_a_standby_driver_changes_neither_delays_nor_limits_of_a_function_that_fails_at_one_batch(
    client: HaClient, tmp_path: Path, limit: dict[str, int]
) -> None:
    options = HaOptions(checkpoint_interval=0, restart_delay=2, standby_drivers=1, class_archive=False, **limit)
    job = SupervisedJob(client, Stream(tmp_path), ("rows",), options=options)
    job.stream.feed(1)
    start(job, "mistake")
    job.await_committed(1, 0)
    standby = job.await_standby()
    job.stream.feed(1)

    end(job, 4)

    ran = job.run.submissions
    assert ran[1].submission.submission_id == standby.standby_id, "the first loss has no delay"
    waited = [
        (after.submission.created_at - before.exit.at).total_seconds()
        for before, after in pairwise(ran[1:])
        if before.exit is not None
    ]
    assert all(seconds >= delay for seconds, delay in zip(waited, (2, 4), strict=True)), waited
    wait_until(lambda: not job.standbys().living(), timeout=PATIENCE, what="the end of the standby drivers")


@pytest.mark.hours
@pytest.mark.parametrize(
    ("how", "kind", "error"),
    [("udf", FailureKind.APPLICATION, "KeyError"), ("server", FailureKind.OUTAGE, "ConnectionRefusedError")],
)
def test_error_in_a_python_worker_is_the_application_s_and_a_server_that_is_away_an_outage(
    job: SupervisedJob, how: str, kind: FailureKind, error: str
) -> None:
    job.stream.feed(3)

    start(job, how)

    failure = await_failure(job, 1)
    assert (failure.kind, failure.error_class, failure.query) == (kind, error, "rows")


@pytest.mark.long
def test_source_whose_directory_is_away_for_several_attempts_ends_no_run(job: SupervisedJob) -> None:
    away = job.stream.root / "away"
    job.stream.feed(2)
    start(job, "never")
    job.await_committed(1, 1)
    job.stream.source.rename(away)
    job.kill()

    for attempt in (2, 3, 4):
        job.recover()
        assert await_failure(job, attempt).kind is FailureKind.OUTAGE
    away.rename(job.stream.source)
    job.stream.feed(1)
    job.recover()

    job.await_committed(5, 2)
    run = job.job.snapshot().run
    assert run is not None
    assert run.result is None


@contextmanager
def silent_broker() -> Iterator[None]:
    """Freeze the broker that this process has started, for as long as the block lasts."""
    (process,) = [child for child in psutil.Process().children() if "kafka.Kafka" in child.cmdline()]
    process.suspend()
    try:
        yield
    finally:
        process.resume()


@pytest.mark.hours
def test_broker_that_is_silent_for_several_attempts_ends_no_run(job: SupervisedJob) -> None:
    with broker() as kafka:
        topic = kafka.new_topic()
        kafka.add(topic, 10)
        job.conf["spark.jars"] = connector_jars()
        job.submit_script(APPS / "topic.py", [kafka.servers, topic])
        job.await_committed(1, 0)

        with silent_broker():
            for attempt in (1, 2, 3):
                assert await_failure(job, attempt).kind is FailureKind.OUTAGE
                if attempt < 3:
                    job.recover()
        kafka.add(topic, 10)
        job.recover()

        job.await_committed(4, 1)
    run = job.job.snapshot().run
    assert run is not None
    assert run.result is None


@pytest.fixture
def unworked_job(client: HaClient, tmp_path: Path) -> SupervisedJob:
    return SupervisedJob(client, Stream(tmp_path), ("rows",), options=HaOptions(checkpoint_interval=0))


def submit(job: SupervisedJob, mistake: str, times: int = 1, *, script: Path = APPS / "mistakes.py") -> None:
    job.submit_script(script, [mistake, str(job.stream.source), str(job.stream.root / "out"), str(times)])


def end(job: SupervisedJob, attempts: int) -> RunResult:
    """Wait until the run has FAILED after so many attempts."""
    result = job.await_result()
    run = job.job.snapshot().run
    assert run is not None
    assert (result.state, len(run.submissions)) == (JobState.FAILED, attempts), result.reason
    return result


def test_script_that_exits_before_its_first_query_ends_the_run_with_its_status_and_its_words(
    unworked_job: SupervisedJob,
) -> None:
    submit(unworked_job, "arguments")

    reason = end(unworked_job, 3).reason

    assert reason.startswith("SystemExit: exit status 2: usage: mistakes.py --input INPUT | mistakes.py: error: the ")
    assert re.search(r"at mistakes\.py:16 in <module>, 3 times in", reason), reason


@pytest.mark.long
def test_file_that_stayed_on_the_submitting_host_is_named_with_the_option_that_ships_it(
    unworked_job: SupervisedJob, tmp_path: Path
) -> None:
    script = shutil.copy(APPS / "mistakes.py", tmp_path)
    (tmp_path / "settings.ini").write_text("[paths]\n")

    submit(unworked_job, "file", script=Path(script))

    assert "ship it with --files settings.ini (files=['settings.ini'])" in end(unworked_job, 3).reason


@pytest.mark.long
def test_error_in_the_first_batch_of_a_new_job_ends_the_run(unworked_job: SupervisedJob) -> None:
    unworked_job.stream.feed(1)

    submit(unworked_job, "typo")

    assert end(unworked_job, 3).reason.startswith(
        "KeyError: 'price', in query 'rows' before its first batch at mistakes.py:"
    )


def await_batches(job: SupervisedJob, epoch: int, batch: int) -> None:
    job.await_committed(epoch, batch)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


@pytest.mark.long
@pytest.mark.parametrize(
    ("script", "changed"),
    [
        ("union", "reads 3 sources, and its checkpoint has 1"),
        ("counts", "has 2 operators with state, and its checkpoint"),
    ],
)
def test_script_that_does_not_fit_its_checkpoint_is_refused_before_its_first_batch(
    unworked_job: SupervisedJob, script: str, changed: str
) -> None:
    unworked_job.stream.feed(2)
    submit(unworked_job, script)
    await_batches(unworked_job, 1, 1)
    kept = [pointer.number for pointer in unworked_job.job.checkpoints.list()]

    submit(unworked_job, script, 3 if script == "union" else 2)
    reason = end(unworked_job, 1).reason

    assert changed in reason
    assert f"Run 2 differs from run 1, which wrote checkpoint-{kept[0]}, in arguments" in reason
    assert f"`spark-ha job restore gated --start-from checkpoint-{kept[0]}` continues with the graph of run 1" in reason
    assert [pointer.number for pointer in unworked_job.job.checkpoints.list()] == kept


@pytest.mark.hours
def test_script_of_before_goes_on_from_its_checkpoint_after_another_one_was_refused(
    unworked_job: SupervisedJob,
) -> None:
    unworked_job.stream.feed(2)
    submit(unworked_job, "union")
    await_batches(unworked_job, 1, 1)
    submit(unworked_job, "union", 3)
    end(unworked_job, 1)

    unworked_job.stream.feed(1)
    submit(unworked_job, "union")

    unworked_job.await_alive(
        lambda: next(iter(unworked_job.job.checkpoints.list())).cut == {"rows": 2}, "the next batch of the old script"
    )


@pytest.mark.long
def test_schema_that_spark_refuses_ends_the_run_the_second_time_and_keeps_the_checkpoints(
    unworked_job: SupervisedJob,
) -> None:
    unworked_job.stream.feed(2)
    submit(unworked_job, "counts")
    await_batches(unworked_job, 1, 1)
    kept = [pointer.number for pointer in unworked_job.job.checkpoints.list()]
    unworked_job.stream.feed(1)

    submit(unworked_job, "schema")
    reason = end(unworked_job, 2).reason

    assert "STATE_STORE" in reason
    assert f"--start-from checkpoint-{kept[0]}` continues with the graph of run 1" in reason
    assert [pointer.number for pointer in unworked_job.job.checkpoints.list()] == kept


@pytest.mark.hours
def test_provider_and_partitions_of_the_conf_change_nothing_for_a_checkpoint_with_others(
    unworked_job: SupervisedJob,
) -> None:
    """Spark takes both from the checkpoint."""
    job = unworked_job
    job.stream.feed(2)
    submit(job, "counts")
    await_batches(job, 1, 1)
    job.conf = {PROVIDER: HDFS_BACKED, "spark.sql.shuffle.partitions": "3"}
    job.stream.feed(1)

    submit(job, "counts")

    job.await_committed(2, 2)
    (state,) = (job.working(2) or Path()).glob("rows/state/0")
    assert [path.name for path in state.iterdir() if path.name.isdigit()] == ["0"]


@pytest.mark.hours
@pytest.mark.long
def test_function_that_does_not_read_its_frame_is_told_so_and_ends_the_run(unworked_job: SupervisedJob) -> None:
    unworked_job.stream.feed(1)

    submit(unworked_job, "unread")

    assert (
        "the function of query 'rows' has not read its frame, and a query with state needs that"
        in end(unworked_job, 2).reason
    )
