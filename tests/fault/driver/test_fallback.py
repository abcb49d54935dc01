"""A run whose last working directory is gone, damaged, or refused by Spark: it goes on from its checkpoint, exactly."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_ha.checkpoints.plan_model import Verdict
from airflow_provider_ha.errors import DecisionNeededError
from airflow_provider_ha.jobs.model import Fallback
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.options.job_spec import RestoreRequest
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from airflow_provider_ha.testing.waiting import wait_until
from tests.support.spark.driver_helpers import PATIENCE
from tests.support.spark.supervised_job import SupervisedJob, newest_state, terminate_and_compare


pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]
Gated = Callable[..., SupervisedJob]
PROVIDERS = "org.apache.spark.sql.execution.streaming.state"
HDFS_BACKED = {"spark.sql.streaming.stateStore.providerClass": f"{PROVIDERS}.HDFSBackedStateStoreProvider"}
ATTEMPTS = 1  # the first loss uses it up; what follows must not count


def at_rest(job: SupervisedJob, files: int = 3, *, attempts: int = ATTEMPTS) -> Path:
    """Run the job until its newest checkpoint holds all that it has read, then kill it; returns the lost directory."""
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False, restart_attempts=attempts)
    job.stream.feed(files)
    job.submit()
    job.await_read(1)

    def is_published() -> bool:
        newest = next(iter(job.job.checkpoints.list()), None)
        now = job.progress(1)
        return newest is not None and newest.cut["windows"] == now.committed == now.planned

    job.await_alive(is_published, "a checkpoint of the last batch")
    working = job.working(1)
    assert working is not None
    job.kill()
    return working


def replace(path: Path, content: bytes) -> None:
    """Damage a file of the working directory alone: the checkpoints have linked it."""
    path.unlink()
    path.write_bytes(content)


def unread_state(working: Path) -> list[Path]:
    """Return files of the state that only Spark reads at a start: a zip is looked into, for the files that it names."""
    tables = list((working / "windows" / "state").rglob("*.sst"))
    return tables or [newest_state(working / "windows")]


def fallback_of(job: SupervisedJob, epoch: int) -> Fallback:
    """Wait until an epoch works in a directory that it, or one before, has fallen back to."""

    def works() -> bool:
        generation = job.job.snapshot().generation
        return generation is not None and generation.epoch == epoch

    job.await_alive(works, f"the directory of epoch {epoch}")
    generation = job.job.snapshot().generation
    assert generation is not None
    assert generation.fallback is not None
    return generation.fallback


def goes_on_exactly(job: SupervisedJob, epoch: int, files: int = 3) -> None:
    job.stream.feed(1)
    job.await_read(epoch)
    terminate_and_compare(job, files + 1)


def damage_directory(working: Path) -> None:
    shutil.rmtree(working)


def damage_state(working: Path) -> None:
    newest_state(working / "windows").unlink()


def shorten_state(working: Path) -> None:
    state = newest_state(working / "windows")
    replace(state, state.read_bytes()[:-20])


@pytest.mark.parametrize("damage", [damage_directory, pytest.param(shorten_state, marks=pytest.mark.hours)])
def test_a_damaged_working_directory_is_replaced_by_the_newest_checkpoint(
    gated: Gated, damage: Callable[[Path], None]
) -> None:
    job = gated()
    damage(at_rest(job))

    job.recover()

    found = fallback_of(job, 2)
    assert found.source == f"checkpoint-{next(iter(job.job.checkpoints.list())).number}"
    assert "fell back to checkpoint-" in job.log(newest_only=True)
    goes_on_exactly(job, 2)


@pytest.mark.parametrize(
    "conf", [pytest.param({}, id="rocksdb"), pytest.param(HDFS_BACKED, marks=pytest.mark.hours, id="hdfs-backed")]
)
def test_a_directory_that_spark_refuses_is_replaced_by_the_next_attempt_and_counts_nothing(
    gated: Gated, conf: dict[str, str]
) -> None:
    job = gated()
    job.conf = conf
    working = at_rest(job)
    for state in unread_state(working):
        replace(state, bytes(state.stat().st_size))  # of its old length
    job.stream.feed(1)

    job.recover()
    job.await_exit(2)
    refused = job.run.newest
    assert refused is not None
    assert refused.exit is not None
    assert refused.exit.failure is not None, job.log(newest_only=True)
    assert refused.exit.failure.refused, refused.exit
    job.recover()

    assert "Spark refused" in fallback_of(job, 3).reason
    goes_on_exactly(job, 3, 4)


def beyond_its_checkpoint(job: SupervisedJob) -> Path:
    """Run the job for some batches after its only checkpoint, then kill it; returns the lost directory."""
    job.options = HaOptions(checkpoint_interval=3600, restart_delay=0, restart_attempts=ATTEMPTS)
    job.stream.feed(1)
    job.submit()
    job.await_alive(lambda: bool(job.job.checkpoints.list().pointers), "the first checkpoint")
    job.stream.feed(2)
    job.await_read(1)
    working = job.working(1)
    assert working is not None
    job.kill()
    return working


@pytest.mark.hours
def test_what_came_after_the_checkpoint_is_executed_again_as_it_was(gated: Gated) -> None:
    """A file sink has it already, a function is called again with the same rows."""
    job = gated("windows", "rows")
    damage_state(beyond_its_checkpoint(job))

    job.recover()

    found = fallback_of(job, 2)
    assert found.source == "checkpoint-1"
    assert all(found.again[query] > found.cut[query] for query in job.queries), found
    goes_on_exactly(job, 2)
    assert "is executed again into noop" in job.log()


def test_a_fallback_that_may_lose_rows_waits_for_its_user(gated: Gated) -> None:
    job = gated()
    damage_directory(beyond_its_checkpoint(job))

    job.recover()
    job.await_exit(2)

    for _ in range(2):
        with pytest.raises(DecisionNeededError, match=r"LOSS_POSSIBLE.*--accept-verdicts LOSS_POSSIBLE"):
            job.recover()
    assert len(job.run.submissions) == 2
    job.job.restore(
        RestoreRequest(
            job_id=job.job_id,
            request_id="decided",
            if_lost=LostRunPolicy.RESTART,
            accept_verdicts=frozenset({Verdict.SAFE, Verdict.LOSS_POSSIBLE}),
        )
    )
    job.await_alive(lambda: job.run.run.number == 2 and job.job.snapshot().leader is not None, "run 2")


@pytest.mark.hours
def test_a_driver_that_is_killed_in_its_fallback_is_followed_by_one_that_is_exact(gated: Gated) -> None:
    job = gated()
    damage_state(at_rest(job, attempts=-1))  # a kill counts, at any moment
    job.stream.feed(1)

    job.recover()
    wait_until(lambda: any(job.live.glob("e2-*-restored")), timeout=PATIENCE, what="its directory", interval=0.005)
    job.kill()
    job.recover()

    assert fallback_of(job, 3).source.startswith("checkpoint-")
    goes_on_exactly(job, 3, 4)
