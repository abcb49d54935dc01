"""A job on S3 whose files are removed: by the collector while Spark works, and by hand, with a whole directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.api.ha_client import HaClient
from airflow_provider_ha.jobs.model import JobState
from airflow_provider_ha.jobs.options.job_options import HaOptions
from tests.support.spark.driver_helpers import APPS, Stream
from tests.support.spark.layered_job import LayeredJob
from tests.support.spark.supervised_job import terminate_and_compare


pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.usefixtures("jobs_on_s3"),
]

# What a script does first in the driver's process: a pass every second, and a grace of one second.
_OFTEN = """\
from datetime import timedelta

from airflow_provider_ha.checkpoints.store import working_directories
from airflow_provider_ha.checkpoints.areas.layered.garbage import GarbageSearch
from airflow_provider_ha.driver.checkpointing import publish_loop
from airflow_provider_ha.storage.keys import JobKeys


def search(checkpoints, files, current, now):
    live, cuts = JobKeys(checkpoints.job_id).live, working_directories.retained_cuts(checkpoints)
    return GarbageSearch(files, live, cuts, current, now, kept=2, grace=timedelta(seconds=1))


def collect(self, leadership, go_on, collect=working_directories.WorkingFilesCollector.collect):
    self._due = min(self._due, self._now()) if working_directories.INTERVAL > 1 else self._due
    working_directories.INTERVAL = 1.0
    return collect(self, leadership, go_on)


working_directories.search = search
working_directories.WorkingFilesCollector.collect = collect
publish_loop.RETRY_SECONDS = 1.0
"""


def entries(job: LayeredJob, epoch: int, query: str) -> list[int]:
    """Return the numbers of a query's own entries in the offset log of an epoch."""
    return sorted(int(name) for name in job.files.names(f"{job.key(epoch)}/{query}/offsets/"))


@pytest.mark.hours
def test_the_collector_removes_only_files_that_a_running_query_and_the_next_driver_do_not_need(
    client: HaClient, tmp_path: Path
) -> None:
    job = LayeredJob(client, Stream(tmp_path), ("windows", "rows"))
    job.options = HaOptions(checkpoint_interval=0, restart_delay=0, restart_in_place=False, retained_checkpoints=1)
    script = tmp_path / "collected.py"
    script.write_text(_OFTEN + (APPS / "gated.py").read_text())
    job.stream.feed(8)
    job.submit_script(script, [*job.stream.arguments, str(job.gates), ",".join(job.queries)])
    job.await_read(1)

    def purged(epoch: int) -> bool:
        return all(0 not in entries(job, epoch, query) for query in job.queries)

    job.await_alive(lambda: purged(1), "the collector's removals")
    assert all(job.progress(1, query).committed >= 7 for query in job.queries)
    job.stream.feed(2)
    job.await_read(1)
    job.kill()
    ends = {query: job.progress(1, query).planned for query in job.queries}
    job.recover()
    job.stream.feed(4)
    job.await_read(2)
    job.await_alive(
        lambda: all(entries(job, 2, query)[0] > ends[query] + 1 for query in job.queries), "removals in the next epoch"
    )

    terminate_and_compare(job, 14)


@pytest.mark.hours
def test_a_directory_that_is_gone_is_replaced_by_the_newest_checkpoint_of_an_earlier_one(
    client: HaClient, tmp_path: Path
) -> None:
    """A retained checkpoint lies in the directory that it was taken in: with this one, its checkpoints are gone."""
    job = LayeredJob(client, Stream(tmp_path))
    job.options = HaOptions(
        checkpoint_interval=0, restart_delay=0, restart_in_place=False, retained_checkpoints=10, restart_attempts=2
    )
    job.stream.feed(3)
    job.submit()
    job.await_read(1)
    job.await_published(1)
    job.kill()
    job.recover()
    job.stream.feed(1)
    job.await_read(2)
    job.await_published(2)
    job.kill()
    for file in job.files.list(f"{job.key(2)}/"):
        job.files.delete(file.key)

    job.recover()
    job.stream.feed(1)
    job.await_read(3)

    generation = job.job.snapshot().generation
    assert generation is not None
    assert generation.fallback is not None
    assert "is gone" in generation.fallback.reason
    chosen = generation.fallback.source
    taken_in = {f"checkpoint-{each.number}": each.epoch for each in job.job.checkpoints.list()}
    assert taken_in.get(chosen, 1) == 1, taken_in
    run = job.job.snapshot().run
    assert run is not None
    assert len(run.submissions) == 3
    assert run.newest is not None
    assert run.newest.exit is None
    terminate_and_compare(job, 5)
    assert job.await_result().state is JobState.FINISHED
