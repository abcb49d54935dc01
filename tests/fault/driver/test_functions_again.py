"""A ``foreachBatch`` function that appends: no batch that it has finished comes to it again unasked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from tests.support.sinks.play import feed, numbers
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def lost_after_three_batches(client: HaClient, root: Path, how: str) -> tuple[SupervisedJob, RestoreRequest]:
    """A job that has committed three batches and died, and the restore of its first checkpoint."""
    job = SupervisedJob(client, Stream(root), ("orders",), job_id="orders")
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False, retained_checkpoints=100)
    submit(job, root, how)
    for batch in range(3):
        feed(job.stream.source, batch)
        job.await_committed(1, batch)
        await_checkpoints(job, batch + 1)
    job.kill()
    first = f"checkpoint-{min(job.job.snapshot().checkpoint_numbers)}"
    return job, RestoreRequest(job_id="orders", request_id=new_id(), start_from=first, if_lost=LostRunPolicy.RESTART)


def await_checkpoints(job: SupervisedJob, count: int) -> None:
    job.await_alive(lambda: len(job.job.snapshot().checkpoint_numbers) >= count, "a checkpoint")


def submit(job: SupervisedJob, root: Path, how: str, start_from: str = "latest") -> None:
    job.stream.source.mkdir(exist_ok=True)
    arguments = [str(job.stream.source), str(root / "orders.txt"), how]
    job.submit_script(APPS / "appends.py", arguments, start_from=start_from)


def epoch_of(job: SupervisedJob) -> int:
    """The epoch of the driver that comes, once it leads."""
    job.await_alive(lambda: job.job.snapshot().leader is not None, "the leader")
    return job.job.snapshot().epoch


def written(root: Path) -> list[tuple[int, str]]:
    """Return each number with the id of the past that wrote it."""
    lines = (root / "orders.txt").read_text(encoding="utf-8").splitlines()
    return [(int(number), past) for number, past in (line.split() for line in lines)]


def test_a_restore_that_gives_finished_batches_again_is_refused_until_it_is_accepted(
    client: HaClient, tmp_path: Path
) -> None:
    job, wanted = lost_after_three_batches(client, tmp_path, "plain")

    with pytest.raises(RestoreRefusedError, match="DUPLICATES_POSSIBLE: orders: batches 1 to 2 are given to the func"):
        job.job.restore(wanted)

    job.job.restore(replace(wanted, accept_verdicts=frozenset({Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE})))
    job.await_committed(epoch_of(job), 2)
    again = [*numbers(1), *numbers(2)]
    assert Counter(number for number, _ in written(tmp_path)) == Counter([*numbers(0), *again, *again])
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED


def test_a_fenced_function_gets_no_batch_again_that_it_has_finished(client: HaClient, tmp_path: Path) -> None:
    job, wanted = lost_after_three_batches(client, tmp_path, "fenced")

    job.job.restore(wanted)
    feed(job.stream.source, 3)
    job.await_committed(epoch_of(job), 3)

    assert [number for number, _ in written(tmp_path)] == [number for batch in range(4) for number in numbers(batch)]
    assert len({past for _, past in written(tmp_path)}) == 1  # a restore goes on with the query's past
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
