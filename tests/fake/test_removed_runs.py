"""Requests, tasks and readers that come while runs are removed, or after that: real code on the fake ensemble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from airflow_provider_ha.config import Retention
from airflow_provider_ha.coordination.coordinator import Create, Delete, Op
from airflow_provider_ha.errors import JobStateError, RecordCorruptError
from airflow_provider_ha.jobs.job_context import JobContext
from airflow_provider_ha.jobs.model import JobState, Run, RunResult, StartPoint
from airflow_provider_ha.jobs.recovery.transactions import take_lock
from airflow_provider_ha.jobs.removal.past_runs import PastRuns
from airflow_provider_ha.jobs.removal.removal_records import RemovedRuns
from airflow_provider_ha.jobs.runs.watchers import KillPolicy, claim, follow
from airflow_provider_ha.jobs.submit.run_submission import PreparedSubmission as PreparedRun
from airflow_provider_ha.jobs.submit.run_submission import check_submission, failed_run, refuse_removed, submit_run
from tests.fake.jobs import PATHS, Prepared, World
from tests.fake.orders import RUNNING, explore, leading, quick


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with quick(monkeypatch):
        yield


def ended(world: World, number: int, state: JobState, request: str) -> list[Op]:
    """Return what a run leaves that ended a month ago before it was submitted to the engine."""
    at = world.ensemble.clock.now() - timedelta(days=30)
    run = Run(number=number, graph=RUNNING.graph, start=StartPoint(), request_id=request, created_at=at)
    result = RunResult.model_validate({"state": state, "cleanup": "CLEAN", "epoch": 1, "at": at})
    return [
        Create(PATHS.run(number), run.to_bytes()),
        Create(PATHS.submissions(number)),
        Create(PATHS.run_result(number), result.to_bytes()),
    ]


def old(state: JobState = JobState.FINISHED) -> Prepared:
    """Make a job whose three runs are long over; the first one of request-old, in *state*."""
    world = RUNNING.world()
    leading(world)[1]()
    doomed = [f"{PATHS.submission(1, 1)}/started", PATHS.submission(1, 1), PATHS.submissions(1)]
    doomed += [PATHS.run_result(1), PATHS.run(1)]
    ops: list[Op] = [Delete(path) for path in doomed]
    ops += ended(world, 1, state, "request-old")
    ops += ended(world, 2, JobState.FINISHED, "request-2") + ended(world, 3, JobState.FINISHED, "request-3")
    world.ensemble.apply(ops, session_id=0, client="maker")
    return Prepared(world.ensemble.tree, world.ensemble.zxid, dict(world.store.objects), RUNNING.graph)


OLD = old()
OLD_FAILED = old(JobState.FAILED)


def remove(job: JobContext) -> None:
    """Remove run 1, as the leader of the job."""
    past = PastRuns(job.coordinator, job.paths, job.journal, Retention(runs=2, days=7), job.clock, frozenset)
    with take_lock(job, 3) as leadership:
        for _ in past.clear(leadership.commit):
            pass


def ask(job: JobContext, request: str) -> int:
    return submit_run(job, request, lambda: PreparedRun(RUNNING.graph, StartPoint())).run


def removing(world: World) -> Callable[[], object]:
    job = world.job(world.session("remover"))
    return lambda: remove(job)


def asking(world: World, request: str) -> Callable[[], object]:
    job = world.job(world.session("asking"))
    return lambda: ask(job, request)


def runs(world: World) -> list[str]:
    return world.ensemble.tree.children(PATHS.runs) or []


@pytest.fixture
def world() -> World:
    return OLD.world()


def test_a_request_whose_run_was_removed_makes_no_other(world: World, job: JobContext) -> None:
    remove(job)

    with pytest.raises(JobStateError, match="request 'request-old' has led to run 1 of job 'flights'") as refused:
        ask(job, "request-old")

    assert "new request" in refused.value.next_step
    assert runs(world) == ["2", "3"]


def test_a_plan_of_such_a_request_is_refused_as_well(job: JobContext) -> None:
    remove(job)

    with pytest.raises(JobStateError, match="was removed"):
        check_submission(job, "request-old", on_lost=lambda _: pytest.fail("there is no lost run"))


def test_a_removed_run_that_failed_is_repeated_by_a_clear_and_not_by_a_retry() -> None:
    world = OLD_FAILED.world()
    job = world.job(world.session("caller"))
    remove(job)

    with pytest.raises(JobStateError, match="run 1 of job 'flights' was over and has been removed"):
        failed_run(job, "request-old")

    assert ask(job, "request-old") == 4


def test_a_request_that_followed_a_removed_run_is_refused(job: JobContext) -> None:
    claim(job.coordinator, job.paths, "follower", ti_id="ti", when_killed=KillPolicy.DETACH)
    follow(job.coordinator, job.paths, "follower", 1)
    remove(job)

    with pytest.raises(JobStateError, match="run 1"):
        ask(job, "follower")


def test_other_requests_go_on(job: JobContext) -> None:
    remove(job)

    assert ask(job, "request-2") == 2
    assert ask(job, "request-new") == 4


def test_a_note_that_cannot_be_read_is_no_free_pass(world: World, job: JobContext) -> None:
    remove(job)
    node = world.ensemble.tree.get(PATHS.removed_requests(1))
    assert node is not None
    world.ensemble.apply(
        [Delete(PATHS.removed_requests(1)), Create(PATHS.removed_requests(1), b"garbage")], session_id=0, client="maker"
    )

    with pytest.raises(RecordCorruptError):
        ask(job, "request-new")


def test_numbers_go_on_when_every_run_is_gone(world: World, job: JobContext) -> None:
    doomed = [path for number in (1, 2, 3) for path in (PATHS.submissions(number), PATHS.run_result(number))]
    doomed += [PATHS.run(number) for number in (1, 2, 3)]
    ops: list[Op] = [Delete(path) for path in doomed]
    ops.append(Create(PATHS.removed_runs, RemovedRuns(through=3).to_bytes()))
    world.ensemble.apply(ops, session_id=0, client="maker")

    assert ask(job, "request-new") == 4


@pytest.mark.slow
def test_a_request_that_comes_while_its_run_is_removed_makes_no_other() -> None:
    """In every order: it finds its run, or it is refused."""
    ends: Counter[str] = explore(
        OLD, lambda world: {"remover": removing(world), "asking": asking(world, "request-old")}
    )

    assert ends["asking: done"]
    assert ends["asking: JobStateError"]
    assert ends["FINISHED, 0 launched"] + ends["live, 0 launched"] == ends["schedules"]  # "live": run 1 is gone


@pytest.mark.hours
def test_a_new_run_that_is_made_while_old_ones_are_removed() -> None:
    """Both are done in every order, and the number is that of no earlier run."""
    seen: list[set[str]] = []

    def cast(world: World) -> dict[str, Callable[[], object]]:
        new = asking(world, "request-new")

        def made() -> None:
            new()
            seen.append(set(runs(world)))

        return {"remover": removing(world), "asking": made}

    ends = explore(OLD, cast)

    assert ends["asking: done"] == ends["schedules"]
    assert all("4" in numbers and "5" not in numbers for numbers in seen)


def test_a_request_without_a_run_has_no_note(job: JobContext) -> None:
    refuse_removed(job, "request-new")
