"""The input of the batch in flight is gone when the driver comes back: the run waits until its user has accepted it."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.clock import new_id
from airflow_provider_ha.errors import DecisionNeededError
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE, Stream
from tests.support.spark.supervised_job import SupervisedJob


pytestmark = [pytest.mark.spark, pytest.mark.timeout(900), pytest.mark.long]


def decision(job: SupervisedJob) -> str:
    run = job.job.snapshot().run
    exit_ = run.newest.exit if run is not None and run.newest is not None else None
    return exit_.decision if exit_ is not None else ""


def test_a_run_waits_until_the_loss_of_its_input_is_accepted(client: HaClient, tmp_path: Path) -> None:
    job = SupervisedJob(client, Stream(tmp_path), ("rows",))
    job.stream.feed(1)
    job.submit()
    job.await_committed(1, 1)  # the batch without rows, for the watermark, as well: the next one has the next file
    job.close_gate("batch")
    job.stream.feed(1)
    job.await_held("batch")  # its boundaries are written, and its function waits
    planned = job.progress(1, "rows").planned
    (job.stream.source / "0001.json").unlink()
    job.kill()
    job.open_gate("batch")

    job.recover()

    wait_until(lambda: decision(job), timeout=PATIENCE, what="a decision")
    assert f"batch {planned} has to be replayed" in decision(job)
    assert "0001.json is gone" in decision(job)
    with pytest.raises(DecisionNeededError, match=r"--if-lost recover --accept-verdicts LOSS_POSSIBLE"):
        job.recover()

    job.job.restore(
        RestoreRequest(
            job_id=job.job_id,
            request_id=new_id(),
            if_lost=LostRunPolicy.RECOVER,
            accept_verdicts=frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
        )
    )

    job.await_alive(lambda: job.job.snapshot().epoch == 3, "the leader")
    job.await_committed(3, planned)
    generation = job.job.snapshot().generation
    assert generation is not None
    assert generation.lossy == {"rows": planned}
    job.job.request_cancel(operation_id=new_id(), requested_by="test")
    job.await_result()
