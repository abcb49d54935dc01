"""What a leader removes and forgets, on a real ZooKeeper and real directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import NoReturn

import pytest

from airflow_provider_ha.checkpoints.areas.layered.layered_work_area import LayeredWorkArea
from airflow_provider_ha.checkpoints.areas.linked_work_area import LinkedWorkArea, fence_directory
from airflow_provider_ha.checkpoints.areas.pins import pin
from airflow_provider_ha.checkpoints.areas.working_records import carry
from airflow_provider_ha.checkpoints.model import QueryCut, QuerySink, SinkKind
from airflow_provider_ha.checkpoints.restore.facts import RestoreCase, gather_facts
from airflow_provider_ha.checkpoints.restore.plan_execution import prepare_recovery
from airflow_provider_ha.checkpoints.restore.query_records import LastDirectory, following
from airflow_provider_ha.checkpoints.restore.select import RestoreSource
from airflow_provider_ha.checkpoints.spark.local_tree import LocalTree
from airflow_provider_ha.clock import SystemClock
from airflow_provider_ha.coordination.coordinator import SetData
from airflow_provider_ha.driver.members.housekeeping import Housekeeping
from airflow_provider_ha.driver.operations_loop import OperationHandlers, OperationsLoop
from airflow_provider_ha.driver.script import Lifecycle
from airflow_provider_ha.errors import LeadershipError
from airflow_provider_ha.jobs.model import DrainedQuery, JobState, OperationKind, OperationState, RunResult
from airflow_provider_ha.jobs.operations import operations
from airflow_provider_ha.jobs.runs.journal import JobJournal, has_earlier_life
from airflow_provider_ha.jobs.runs.run_store import RunStore
from airflow_provider_ha.storage.keys import JobKeys
from airflow_provider_ha.storage.local_store import LocalStore
from tests.support.checkpoints.checkpoint_helpers import Job
from tests.support.clusters.jobs_helpers import NOON, a_run, a_submission
from tests.support.spark.recorded_job import QUERY, copy_live


def directories(job: Job, *names: str) -> Path:
    """Make working directories with something in them; returns their parent."""
    live = job.config.work_path / JobKeys(job.paths.job_id).base / "live"
    for name in names:
        (live / name / "query").mkdir(parents=True)
        (live / name / "query" / "metadata").write_text("{}")
    return live


def housekeeping(job: Job, current: str = "e3-new") -> Housekeeping:
    key = f"{JobKeys(job.paths.job_id).base}/live/{current}"
    runs = RunStore(job.coordinator, job.paths)
    return Housekeeping(runs, job.leadership, job.checkpoints, LinkedWorkArea(job.config.work_path), key)


def run_with_result(
    job: Job, number: int, *, epoch: int = 1, drained: Mapping[str, DrainedQuery] | None = None
) -> None:
    create_run(job, number)
    result = RunResult(state=JobState.FINISHED, epoch=epoch, drained=dict(drained or {}), at=NOON)
    job.coordinator.commit(RunStore(job.coordinator, job.paths).result_op(number, result))


def create_run(job: Job, number: int) -> None:
    runs = RunStore(job.coordinator, job.paths)
    job.coordinator.commit(
        runs.create_op(a_run(number, request_id=f"r{number}")), *runs.submission_ops(number, a_submission())
    )


def cleanup(job: Job, run: int) -> str:
    result = RunStore(job.coordinator, job.paths).result(run)
    assert result is not None
    return result.cleanup


def names(live: Path) -> list[str]:
    return sorted(path.name for path in live.iterdir())


def test_end_of_a_run_removes_every_working_directory_but_the_newest(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e2-b.dead", "e2-b.drain", ".e1-c.77.removed", "e3-new", "e4-later")
    run_with_result(job, 1, epoch=3, drained={"query": DrainedQuery(batch=3)})

    housekeeping(job).finish(1)

    assert names(live) == ["e3-new", "e4-later"]
    assert cleanup(job, 1) == "CLEAN"


def test_a_job_with_an_earlier_life_removes_nothing(job: Job) -> None:
    """ZooKeeper had lost its data when the run was made: the directories may be those that a rebuild needs."""
    live = directories(job, "e1-a.dead", "e2-b", "e3-new")
    journal = JobJournal(LocalStore(job.config.work_path), JobKeys(job.paths.job_id))
    journal.submission(a_run(1, request_id="before"), a_submission())
    later = a_run(1).model_copy(update={"created_at": SystemClock().now() + timedelta(hours=1)})
    runs = RunStore(job.coordinator, job.paths)
    job.coordinator.commit(runs.create_op(later), *runs.submission_ops(1, a_submission()))
    job.coordinator.commit(runs.result_op(1, RunResult(state=JobState.FINISHED, epoch=3, at=NOON)))
    earlier = partial(has_earlier_life, job.coordinator, job.paths, journal)

    replace(housekeeping(job), earlier_life=earlier).finish(1)

    assert names(live) == ["e1-a.dead", "e2-b", "e3-new"]


def test_the_fork_of_a_drain_that_was_not_finished_stays_for_the_restore(job: Job) -> None:
    """It alone says that a batch of the sinks is the drain's: without it the restore is LOSS_POSSIBLE."""
    live = directories(job, "e1-a.dead", "e1-a.drain", "e2-b.dead", "e2-b.drain", "e3-new")
    run_with_result(job, 1, epoch=4)

    housekeeping(job).finish(1)

    assert names(live) == ["e2-b.drain", "e3-new"]
    assert cleanup(job, 1) == "CLEAN"


def test_the_driver_of_the_next_run_removes_the_fork_of_a_drain(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e1-a.drain", "e3-new")
    run_with_result(job, 1, epoch=2)
    create_run(job, 2)

    list(housekeeping(job).finish_earlier(2))

    assert names(live) == ["e3-new"]


def test_directory_that_a_checkpoint_without_a_pin_lies_in_stays(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e2-b.dead", "e3-new")
    base = JobKeys(job.paths.job_id).base
    made = job.checkpoint(1, 5, pin=False).model_copy(update={"directory": f"{base}/live/e2-b"})
    job.checkpoints.add(job.leadership, made)
    run_with_result(job, 1)

    housekeeping(job).finish(1)

    assert names(live) == ["e2-b.dead", "e3-new"]


def test_nothing_is_removed_while_a_checkpoint_cannot_be_read(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e3-new")
    job.add(1, 5)
    job.coordinator.commit(SetData(job.paths.checkpoint(1), b"garbled"))
    run_with_result(job, 1)

    housekeeping(job).finish(1)

    assert names(live) == ["e1-a.dead", "e3-new"]
    assert cleanup(job, 1) == "DIRTY"


def test_result_that_a_crash_left_dirty_is_cleaned_by_the_next_runs_leader(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e3-new")
    run_with_result(job, 1)
    run_with_result(job, 2)

    list(housekeeping(job).finish_earlier(2))

    assert names(live) == ["e3-new"]
    assert (cleanup(job, 1), cleanup(job, 2)) == ("CLEAN", "DIRTY")


def test_driver_of_a_long_run_keeps_the_newest_fenced_directory_only(job: Job) -> None:
    create_run(job, 1)
    live = directories(
        job, "e9-a.dead", "e10-b.dead", "e11-c.dead", "e11-c.drain", "e12-half", "e13-new", "e14-later", "e15-d.dead"
    )

    list(housekeeping(job, "e13-new").finish_earlier(1))

    assert names(live) == ["e11-c.dead", "e11-c.drain", "e12-half", "e13-new", "e14-later", "e15-d.dead"]


def test_the_fork_of_an_unfinished_drain_stays_where_a_fence_renames_nothing(job: Job, tmp_path: Path) -> None:
    """There every earlier directory looks like a fenced one; a fork of an earlier run is not the newest of them."""
    area = LayeredWorkArea(LocalStore(tmp_path / "work", new=True))
    live = JobKeys(job.paths.job_id).live
    for name in ("e1-a", "e2-b", "e2-b.drain", "e3-c", "e4-new"):
        area.create(f"{live}{name}")
    create_run(job, 1)
    keeper = Housekeeping(RunStore(job.coordinator, job.paths), job.leadership, job.checkpoints, area, f"{live}e4-new")

    list(keeper.finish_earlier(1))

    assert area.list(live) == ["e2-b.drain", "e3-c", "e4-new"]


def test_the_newest_fenced_directory_stays_beside_the_fork_of_an_earlier_run(job: Job, tmp_path: Path) -> None:
    area = LayeredWorkArea(LocalStore(tmp_path / "work", new=True))
    live = JobKeys(job.paths.job_id).live
    for name in ("e1-a", "e2-b", "e2-b.drain", "e4-new"):
        area.create(f"{live}{name}")
    run_with_result(job, 1, epoch=3)
    runs = RunStore(job.coordinator, job.paths)
    job.coordinator.commit(runs.clean_op(1) or pytest.fail("it is CLEAN already"))
    create_run(job, 2)

    list(Housekeeping(runs, job.leadership, job.checkpoints, area, f"{live}e4-new").finish_earlier(2))

    assert area.list(live) == ["e2-b", "e4-new"]


def test_fenced_directory_that_a_checkpoint_without_a_pin_lies_in_stays_while_the_run_goes_on(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e2-b.dead", "e3-c.dead", "e4-new")
    base = JobKeys(job.paths.job_id).base
    made = job.checkpoint(1, 5, pin=False).model_copy(update={"directory": f"{base}/live/e1-a"})
    job.checkpoints.add(job.leadership, made)

    list(housekeeping(job, "e4-new").finish_earlier(1))

    assert names(live) == ["e1-a.dead", "e3-c.dead", "e4-new"]


def test_no_fenced_directory_is_removed_while_a_checkpoint_cannot_be_read(job: Job) -> None:
    live = directories(job, "e1-a.dead", "e2-b.dead", "e3-new")
    job.add(1, 5)
    job.coordinator.commit(SetData(job.paths.checkpoint(1), b"garbled"))

    list(housekeeping(job).finish_earlier(1))

    assert names(live) == ["e1-a.dead", "e2-b.dead", "e3-new"]


@pytest.mark.timeout(300)
def test_after_three_losses_a_restore_to_before_the_first_one_misses_no_removed_directory(job: Job) -> None:
    live = directories(job)
    live.mkdir(parents=True)
    copy_live(live / "e1-a")
    pin(live / "e1-a", job.pin_path(1), {QUERY: 6})
    for before, after in (("e1-a", "e2-b"), ("e2-b", "e3-c"), ("e3-c", "e4-new")):
        fenced = fence_directory(live / before)
        (live / after).mkdir()
        forked = prepare_recovery(LinkedWorkArea(live), fenced.name, after)
        carry(LocalTree(fenced), LocalTree(live / after), forked, {QUERY: 6})
        list(housekeeping(job, after).finish_earlier(1))
    cut = QueryCut(batch=6, sink=QuerySink(kind=SinkKind.FOREACH_BATCH))
    chosen = RestoreSource("checkpoint", "1", "pin", {QUERY: cut}, 1, 1, "g", "4.2.0", NOON)

    last = LastDirectory(LinkedWorkArea(live.parent), "live/e4-new", epoch=4, run=1)
    facts = gather_facts(RestoreCase(chosen=chosen, at=NOON, root=LocalTree(job.pin_path(1)), last=last))

    assert names(live) == ["e3-c.dead", "e4-new"]
    assert [entry.batch for entry in following(facts.queries[QUERY].history, 6)] == list(range(7, 14))


def test_deposed_leader_marks_nothing(job: Job) -> None:
    directories(job, "e1-a.dead", "e3-new")
    run_with_result(job, 1)
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    housekeeping(job).finish(1)

    assert cleanup(job, 1) == "DIRTY"


def test_deposed_leader_removes_no_directory(job: Job) -> None:
    """The removal comes long after the grant: the next leader may read what this one takes for superfluous."""
    live = directories(job, "e1-a.dead", "e3-new")
    run_with_result(job, 1)
    job.coordinator.commit(SetData(job.paths.epoch, b"another leader"))

    housekeeping(job).finish(1)
    with pytest.raises(LeadershipError):
        list(housekeeping(job).finish_earlier(2))

    assert names(live) == ["e1-a.dead", "e3-new"]


def test_leader_forgets_answers_that_are_older_than_a_week(job: Job) -> None:
    clock = SystemClock()
    run = RunStore(job.coordinator, job.paths)
    job.coordinator.commit(run.create_op(a_run()), *run.submission_ops(1, a_submission()))
    for name in ("old", "new"):
        operations.request(
            job.coordinator,
            job.paths,
            OperationKind.SAVEPOINT,
            operation_id=name,
            arguments={},
            requested_by="test",
            clock=clock,
        )
        found = operations.read(job.coordinator, job.paths, name)
        assert found is not None
        answered = operations.complete(job.leadership, job.paths, found, result={}, clock=clock)
        if name == "old":
            long_ago = answered.model_copy(update={"finished_at": clock.now() - timedelta(days=8)})
            job.coordinator.commit(SetData(job.paths.operation(name), long_ago.to_bytes()))

    _loop(job).look()

    assert job.coordinator.children(job.paths.operations) == ["new"]


def test_a_savepoint_that_is_asked_for_too_early_waits_until_it_can_be_whole(job: Job) -> None:
    clock = SystemClock()
    run = RunStore(job.coordinator, job.paths)
    job.coordinator.commit(run.create_op(a_run()), *run.submission_ops(1, a_submission()))
    operations.request(
        job.coordinator,
        job.paths,
        OperationKind.SAVEPOINT,
        operation_id="early",
        arguments={},
        requested_by="test",
        clock=clock,
    )

    _loop(job, ready=False).look()
    waiting = operations.read(job.coordinator, job.paths, "early")
    _loop(job, ready=True).look()
    begun = operations.read(job.coordinator, job.paths, "early")

    assert waiting is not None
    assert begun is not None
    assert (waiting.state, begun.state) == (OperationState.REQUESTED, OperationState.RUNNING)


def _loop(job: Job, *, ready: bool = True) -> OperationsLoop:
    def unexpected(*_: object) -> NoReturn:
        raise AssertionError("nothing is to be done")

    handlers = OperationHandlers(lambda _: ready, *[unexpected] * 9)
    return OperationsLoop(
        coordinator=job.coordinator,
        paths=job.paths,
        leadership=job.leadership,
        lifecycle=Lifecycle(),
        handlers=handlers,
        run=1,
        clock=SystemClock(),
        failed=unexpected,
    )
