"""What a host that did not delete a job still has of its earlier lives: real directories, a real ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete
from airflow_provider_ha.driver.members.housekeeping import DIRECTORIES, PastAttempts
from airflow_provider_ha.errors import StorageUnavailableError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.removal import job_deletion
from airflow_provider_ha.jobs.removal.job_deletion import Deletion, DeletionState, delete_job, spans, unproven_runs
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.removal.removal_records import RemovedRuns, RemovedRunStore
from airflow_provider_ha.jobs.runs.journal import JobJournal
from tests.support.clusters import submit_helpers as helpers
from tests.support.clusters.jobs_helpers import an_exit, lead
from tests.support.clusters.whole_jobs import whole_job


pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def over(copy: JobContext, tmp_path: Path) -> JobContext:
    """Return a job whose run 1 is over, with the proof that its processes are dead."""
    job = whole_job(copy, helpers.script(tmp_path))
    job.coordinator.commit(Create(job.paths.submission_exit(1, 1), an_exit().to_bytes()))
    return job


@pytest.fixture
def other_host(over: JobContext, tmp_path: Path) -> Path:
    """Return the home of a host that has run the job before: run 1, and what a host keeps in any case, of run 2."""
    home = tmp_path / "other-host"
    for name in ("1-1", *(f"2-{attempt}" for attempt in range(1, DIRECTORIES + 1))):
        path = home / over.keys.submissions / name
        path.mkdir(parents=True)
        (path / "driver.log").write_text("of an earlier life")
    return home


def remove(job: JobContext) -> Deletion:
    return delete_job(job, keep_savepoints=False, by="test")


def lead_on(home: Path, job: JobContext, config: HaConfig, run: int) -> set[str]:
    """Let the leader of a run on that host remove what is over; returns the directories that are left there."""
    journal = JobJournal(job.store, job.keys)
    with lead(job.coordinator, job.paths, config, run=run) as leadership:
        past = PastAttempts(
            coordinator=job.coordinator,
            paths=job.paths,
            keys=job.keys,
            home_path=home,
            leadership=leadership,
            journal=journal,
            options=HaOptions(),
            own=(run, 1),
            runs=PastRuns(job.coordinator, job.paths, journal, Retention(), SystemClock(), frozenset),
            notes=lambda: iter(()),
            blobs=lambda: None,
        )
        list(past.clear())
    return {path.name for path in (home / job.keys.submissions).iterdir()}


def test_directories_of_the_life_before_go_on_the_host_that_leads_in_the_next_one(
    over: JobContext, other_host: Path, config: HaConfig, tmp_path: Path
) -> None:
    remove(over)
    run = helpers.submit(over, helpers.script(tmp_path)).run

    left = lead_on(other_host, over, config, run)

    assert "1-1" not in left
    assert len(left) == DIRECTORIES


def test_a_directory_stays_when_nothing_had_proven_the_death_of_its_processes(
    over: JobContext, other_host: Path, config: HaConfig, tmp_path: Path
) -> None:
    """The job was over, and its host cut off: the processes of run 1 may still live there."""
    over.coordinator.commit(Delete(over.paths.submission_exit(1, 1)))

    remove(over)
    run = helpers.submit(over, helpers.script(tmp_path)).run

    assert "1-1" in lead_on(other_host, over, config, run)


def test_a_continued_deletion_remembers_processes_that_may_be_alive(
    over: JobContext, other_host: Path, config: HaConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first call has removed the records that would say so."""
    over.coordinator.commit(Delete(over.paths.submission_exit(1, 1)))

    def fails(*_: object, **__: object) -> None:
        raise StorageUnavailableError("the store does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(job_deletion, "_remove_files", fails)
        with pytest.raises(StorageUnavailableError):
            remove(over)
    assert over.runs.numbers() == []

    assert remove(over).state is DeletionState.DELETED
    run = helpers.submit(over, helpers.script(tmp_path)).run

    assert "1-1" in lead_on(other_host, over, config, run)


def test_what_was_not_proven_in_one_life_is_not_proven_in_the_third(over: JobContext, tmp_path: Path) -> None:
    over.coordinator.commit(Delete(over.paths.submission_exit(1, 1)))
    remove(over)
    run = helpers.submit(over, helpers.script(tmp_path)).run
    helpers.kill_all(over)
    for attempt in over.coordinator.children(over.paths.submissions(run)):
        path = over.paths.submission_exit(run, int(attempt))
        if over.coordinator.find(path) is None:
            over.coordinator.commit(Create(path, an_exit().to_bytes()))

    assert unproven_runs(over.coordinator, over.paths, run) == ((1, 1),)


def test_a_run_that_zookeeper_has_lost_is_not_proven(config: HaConfig, coordinator: Coordinator) -> None:
    """Runs 1 and 2 were removed, the record of run 3 is lost; run 4 has a proof that cannot be read."""
    paths = helpers.context(config, coordinator, job_id="lost").paths
    coordinator.ensure(paths.runs)
    coordinator.commit(
        Create(paths.removed_runs, RemovedRuns(through=2, unproven=((2, 2),)).to_bytes()),
        Create(paths.run(4)),
        Create(paths.submissions(4)),
        Create(paths.submission(4, 1)),
        Create(paths.submission_exit(4, 1), b"garbage"),
    )

    assert unproven_runs(coordinator, paths, 5) == ((2, 5),)


def test_a_run_that_is_removed_later_keeps_what_is_not_proven(over: JobContext, coordinator: Coordinator) -> None:
    coordinator.commit(Create(over.paths.removed_runs, RemovedRuns(through=2, unproven=((2, 2),)).to_bytes()))

    coordinator.commit(*RemovedRunStore(coordinator, over.paths).note_ops(3, {}))

    after = RemovedRunStore(coordinator, over.paths).read()
    assert [run for run in range(6) if after.removed(run)] == [1, 3]


def test_runs_that_follow_each_other_are_one_span() -> None:
    assert spans([1, 2, 3, 7, 9, 10]) == ((1, 3), (7, 7), (9, 10))
