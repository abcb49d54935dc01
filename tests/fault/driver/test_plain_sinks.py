"""Sinks of any type run: what is executed again is there twice, and a restore says so before it does that."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import RestoreRefusedError
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.sinks.play import feed, numbers
from tests.support.spark.driver_helpers import APPS, PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
QUERIES = ("console", "custom", "foreach")
KEPT = ("custom", "foreach")  # what the other ones have ends with the driver


def written(output: Path, name: str) -> Counter[int]:
    return Counter(map(int, (output / name).read_text(encoding="utf-8").split()))


def test_they_run_and_a_restore_repeats_what_came_after_the_cut(client: HaClient, tmp_path: Path) -> None:
    job, output = SupervisedJob(client, Stream(tmp_path), QUERIES), tmp_path / "out"
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False, retained_checkpoints=100)
    output.mkdir()
    feed(job.stream.source, 0)
    job.submit_script(APPS / "plain_sinks.py", [str(job.stream.source), str(output)])
    job.await_committed(1, 0)
    job.await_alive(lambda: bool(job.job.snapshot().checkpoint_numbers), "a checkpoint of all queries")
    feed(job.stream.source, 1)
    job.await_committed(1, 1)
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED

    first = min(job.job.snapshot().checkpoint_numbers)
    wanted = RestoreRequest(job_id=job.job_id, request_id=new_id(), start_from=f"checkpoint-{first}")
    plan = job.job.plan_restore(wanted)
    cut = {query: plan.queries[query].batch for query in QUERIES}
    assert plan.verdict is Verdict.DUPLICATES_POSSIBLE, plan.reasons
    assert {finding.query for finding in plan.findings} == {name for name in KEPT if cut[name] < 1}
    with pytest.raises(RestoreRefusedError, match="DUPLICATES_POSSIBLE"):
        job.job.restore(wanted)
    job.job.restore(replace(wanted, accept_verdicts=frozenset({Verdict.SAFE, Verdict.DUPLICATES_POSSIBLE})))
    feed(job.stream.source, 2)

    new = set(numbers(2))
    wait_until(lambda: all(new <= set(written(output, name)) for name in KEPT), timeout=PATIENCE, what="new rows")
    for name in KEPT:
        again = [number for batch in (0, 1) if batch > cut[name] for number in numbers(batch)]
        assert written(output, name) == Counter([*numbers(0), *numbers(1), *numbers(2), *again])
    job.stop("suspend")
    assert job.await_result().state is JobState.FINISHED
