"""Removal of earlier attempts, graphs and notes, on a real ZooKeeper and real directories."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import HaConfig, Retention
from airflow_provider_ha.coordination.coordinator import Coordinator, Create, Delete, SetData
from airflow_provider_ha.driver.checkpointing.publish_loop import clear_notes
from airflow_provider_ha.driver.members import housekeeping
from airflow_provider_ha.driver.members.housekeeping import DIRECTORIES, PastAttempts, superfluous
from airflow_provider_ha.errors import LeadershipError, LeadershipLostError
from airflow_provider_ha.jobs.model import Generation
from airflow_provider_ha.jobs.options.job_options import HaOptions
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.removal.removal_records import RemovedRuns
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.run_store import RunStore, reads_of_run, view_of_run
from airflow_provider_ha.jobs.runs.standbys import Standby, StandbyLevel
from airflow_provider_ha.storage import keys
from airflow_provider_ha.storage.blobs import put_blob
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.aged_job import RETAINED_CHECKPOINTS, AgedJob
from tests.support.clusters.jobs_helpers import a_run, a_start, a_submission, an_exit


def submitted(job: Job, attempts: int, *, over: bool = True) -> Path:
    """Make run 1 with so many submissions, all but the newest proven dead; returns the parent of their directories."""
    runs, journal = RunStore(job.coordinator, job.paths), JobJournal(job.objects, job.keys)
    job.coordinator.commit(runs.create_op(a_run()), Create(job.paths.submissions(1)))
    parent = (job.config.work_path / job.keys.application(1, 1)).parent
    for attempt in range(1, attempts + 1):
        journal.submission(a_run(), a_submission(attempt))
        journal.started(1, a_submission(attempt), a_start())
        job.coordinator.commit(
            Create(job.paths.submission(1, attempt), a_submission(attempt).to_bytes()),
            Create(job.paths.submission_started(1, attempt), a_start().to_bytes()),
        )
        if over and attempt < attempts:
            job.coordinator.commit(Create(job.paths.submission_exit(1, attempt), an_exit().to_bytes()))
        (parent / f"1-{attempt}" / "jars").mkdir(parents=True)
        (parent / f"1-{attempt}" / "driver.log").write_text("lost")
    return parent


def clear(job: Job, own: int) -> None:
    journal = JobJournal(job.objects, job.keys)
    past = PastAttempts(
        coordinator=job.coordinator,
        paths=job.paths,
        keys=job.keys,
        home_path=job.config.work_path,
        leadership=job.leadership,
        journal=journal,
        options=HaOptions(restart_attempts=3),
        own=(1, own),
        runs=PastRuns(job.coordinator, job.paths, journal, Retention(), SystemClock(), frozenset),
        notes=lambda: iter(()),
        blobs=lambda: None,
    )
    for _ in past.clear():
        pass


def attempts_in(parent: Path) -> list[int]:
    return sorted(int(path.name.partition("-")[2]) for path in parent.iterdir())


def known(job: Job) -> list[int]:
    view = RunStore(job.coordinator, job.paths).get(1)
    return [each.submission.attempt for each in view.submissions]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep five attempts in ZooKeeper, as many as three restarts need."""
    monkeypatch.setattr(housekeeping, "ATTEMPTS", 2)


def test_directories_of_submissions_that_are_over_go_but_the_last_ten(job: Job) -> None:
    parent = submitted(job, 14)

    clear(job, own=14)

    assert attempts_in(parent) == list(range(5, 15))


def test_the_directory_of_a_submission_that_is_not_proven_dead_stays(job: Job) -> None:
    """[review B5] Its processes may still write there, or be what a person looks for."""
    parent = submitted(job, 14)
    job.coordinator.commit(Delete(job.paths.submission_exit(1, 2)))

    clear(job, own=14)

    assert attempts_in(parent) == [2, *range(5, 15)]


def test_a_proof_that_cannot_be_read_is_none(job: Job) -> None:
    parent = submitted(job, 14)
    job.coordinator.commit(SetData(job.paths.submission_exit(1, 3), b"garbage"))

    clear(job, own=14)

    assert attempts_in(parent) == [3, *range(5, 15)]


def test_a_submission_that_zookeeper_does_not_know_is_not_over(job: Job) -> None:
    """After ZooKeeper's data was lost and rebuilt, nothing tells whether its processes are dead."""
    parent = submitted(job, 12)
    (parent / "0-1").mkdir()

    clear(job, own=12)

    assert (parent / "0-1").is_dir()


def test_directories_of_removed_runs_go_on_the_host_that_still_has_them(job: Job) -> None:
    """A leader on another host removed the runs; that their processes are dead was proven before."""
    job.coordinator.commit(Create(job.paths.run(2)), Create(job.paths.removed_runs, RemovedRuns(through=3).to_bytes()))
    parent = (job.config.work_path / job.keys.application(1, 1)).parent
    names = ["0-1", "1-1", "1-2", "2-1", "3-1", "4-1", *(f"5-{attempt}" for attempt in range(1, 11))]
    for name in names:
        (parent / name).mkdir(parents=True)

    clear(job, own=12)

    removed = {"1-1", "1-2", "3-1"}
    assert {path.name for path in parent.iterdir()} == set(names) - removed


@pytest.fixture
def standbys(job: Job) -> Path:
    """Run 1 with 14 submissions, the third of which was a standby driver, and two that never led: one lives."""
    parent = submitted(job, 14)
    promoted = a_submission(3).model_copy(update={"submission_id": "aa", "standby": True})
    job.coordinator.commit(SetData(job.paths.submission(1, 3), promoted.to_bytes()))
    (parent / "1-3").rename(parent / "1-standby-aa")
    living = Standby(standby_id="bb", level=StandbyLevel.SESSION, since=SystemClock().now(), host="host", pid=1)
    job.coordinator.commit(
        Create(job.paths.standbys(1)), Create(job.paths.standby(1, "bb"), living.to_bytes(), ephemeral=True)
    )
    for name in ("bb", "cc"):
        (parent / f"1-standby-{name}").mkdir()
        os.utime(parent / f"1-standby-{name}", (0, 0))
    (parent / "1-standby-dd").mkdir()  # about to start
    return parent


def standbys_in(parent: Path) -> set[str]:
    return {path.name.rpartition("-")[2] for path in parent.glob("1-standby-*")}


def test_directories_of_standby_drivers_go_once_they_are_over(job: Job, standbys: Path) -> None:
    clear(job, own=14)

    assert standbys_in(standbys) == {"bb", "dd"}


def test_the_directory_of_a_promoted_standby_driver_stays_as_long_as_that_of_any_submission(
    job: Job, standbys: Path
) -> None:
    job.coordinator.commit(Delete(job.paths.submission_exit(1, 3)))

    clear(job, own=14)

    assert standbys_in(standbys) == {"aa", "bb", "dd"}


def test_a_deposed_leader_removes_no_directory_of_a_standby_driver(job: Job, standbys: Path) -> None:
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    with pytest.raises(LeadershipError):
        clear(job, own=14)

    assert standbys_in(standbys) == {"aa", "bb", "cc", "dd"}


def test_a_deposed_leader_removes_no_directory(job: Job) -> None:
    parent = submitted(job, 14)
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    with pytest.raises(LeadershipError):
        clear(job, own=14)

    assert attempts_in(parent) == list(range(1, 15))


def test_remains_of_a_removal_that_was_killed_go(job: Job) -> None:
    parent = submitted(job, 1)
    (parent / ".1-0.0123abcd.removed").mkdir()

    clear(job, own=1)

    assert [path.name for path in parent.iterdir()] == ["1-1"]


def test_own_directory_never_goes_whatever_its_number() -> None:
    names = [f"1-{attempt}" for attempt in range(1, DIRECTORIES + 4)]

    assert superfluous([*names, "notes", ".1-9.ab.removed"], own=(1, 2)) == [(1, 1), (1, 3)]


def test_zookeeper_and_the_journal_forget_what_is_long_over(job: Job, few: None) -> None:
    submitted(job, 18)

    clear(job, own=18)

    assert known(job) == list(range(9, 19)[-10:])  # as long as their directories are there
    names = [info.key.rpartition("/")[2] for info in job.objects.list(job.keys.journals)]
    assert {int(name.split("-")[1]) for name in names} == set(known(job))


def test_what_is_not_proven_dead_is_not_forgotten(job: Job, few: None) -> None:
    submitted(job, 18)
    job.coordinator.commit(Delete(job.paths.submission_exit(1, 2)))

    clear(job, own=18)

    assert known(job) == [2, *range(9, 19)]
    assert len(list(job.objects.list(job.keys.journal("submission", "1-2-").removesuffix(".json")))) == 1


def test_old_recoveries_and_generations_are_forgotten(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    epoch = job.leadership.epoch
    monkeypatch.setattr(housekeeping, "ATTEMPTS", 0)
    submitted(job, 1)
    for lost in (epoch - 1, epoch):
        job.coordinator.commit(Create(job.paths.recovery(lost)))
        generation = Generation(run=1, epoch=lost, directory="d")
        JobJournal(job.objects, job.keys).generation(generation)

    clear(job, own=1)

    assert job.coordinator.children(job.paths.recoveries) == [str(epoch)]
    assert [info.key for info in job.objects.list(f"{job.keys.journals}generation/")] == [
        job.keys.journal("generation", f"e{epoch}")
    ]


def test_a_submission_that_is_forgotten_while_a_run_is_read_is_left_out(job: Job) -> None:
    """Fails when a snapshot ends with an error because the leader cleaned up between two of its reads."""
    submitted(job, 3)
    seen = job.coordinator.read(reads_of_run(job.paths, 1))
    old = job.paths.submission(1, 1)
    job.coordinator.commit(Delete(f"{old}/exit"), Delete(f"{old}/started"), Delete(old))

    view = view_of_run(job.coordinator, job.paths, 1, seen)

    assert [each.submission.attempt for each in view.submissions] == [2, 3]


RUNS, GONE = 30, 5  # between two runs an hour passes, and a run stays for a day


@pytest.fixture
def driven_job(config: HaConfig, coordinator: Coordinator) -> AgedJob:
    """A job whose last run has a driver, and the earlier ones only their records."""
    return AgedJob(config.model_copy(update={"retention": Retention(runs=2, days=1)}), coordinator, led_every=RUNS)


def graphs(job: AgedJob) -> set[str]:
    return {Path(info.key).name for info in job.context.store.list(keys.BLOBS)}


def named(job: AgedJob) -> set[str]:
    return {job.context.runs.get(number).run.graph.sha256 for number in job.context.runs.numbers()}


def test_a_run_that_goes_takes_its_graph_with_it(driven_job: AgedJob) -> None:
    driven_job.live(RUNS)

    assert driven_job.context.runs.numbers() == list(range(GONE + 1, RUNS + 1))
    assert graphs(driven_job) == named(driven_job)


@pytest.mark.long
def test_a_graph_that_another_run_needs_stays(driven_job: AgedJob) -> None:
    driven_job.live(1)
    shared = driven_job.context.runs.get(1).run.graph
    driven_job.live(RUNS - 2)
    node = driven_job.coordinator.get(driven_job.paths.run(RUNS - 1))
    later = driven_job.context.runs.get(RUNS - 1).run.model_copy(update={"graph": shared})
    driven_job.coordinator.commit(SetData(node.path, later.to_bytes(), node.version))

    driven_job.live(1)

    assert 1 not in driven_job.context.runs.numbers()
    assert shared.sha256 in graphs(driven_job)


@pytest.mark.long
def test_an_upload_that_nothing_names_yet_stays(driven_job: AgedJob) -> None:
    driven_job.live(RUNS - 1)
    upload = put_blob(driven_job.context.store, b"of a submission on its way")

    driven_job.live(1)

    assert graphs(driven_job) == named(driven_job) | {upload.sha256}


@pytest.mark.long
def test_no_graph_goes_while_something_cannot_be_read(driven_job: AgedJob) -> None:
    driven_job.live(RUNS - 1)
    driven_job.context.store.write(driven_job.keys.journal("submission", f"{RUNS - 1}-1"), b"garbage")
    before = graphs(driven_job)

    driven_job.live(1)

    assert 1 not in driven_job.context.runs.numbers()
    assert graphs(driven_job) >= before


def test_a_driver_that_removes_no_run_looks_for_no_blob(driven_job: AgedJob) -> None:
    driven_job.led_every = 2
    driven_job.live(2)

    assert driven_job.context.store.info(keys.BLOB_COLLECTION) is None


EPOCHS = 4  # each with one run, which gives its number as the batch and is then checkpointed


@pytest.fixture
def noted_job(config: HaConfig, coordinator: Coordinator) -> AgedJob:
    """A job whose drivers remove nothing yet."""
    made = AgedJob(
        config.model_copy(update={"retention": Retention(runs=50, days=1)}), coordinator, led_every=1, cleaning=False
    )
    made.live(EPOCHS)
    made.cleaning = True
    return made


def noted(job: AgedJob) -> list[int]:
    return sorted(job.given("rows").epochs())


def test_the_notes_stay_that_the_oldest_cut_can_need(noted_job: AgedJob) -> None:
    noted_job.live(1)

    lowest = EPOCHS + 2 - RETAINED_CHECKPOINTS
    assert noted(noted_job) == list(range(lowest, EPOCHS + 2))


def test_the_note_of_a_timeline_that_was_given_up_stays(noted_job: AgedJob) -> None:
    noted_job.given("rows").begin(1, 1_000)

    noted_job.live(1)

    assert noted(noted_job)[:2] == [1, EPOCHS + 2 - RETAINED_CHECKPOINTS]


def test_every_note_stays_while_a_savepoint_cannot_be_read(noted_job: AgedJob) -> None:
    noted_job.coordinator.commit(Create(noted_job.paths.savepoint("broken"), b"garbage"))

    noted_job.live(1)

    assert noted(noted_job) == list(range(1, EPOCHS + 2))


def test_a_note_that_cannot_be_read_keeps_the_others(noted_job: AgedJob, caplog: pytest.LogCaptureFixture) -> None:
    noted_job.area.tree(noted_job.keys.given("rows")).write("e1.json", b"garbage")

    noted_job.live(1)

    assert len(list((noted_job.config.work_path / noted_job.keys.given("rows")).iterdir())) == EPOCHS + 1
    assert "the notes about query rows stay" in caplog.text


def test_a_leader_that_was_deposed_removes_no_note(noted_job: AgedJob) -> None:
    with pytest.raises(LeadershipLostError):
        list(clear_notes(_Floor({"rows": EPOCHS}), _Deposed(), noted_job.given))  # type: ignore[arg-type]

    assert noted(noted_job) == list(range(1, EPOCHS + 1))


class _Floor:
    def __init__(self, floor: dict[str, int]) -> None:
        self._floor = floor

    def floor(self) -> dict[str, int]:
        return self._floor


class _Deposed:
    epoch = EPOCHS + 1

    def prove(self) -> None:
        raise LeadershipLostError("another process leads")
