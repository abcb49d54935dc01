"""A standby driver against every other process that acts on a lost run: real code on the fake ensemble."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_ha.api.job_client import JobClient
from airflow_provider_ha.coordination.znode_records import read_record
from airflow_provider_ha.driver.standby import takeover
from airflow_provider_ha.driver.standby.takeover import MissedPromotionError, RunOverError
from airflow_provider_ha.errors import JobStateError
from airflow_provider_ha.jobs.job_graph import GraphPointer
from airflow_provider_ha.jobs.model import JobState, Recovery
from airflow_provider_ha.jobs.recovery.transactions import claim, new_submission
from airflow_provider_ha.jobs.runs.standbys import TURN_SECONDS, StandbyStore
from airflow_provider_ha.jobs.runs.submissions import SubmissionLed
from tests.fake import random_takeovers
from tests.fake.jobs import PATHS, World, prepare
from tests.fake.orders import (
    LOST,
    RUNNING,
    a_standby,
    canceling,
    driver,
    explore,
    leading,
    promoting,
    quick,
    recovering,
    submit_again,
)
from tests.support.clusters.dead_driver import cancel_is_open


pytestmark = pytest.mark.timeout(900)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with quick(monkeypatch):
        yield


@pytest.fixture
def world() -> World:
    """Run 1 was led in epoch 1, and its driver is lost."""
    return LOST.world()


def test_a_promotion_is_a_recovery_in_one_transaction(world: World) -> None:
    play = promoting("standby")(world)
    before = len(world.ensemble.history)

    play()

    granted = next(each for each in world.ensemble.history[before:] if any(op.path == PATHS.leader for op in each.ops))
    written = {op.path for op in granted.ops}
    attempt = PATHS.submission(1, 2)
    assert {attempt, f"{attempt}/started", f"{attempt}/led", PATHS.recovery(1), PATHS.standby(1, "standby")} <= written


def test_a_promoted_standby_driver_is_the_newest_submission_and_leads(world: World) -> None:
    session = world.session("reader")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "finish", lambda *_, **__: None)  # it leads on
        patch.setattr("airflow_provider_ha.coordination.leadership.Leadership.release", lambda _: None)
        patch.setattr("tests.support.fake.FakeCoordinator.close", lambda _: None)
        promoting("standby")(world)()

    snapshot = world.job(session).snapshot()
    assert snapshot.run is not None
    assert snapshot.run.newest is not None
    submission, leader = snapshot.run.newest.submission, snapshot.leader
    assert (submission.attempt, submission.submission_id, submission.standby) == (2, "standby", True)
    assert leader is not None
    assert (leader.run, leader.attempt, leader.epoch) == (1, 2, 2)
    led = read_record(session, PATHS.submission_led(1, 2), SubmissionLed)
    recovery = read_record(session, PATHS.recovery(1), Recovery)
    pointer = read_record(session, PATHS.job_graph, GraphPointer)
    assert led is not None
    assert recovery is not None
    assert pointer is not None
    assert (led[0].epoch, recovery[0].attempt, pointer[0].attempt) == (2, 2, 2)
    assert StandbyStore(session, PATHS, 1).living() == ()


def test_the_loss_of_a_promoted_driver_is_a_loss_as_any_other(world: World) -> None:
    """One transaction creates its submission and grants its epoch, so neither is older than the other."""
    session = world.session("standby-1")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(World, "finish", lambda *_, **__: None)
        promoting("standby")(world)()  # it releases the lock, without a result
    snapshot = world.job(session).snapshot()
    assert snapshot.state is JobState.LOST

    promoting("second")(world)()

    recovery = read_record(session, PATHS.recovery(2), Recovery)
    assert recovery is not None
    assert recovery[0].attempt == 3


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(lambda world: leading(world), id="a leader"),
        pytest.param(submit_again, id="a submission on its way"),
    ],
)
def test_a_standby_driver_waits_beside(world: World, event: Callable[[World], object]) -> None:
    play = promoting("standby")(world)
    event(world)

    with pytest.raises(JobStateError, match="not due"):
        play()

    assert StandbyStore(world.session("reader"), PATHS, 1).ids() == ["standby"]


def test_a_standby_driver_whose_session_has_ended_is_not_promoted(world: World) -> None:
    play = promoting("standby", joins=False)(world)

    with pytest.raises(JobStateError, match="not due"):
        play()

    job = world.job(world.session("reader"))
    assert job.snapshot().state is JobState.LOST
    assert [view.submission.attempt for view in job.runs.get(1).submissions] == [1]


def test_a_standby_driver_undoes_no_cancel(world: World) -> None:
    play = promoting("standby")(world)
    cancel_is_open(world.job(world.session("canceler")))

    with pytest.raises(JobStateError, match="not due"):
        play()

    assert len(world.job(world.session("reader")).runs.get(1).submissions) == 1


def test_a_standby_driver_of_a_run_that_is_over_ends(world: World) -> None:
    play = promoting("standby")(world)
    canceling(world)()

    with pytest.raises(RunOverError):
        play()


def test_a_promotion_that_was_not_heard_of_is_not_repeated(world: World) -> None:
    """The process has led under its id without knowing; a second attempt with the same id would hide that."""
    job = world.job(world.session("maker"))
    submission = new_submission(job, 2, by="a standby driver", engine="local", lost_epoch=1)
    assert claim(job, 1, submission.model_copy(update={"submission_id": "standby", "standby": True}))
    session = world.session("zombie")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.clusters.jobs_helpers.admit_attempt", lambda *_: None)
        world.lead(world.job(session), run=1, attempt=2)
    session.close()

    with pytest.raises(MissedPromotionError):
        promoting("standby")(world)()


def test_a_run_has_no_more_standby_drivers_than_its_job_requests(world: World) -> None:
    session = world.session("one")
    store = StandbyStore(session, PATHS, 1)

    assert store.join(a_standby("one"), 1)
    assert not StandbyStore(world.session("two"), PATHS, 1).join(a_standby("two"), 1)
    session.close()
    assert StandbyStore(world.session("three"), PATHS, 1).join(a_standby("three"), 1)


def test_a_standby_driver_joins_no_run_that_is_over(world: World) -> None:
    canceling(world)()

    assert not StandbyStore(world.session("one"), PATHS, 1).join(a_standby("one"), 1)


def test_a_recovery_leaves_the_first_turn_to_a_standby_driver_that_is_ready(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    promote = promoting("standby", is_ready=True)(world)
    monkeypatch.setattr(world.ensemble, "sleep", lambda _: promote())

    with pytest.raises(JobStateError, match="never run again"):  # the promoted driver has finished it
        recovering("operator")(world)()

    assert world.engine.launched == []


def test_a_recovery_does_not_wait_for_a_standby_driver_that_does_not_take_over(world: World) -> None:
    promoting("standby", is_ready=True)(world)
    before = world.ensemble.clock.lease_time()

    recovering("operator")(world)()

    assert world.engine.launched == [(1, 2)]
    assert TURN_SECONDS <= world.ensemble.clock.lease_time() - before < 2 * TURN_SECONDS


def test_a_standby_driver_that_is_not_ready_leaves_the_first_turn_to_one_that_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = at(monkeypatch, 100.0)
    cold, _ = promoting("cold")(world), promoting("warm", is_ready=True)(world)

    with pytest.raises(JobStateError, match="not due"):
        cold()
    now.append(100.0 + TURN_SECONDS)
    cold()

    assert world.job(world.session("reader")).snapshot().state is JobState.FINISHED


def test_a_standby_driver_waits_for_the_delay_of_a_restart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exit, the delay begins when the standby driver first sees the loss."""
    now = at(monkeypatch, 100.0)
    world = prepare(led=True, restart_delay=7.0).world()
    play = promoting("standby")(world)

    for moment in (100.0, 106.9):
        now.append(moment)
        with pytest.raises(JobStateError, match="not due"):
            play()
    now.append(107.0)
    play()

    assert world.job(world.session("reader")).snapshot().state is JobState.FINISHED


def at(monkeypatch: pytest.MonkeyPatch, moment: float) -> list[float]:
    """Set the time of standby drivers; the last element of the list that is returned is the present."""
    moments = [moment]
    clock = SimpleNamespace(monotonic=lambda: moments[-1], time=time.time, sleep=lambda _: None)
    monkeypatch.setattr(takeover, "time", clock)
    return moments


def test_two_standby_drivers_that_see_one_loss() -> None:
    ends = explore(
        LOST, lambda world: {"one": promoting("one")(world), "other": promoting("other")(world)}, preemptions=2
    )

    assert ends["FINISHED, 0 launched"] == ends["schedules"]
    assert {"one: done", "other: done"} <= set(ends)


def test_a_promotion_while_the_loss_is_recovered() -> None:
    ends = explore(
        LOST,
        lambda world: {"standby": promoting("standby")(world), "operator": recovering("operator")(world)},
        preemptions=2,
    )

    assert ends["FINISHED, 0 launched"]
    assert ends["live, 1 launched"]


def test_a_promotion_while_the_run_is_canceled() -> None:
    ends = explore(
        LOST, lambda world: {"standby": promoting("standby")(world), "cancel": canceling(world)}, preemptions=2
    )

    assert ends["FINISHED, 0 launched"]
    assert ends["CANCELED, 0 launched"]


def test_a_promotion_while_a_late_driver_leads() -> None:
    ends = explore(
        RUNNING, lambda world: {"late": driver(1)(world), "standby": promoting("standby")(world)}, preemptions=2
    )

    assert ends["FINISHED, 0 launched"] == ends["schedules"]


def client_of(world: World) -> JobClient:
    context: Any = world.job(world.session("a person"))
    return JobClient(context)


@pytest.mark.parametrize("request_it", [JobClient.request_hand_over, JobClient.request_fail_over])
def test_a_takeover_of_a_lost_job_is_refused(world: World, request_it: Callable[..., Any]) -> None:
    with pytest.raises(JobStateError, match="has no leader"):
        request_it(client_of(world), operation_id="op", requested_by="a person")


def test_a_hand_over_without_a_ready_standby_driver_is_refused_before_it_is_requested() -> None:
    world = RUNNING.world()
    leading(world)
    client = client_of(world)

    with pytest.raises(JobStateError, match="no standby driver that is ready"):
        client.request_hand_over(operation_id="op", requested_by="a person")

    assert client.operation("op") is None


def test_a_rehearsed_loss_that_no_process_would_recover_is_refused() -> None:
    world = prepare(led=False, restart_in_place=False).world()
    leading(world)
    client = client_of(world)

    with pytest.raises(JobStateError, match="would stay lost"):
        client.request_fail_over(operation_id="op", requested_by="a person")
    assert client.operation("op") is None

    assert StandbyStore(world.session("standby"), PATHS, 1).join(a_standby("standby"), 1)
    client.request_fail_over(operation_id="op", requested_by="a person")
    assert client.operation("op") is not None


@pytest.mark.parametrize("schedules", [300, pytest.param(50_000, marks=[pytest.mark.hours, pytest.mark.timeout(3600)])])
def test_random_schedules_end_with_one_result_and_attempts_without_a_gap(schedules: int) -> None:
    counts = sum(map(random_takeovers.play, range(schedules)), Counter[str]())

    print(dict(counts))
    assert counts["promoted"] > schedules / 6
    assert counts["CANCELED, 0 launched"] > schedules / 60
