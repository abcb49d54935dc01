"""Every order of grant, revoke, submit, finish and recover: real code on the fake ensemble (``tests.fake.orders``)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.fake.jobs import World
from tests.fake.orders import (
    LOST,
    RECOVERED,
    RUNNING,
    after_the_end,
    canceling,
    driver,
    explore,
    leading,
    quick,
    recovering,
    revoking,
    submit_again,
    submitting,
)


pytestmark = pytest.mark.timeout(900)  # seconds of CPU on a quiet machine; a busy one takes many times that


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with quick(monkeypatch):
        yield


# Two actors, all orders. Of a pair with thousands, `make test` takes those with four preemptions at most.

MANY = pytest.mark.parametrize(
    "preemptions", [pytest.param(4, id="four-preemptions"), pytest.param(None, id="all", marks=pytest.mark.hours)]
)


def test_a_deposed_leader_that_finishes_while_its_successor_does() -> None:
    """The race of FLINK-2354: granted there before it is revoked here, and the job ends in between."""

    def cast(world: World) -> dict[str, Callable[[], object]]:
        zombie, finish = leading(world)
        submit_again(world)
        successor = driver(2)(world)
        revoke = revoking(world, zombie)

        def take_over() -> None:
            revoke()
            successor()

        return {"zombie": finish, "successor": take_over}

    ends = explore(RUNNING, cast)

    assert ends["FINISHED, 0 launched"] == ends["schedules"]
    assert {"zombie: done", "zombie: FencedError", "successor: done", "successor: JobStateError"} <= set(ends)


def test_a_leader_that_finishes_while_it_is_revoked_and_recovered() -> None:
    def cast(world: World) -> dict[str, Callable[[], object]]:
        leader, finish = leading(world)
        revoke, recovery = revoking(world, leader), recovering("operator")(world)

        def revoke_and_recover() -> None:
            revoke()
            recovery()

        return {"leader": finish, "operator": revoke_and_recover}

    ends = explore(RUNNING, cast)

    assert ends["FINISHED, 0 launched"]
    assert ends["live, 1 launched"]


def test_two_that_recover_one_loss() -> None:
    ends = explore(LOST, lambda world: {"one": recovering("one")(world), "other": recovering("other")(world)})

    assert ends["live, 1 launched"] == ends["schedules"]


@pytest.mark.hours
def test_a_recovery_while_the_run_is_canceled() -> None:
    ends = explore(LOST, lambda world: {"operator": recovering("operator")(world), "cancel": canceling(world)})

    assert ends["CANCELED, 0 launched"]
    assert ends["CANCELED, 1 launched"]


@pytest.mark.slow
@MANY
def test_a_driver_that_is_granted_while_its_run_is_canceled(preemptions: int | None) -> None:
    ends = explore(
        RECOVERED, lambda world: {"driver": driver(2)(world), "cancel": canceling(world)}, preemptions=preemptions
    )

    assert ends["FINISHED, 0 launched"]
    assert ends["CANCELED, 0 launched"]


def test_a_submission_while_the_run_before_it_finishes() -> None:
    ends = explore(
        RUNNING, lambda world: {"leader": leading(world)[1], "submit": submitting("request-2", RUNNING)(world)}
    )

    assert ends["submit: JobStateError"]
    assert ends["submit: done"]


@pytest.mark.hours
def test_two_submissions_of_the_next_run() -> None:
    ends = explore(
        RUNNING,
        lambda world: {
            "one": after_the_end(world, submitting("request-2", RUNNING)),
            "other": submitting("request-3", RUNNING)(world),
        },
    )

    assert ends["FINISHED, 1 launched"] == ends["schedules"]


@MANY
def test_a_late_driver_while_its_loss_is_recovered(preemptions: int | None) -> None:
    """The launch of attempt 1 looked lost: it may come up while attempt 2 is made, and only one of them may lead."""
    ends = explore(
        LOST,
        lambda world: {"late": driver(1)(world), "operator": recovering("operator")(world)},
        preemptions=preemptions,
    )

    assert ends["FINISHED, 0 launched"]
    assert ends["live, 1 launched"]


# Three actors, at most two preemptions.


def test_finish_revoke_and_cancel() -> None:
    def cast(world: World) -> dict[str, Callable[[], object]]:
        leader, finish = leading(world)
        revoke, recovery, cancel = revoking(world, leader), recovering("operator")(world), canceling(world)

        def revoke_and_recover() -> None:
            revoke()
            recovery()

        return {"leader": finish, "operator": revoke_and_recover, "cancel": cancel}

    ends = explore(RUNNING, cast, preemptions=2)

    assert ends["FINISHED, 0 launched"]
    assert ends["CANCELED, 0 launched"]


def test_two_recoveries_and_the_driver_that_was_lost() -> None:
    ends = explore(
        LOST,
        lambda world: {
            "one": recovering("one")(world),
            "other": recovering("other")(world),
            "late": driver(1)(world),
        },
        preemptions=2,
    )

    assert ends["live, 1 launched"]
    assert ends["FINISHED, 0 launched"]


@pytest.mark.hours
def test_submit_recover_and_finish() -> None:
    ends = explore(
        RECOVERED,
        lambda world: {
            "driver": driver(2)(world),
            "operator": recovering("operator")(world),
            "submit": submitting("request-2", RECOVERED)(world),
        },
        preemptions=2,
    )

    assert ends["submit: JobStateError"]
    assert ends["submit: done"]
