"""What a leader removes of runs that are long over, on a real ZooKeeper and real storage."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest

from airflow_provider_ha.checkpoints.model import Claim
from airflow_provider_ha.checkpoints.store.claims import runs_in_use
from airflow_provider_ha.checkpoints.store.removal import DeletionList
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.config import Retention
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op, SetData
from airflow_provider_ha.coordination.reader_leases import hold
from airflow_provider_ha.driver.members.housekeeping import ATTEMPTS
from airflow_provider_ha.errors import JobStateError, LeadershipError, RecordCorruptError
from airflow_provider_ha.jobs.model import JobState, Operation, OperationKind
from airflow_provider_ha.jobs.removal import past_runs
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.removal.removal_records import RemovedRun, RemovedRunStore
from airflow_provider_ha.jobs.run_history import read_history
from airflow_provider_ha.jobs.runs.journal import JobJournal
from airflow_provider_ha.jobs.runs.output_claims import OutputClaim, OutputClaims, clear_claims
from airflow_provider_ha.jobs.runs.run_store import RunStore, reads_of_run, view_of_run
from airflow_provider_ha.jobs.runs.watchers import KillPolicy, claim, follow, follow_first
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.jobs_helpers import NOON, Interrupted, a_result, a_run, a_start, a_submission, an_exit


def over(job: Job, *numbers: int, state: JobState = JobState.FINISHED, attempts: int = 1) -> None:
    """Make runs that ended long ago, with all that a run leaves in ZooKeeper and in storage."""
    runs, journal = RunStore(job.coordinator, job.paths), JobJournal(job.objects, job.keys)
    for number in numbers:
        run = a_run(number, request_id=f"task-{number}")
        result = a_result(state).model_copy(update={"cleanup": "CLEAN"})
        ops: list[Op] = [runs.create_op(run), Create(job.paths.submissions(number)), runs.result_op(number, result)]
        for attempt in range(1, attempts + 1):
            journal.submission(run, a_submission(attempt))
            journal.started(number, a_submission(attempt), a_start())
            ops += [
                Create(job.paths.submission(number, attempt), a_submission(attempt).to_bytes()),
                Create(job.paths.submission_started(number, attempt), a_start().to_bytes()),
                Create(job.paths.submission_exit(number, attempt), an_exit().to_bytes()),
            ]
        journal.result(number, result)
        job.coordinator.commit(*ops)


def watched(job: Job, task: str, run: int | None = None) -> None:
    claim(job.coordinator, job.paths, task, ti_id="ti", when_killed=KillPolicy.DETACH)
    if run is not None:
        follow(job.coordinator, job.paths, task, run)


def past(job: Job, *, runs: int = 2, days: float = 7.0) -> PastRuns:
    return PastRuns(
        job.coordinator,
        job.paths,
        JobJournal(job.objects, job.keys),
        Retention(runs=runs, days=days),
        SystemClock(),
        lambda: runs_in_use(job.coordinator, job.paths),
    )


def clear(job: Job, *, runs: int = 2, days: float = 7.0) -> PastRuns:
    found = past(job, runs=runs, days=days)
    for _ in found.clear(job.leadership.commit):
        pass
    return found


def left(job: Job) -> list[int]:
    return RunStore(job.coordinator, job.paths).numbers()


def test_runs_that_are_long_over_go_but_the_newest(job: Job) -> None:
    over(job, *range(1, 7))

    clear(job, runs=3)

    assert left(job) == [4, 5, 6]
    assert RemovedRunStore(job.coordinator, job.paths).read().through == 3


def test_a_job_with_an_earlier_life_keeps_its_runs_claims_leases_and_journal(job: Job) -> None:
    """ZooKeeper had lost its data when these runs were made: a rebuild needs what is there of those before."""
    over(job, 1, 2, 3, 4)
    OutputClaims(job.coordinator, job.paths, job.leadership.commit, 1).claim("file:///out/1", "rows")
    hold(job.coordinator, job.paths, "checkpoint-3", holder="reader", seconds=0, clock=SystemClock())
    before = a_run(5, request_id="before").model_copy(update={"created_at": NOON - timedelta(hours=1)})
    JobJournal(job.objects, job.keys).submission(before, a_submission())
    for info in job.objects.list(f"{job.keys.journals}submission/"):
        os.utime(job.config.work_path / info.key, (1, 1))

    def everything() -> list[list[str]]:
        return [
            job.coordinator.children(job.paths.runs),
            job.coordinator.children(job.paths.cluster.outputs),
            job.coordinator.children(f"{job.paths.base}/leases"),
            sorted(info.key for info in job.objects.list(job.keys.journals)),
        ]

    had = everything()
    clear(job)

    assert everything() == had


def test_a_run_that_has_just_ended_stays_beyond_the_number(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    path = job.paths.run_result(2)
    now = a_result().model_copy(update={"at": SystemClock().now() - timedelta(days=6.9), "cleanup": "CLEAN"})
    job.coordinator.commit(SetData(path, now.to_bytes()))

    clear(job)

    assert left(job) == [2, 3, 4]


def test_a_run_that_is_not_cleaned_up_stays(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.coordinator.commit(SetData(job.paths.run_result(1), a_result().to_bytes()))

    clear(job)

    assert left(job) == [1, 3, 4]


def test_a_run_without_a_result_stays(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.coordinator.commit(Delete(job.paths.run_result(1)))

    clear(job)

    assert left(job) == [1, 3, 4]


def test_a_run_stays_while_the_death_of_one_of_its_processes_is_not_proven(job: Job) -> None:
    over(job, 1, 2, 3, 4, attempts=2)
    job.coordinator.commit(Delete(job.paths.submission_exit(1, 1)))

    found = clear(job)

    assert left(job) == [1, 3, 4]
    assert "death" in found.kept[1]


def test_a_proof_that_cannot_be_read_is_none(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.coordinator.commit(SetData(job.paths.submission_exit(1, 1), b"garbage"))

    clear(job)

    assert left(job) == [1, 3, 4]


def test_a_run_with_a_foreign_node_stays(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.coordinator.commit(Create(f"{job.paths.run(1)}/notes"), Create(f"{job.paths.submission(2, 1)}/notes"))

    found = clear(job)

    assert left(job) == [1, 2, 3, 4]
    assert "foreign" in found.kept[1]
    assert "foreign" in found.kept[2]


def test_the_run_of_a_retained_checkpoint_stays(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.add(1, 5)  # of run 1

    clear(job)

    assert left(job) == [1, 3, 4]


def test_nothing_goes_while_a_pointer_cannot_be_read(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.add(1, 5)
    job.coordinator.commit(SetData(job.paths.checkpoint(1), b"garbage"))

    with pytest.raises(RecordCorruptError):
        clear(job)

    assert left(job) == [1, 2, 3, 4]


def test_a_run_stays_until_what_it_has_claimed_is_given_up_and_removed(job: Job) -> None:
    over(job, 1, 2, 3, 4, 5)
    open_claim = Claim(run=1, epoch=1, adopted={}, at=NOON)
    given_up = open_claim.model_copy(update={"run": 2, "given_up": True})
    entry = DeletionList(job.coordinator, job.paths, clock=SystemClock()).entry("claim-2")
    job.coordinator.commit(
        Create(job.paths.run_claim(1), open_claim.to_bytes()),
        Create(job.paths.run_claim(2), given_up.to_bytes()),
        Create(job.paths.run_claim(3), given_up.model_copy(update={"run": 3}).to_bytes()),
        entry,
    )

    clear(job)

    assert left(job) == [1, 2, 4, 5]


def test_a_run_that_an_open_operation_asks_for_stays(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    asked = Operation(operation_id="op", operation=OperationKind.CANCEL, run=1, requested_by="test", requested_at=NOON)
    job.coordinator.commit(Create(job.paths.operation("op"), asked.to_bytes()))

    clear(job)

    assert left(job) == [1, 3, 4]


def test_a_deposed_leader_removes_no_run(job: Job) -> None:
    over(job, 1, 2, 3, 4)
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    with pytest.raises(LeadershipError):
        clear(job)

    assert left(job) == [1, 2, 3, 4]


def test_a_run_stays_when_newer_ones_are_gone(job: Job) -> None:
    """To remove the newest run takes the last number away: the next run would get it again."""
    over(job, 1, 2, 3, 4)
    found = past(job)
    removal = found.clear(job.leadership.commit)
    next(removal)  # run 1
    for number in (4, 3):
        job.coordinator.commit(
            *(Delete(f"{job.paths.submission(number, 1)}/{name}") for name in ("started", "exit")),
            Delete(job.paths.submission(number, 1)),
            Delete(job.paths.submissions(number)),
            Delete(job.paths.run_result(number)),
            Delete(job.paths.run(number)),
        )

    for _ in removal:
        pass

    assert left(job) == [2]


def test_the_claims_of_a_runs_tasks_go_with_it(job: Job) -> None:
    over(job, 1, 2, 3)
    watched(job, "task-1")
    watched(job, "follower", 1)
    watched(job, "task-2")
    watched(job, "follower-of-2", 2)

    clear(job)

    assert job.coordinator.children(job.paths.watchers) == ["follower-of-2", "follower-of-2-run", "task-2"]


def test_the_claim_of_a_request_stays_while_a_later_run_of_it_is_there(job: Job) -> None:
    over(job, 1, 2, 3, state=JobState.FAILED)
    later = a_run(3, request_id="task-1#2")
    job.coordinator.commit(SetData(job.paths.run(3), later.to_bytes()))
    watched(job, "task-1")

    clear(job)

    assert left(job) == [2, 3]
    assert job.coordinator.children(job.paths.watchers) == ["task-1"]
    assert RemovedRunStore(job.coordinator, job.paths).find("task-1") is None


def test_a_claim_that_is_taken_at_this_moment_keeps_the_run(job: Job) -> None:
    over(job, 1, 2, 3)
    watched(job, "task-1")

    def again() -> None:
        watched(job, "task-1")

    found = past(job)
    commits: list[tuple[Op, ...]] = []

    def commit(*ops: Op) -> list[int]:
        if not commits:
            again()
        commits.append(ops)
        return job.leadership.commit(*ops)

    for _ in found.clear(commit):
        pass

    assert left(job) == [1, 2, 3]
    assert "changes" in found.kept[1]


def test_a_request_is_noted_with_the_run_that_it_had_led_to(job: Job) -> None:
    over(job, 1, state=JobState.FAILED)
    over(job, 2, 3, 4)
    watched(job, "follower", 2)

    clear(job)

    notes = RemovedRunStore(job.coordinator, job.paths)
    assert notes.find("task-1") == RemovedRun(run=1, failed=True)
    assert notes.find("task-2") == RemovedRun(run=2)
    assert notes.find("follower") == RemovedRun(run=2)
    assert notes.find("task-3") is None


def test_a_task_whose_run_was_removed_follows_no_other(job: Job) -> None:
    over(job, 1, 2, 3)
    watched(job, "follower", 1)
    clear(job)

    with pytest.raises(JobStateError, match="run 1 of job 'flights' was over and has been removed"):
        follow_first(job.coordinator, job.paths, "follower", 3)

    assert follow_first(job.coordinator, job.paths, "another", 3) == 3


def test_notes_fill_node_after_node_and_the_oldest_go(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_ha.jobs.removal.removal_records.PER_PART", 2)
    monkeypatch.setattr("airflow_provider_ha.jobs.removal.removal_records.PARTS", 2)
    over(job, *range(1, 10))

    clear(job)

    notes = RemovedRunStore(job.coordinator, job.paths)
    assert job.coordinator.children(job.paths.removed_runs) == ["3", "4"]
    assert [number for number in range(1, 10) if notes.find(f"task-{number}")] == [5, 6, 7]


def test_the_journal_forgets_a_run_after_zookeeper(job: Job) -> None:
    over(job, 1, 2, 3, 4)

    clear(job)

    names = [info.key.rpartition("/")[2] for info in job.objects.list(job.keys.journals)]
    assert {int(name.partition("-")[0]) for name in names} == {3, 4}


def test_the_journal_keeps_what_zookeeper_has_lost(job: Job) -> None:
    """A run that is not there is removed only when ZooKeeper says so: its data may be lost."""
    journal = JobJournal(job.objects, job.keys)
    over(job, 1, 2, 3)
    for number in (2, 7):
        journal.submission(a_run(number), a_submission())
        journal.result(number, a_result())

    clear(job)

    runs = {int(info.key.rpartition("/")[2].partition("-")[0]) for info in job.objects.list(job.keys.journals)}
    assert runs == {2, 3, 7}


def test_a_run_with_very_many_submissions_goes_in_pieces(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(past_runs, "_OPS", 10)
    over(job, 1, attempts=ATTEMPTS)
    over(job, 2, 3)
    for task in range(15):
        watched(job, f"follower-{task}", 1)
    sizes = []

    def commit(*ops: Op) -> list[int]:
        sizes.append(len(ops))
        return job.leadership.commit(*ops)

    for _ in past(job).clear(commit):
        pass

    assert left(job) == [2, 3]
    assert max(sizes) <= 2 * 10 + 5
    assert job.coordinator.children(job.paths.watchers) == []


def test_a_dry_run_names_the_runs_and_changes_nothing(job: Job) -> None:
    over(job, 1, 2, 3, 4)

    found = [each.run.number for each in past(job).find()]

    assert found == [1, 2]
    assert left(job) == [1, 2, 3, 4]


def test_a_run_that_is_removed_while_it_is_read_is_no_live_run(job: Job) -> None:
    over(job, 1, 2, 3)
    seen = job.coordinator.read(reads_of_run(job.paths, 1))
    clear(job)

    with pytest.raises(JobStateError, match="removed"):
        view_of_run(job.coordinator, job.paths, 1, seen)


@pytest.mark.parametrize("before_read", range(8))
def test_a_reader_sees_the_run_or_not(job: Job, before_read: int) -> None:
    """Between any two of its requests: never a run without its result."""
    over(job, 1, 2, 3)
    reader = Interrupted(job.coordinator, lambda: clear(job), before_read=before_read)

    try:
        view = RunStore(reader, job.paths).get(1)
    except JobStateError as error:
        assert "removed" in error.message  # noqa: PT017  # both ends are right
    else:
        assert view.result is not None


def test_the_claims_of_outputs_go_with_the_end_of_their_run(job: Job) -> None:
    over(job, 1)
    job.coordinator.commit(RunStore(job.coordinator, job.paths).create_op(a_run(2)))
    for run, place in ((1, "file:///out/1"), (2, "file:///out/2")):
        OutputClaims(job.coordinator, job.paths, job.leadership.commit, run).claim(place, "rows")
    other = OutputClaim(place="file:///out/3", job_id="another", run=1, query="rows")
    job.coordinator.commit(
        Create(job.paths.cluster.output("3"), other.to_bytes()), Create(job.paths.cluster.output("4"), b"garbage")
    )

    clear(job)

    parent = job.paths.cluster.outputs
    found = [job.coordinator.get(f"{parent}/{name}").data for name in job.coordinator.children(parent)]
    places = {OutputClaim.from_bytes(data, source="").place for data in found if data != b"garbage"}
    assert places == {"file:///out/2", "file:///out/3"}
    assert b"garbage" in found


def test_an_output_that_another_job_takes_at_this_moment_stays_its_own(job: Job) -> None:
    over(job, 1)
    OutputClaims(job.coordinator, job.paths, job.leadership.commit, 1).claim("file:///out", "rows")
    path = f"{job.paths.cluster.outputs}/{job.coordinator.children(job.paths.cluster.outputs)[0]}"
    other = OutputClaim(place="file:///out", job_id="another", run=1, query="rows")

    def commit(*ops: Op) -> list[int]:
        job.coordinator.commit(SetData(path, other.to_bytes()))
        return job.leadership.commit(*ops)

    for _ in clear_claims(job.coordinator, job.paths, commit):
        pass

    assert job.coordinator.get(path).data == other.to_bytes()


def test_leases_on_what_is_gone_go_once_they_have_expired(job: Job) -> None:
    job.add(1, 5)
    listed = DeletionList(job.coordinator, job.paths, clock=SystemClock()).entry("checkpoint-2")
    job.coordinator.commit(listed)
    for what in ("checkpoint-1", "checkpoint-2", "checkpoint-3", "savepoint-x", "claim-1"):
        hold(job.coordinator, job.paths, what, holder="reader", seconds=0, clock=SystemClock())
    hold(job.coordinator, job.paths, "checkpoint-4", holder="reader", seconds=60, clock=SystemClock())
    hold(job.coordinator, job.paths, "savepoint-y", holder="reader", seconds=60, clock=SystemClock()).release()

    clear(job)

    left = job.coordinator.children(f"{job.paths.base}/leases")
    assert left == ["checkpoint-1", "checkpoint-2", "checkpoint-4", "claim-1"]


@pytest.mark.parametrize("before_read", range(0, 36, 3))
def test_a_history_has_a_run_as_a_whole_or_not(job: Job, before_read: int) -> None:
    over(job, 1, 2, 3, 4)
    reader = Interrupted(job.coordinator, lambda: clear(job), before_read=before_read)

    runs = {each.run.number: each for each in read_history(reader, job.paths).runs}

    assert {3, 4} <= runs.keys()
    assert all(each.result is not None and len(each.attempts) == 1 for each in runs.values())
