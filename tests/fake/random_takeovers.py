"""Random schedules of all that acts on a lost run: standby drivers, recoveries, stops, cancels, drivers, a new run.

Each actor is the real code on the fake ensemble. A seed decides which actors there are, which one goes on at each of
their requests, and which transactions lose their answer.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from airflow_provider_ha.coordination.coordinator import Create, Delete
from airflow_provider_ha.errors import CoordinationError, JobStateError, LeadershipError
from airflow_provider_ha.jobs.model import LeaderInfo
from airflow_provider_ha.jobs.recovery.transactions import claim, new_submission
from airflow_provider_ha.jobs.runs.run_store import SubmissionView
from airflow_provider_ha.jobs.submit.requests import LostRunPolicy
from tests.fake import orders
from tests.fake.jobs import PATHS, World
from tests.fake.orders import LOST, RUNNING, Play, check_history, describe, live_runs
from tests.support.fake.schedule import Actor, Schedule


_GOES_ON = 0.5  # how often the actor that went last goes on
_LOST_ANSWERS = 0.02  # how often the next transaction loses its answer
_LOOKS = 4  # of a standby driver that finds the takeover not due


def claiming(world: World) -> Callable[[], object]:
    """Be the supervisor that claims the next attempt of the run, whose driver then leads."""
    session = world.session("supervisor")
    job = world.job(session)
    newest = job.runs.get(1).submissions[-1].submission.attempt
    lost = job.snapshot().epoch or None

    def run() -> None:
        submission = new_submission(job, newest + 1, by="in place", engine="local", lost_epoch=lost)
        if not claim(job, 1, submission):
            raise JobStateError("another process was faster")
        leadership = world.lead(job, run=1, attempt=newest + 1)
        world.finish(job, leadership, run=1)
        leadership.release()
        session.close()

    return run


def persistent(play: Play) -> Play:
    """Let a standby driver look again while the takeover is not due, as it does each few seconds."""

    def made(world: World) -> Callable[[], object]:
        take_over = play(world)

        def run() -> None:
            for _ in range(_LOOKS - 1):
                try:
                    take_over()
                except JobStateError as error:
                    if "not due" not in error.message:
                        raise
                else:
                    return
            take_over()

        return run

    return made


def _new_run(world: World) -> Callable[[], object]:
    """Submit another graph, which ends the lost run."""
    return orders.submitting("request-2", LOST, LostRunPolicy.RESTART)(world)


CAST: dict[str, Play] = {
    "standby-1": persistent(orders.promoting("standby-1")),
    "standby-2": persistent(orders.promoting("standby-2", is_ready=True)),
    "cluster leader": orders.recovering("cluster leader"),
    "task": orders.recovering("task"),
    "supervisor": claiming,
    "late driver": orders.driver(1),
    "cancel": orders.canceling,
    "stop": orders.stopping("stop"),
    "new run": _new_run,
}


def play(seed: int) -> Counter[str]:
    """Play one schedule, check how it ends, and count.

    :raises AssertionError: An invariant does not hold; the text names the seed.
    """
    rng = random.Random(seed)
    prepared = rng.choice((LOST, LOST, LOST, RUNNING))
    world = prepared.world(seed=seed)
    # A driver leads once, and a supervisor claims the next attempt when its driver is dead.
    left_out = {"standby-1", "late driver" if prepared is LOST else "supervisor"}
    names = ["standby-1", *rng.sample(sorted(CAST.keys() - left_out), rng.randint(1, 4))]
    plays = {name: CAST[name](world) for name in names}
    world.ensemble.history.clear()
    live = live_runs(world)
    schedule = Schedule(world.ensemble)
    lossy = rng.random() < 0.5

    def choose(ready: Sequence[Actor], last: Actor | None) -> Actor:
        if lossy and rng.random() < _LOST_ANSWERS:
            world.ensemble.drop_reply()
        return last if last is not None and last in ready and rng.random() < _GOES_ON else rng.choice(list(ready))

    for name, function in plays.items():
        schedule.actor(name, function)
    schedule.run(choose)
    try:
        check(world, schedule, live, lossy=lossy)
        check_leaders(world, lost=prepared is LOST)
    except AssertionError as error:
        raise AssertionError(f"{error}; seed {seed}, {', '.join(names)}") from error
    counts = Counter({"schedules": 1, describe(world): 1, "with lost answers": int(lossy)})
    counts["promoted"] = sum(each.submission.standby for each in submissions(world))
    return counts


def check(world: World, schedule: Schedule, live: set[int], *, lossy: bool) -> None:
    """Check how a schedule has ended."""
    expected = (LeadershipError, JobStateError) + ((CoordinationError,) if lossy else ())
    for actor in schedule.actors:
        assert actor.done, f"{actor} hangs at {actor.request}"
        assert actor.error is None or isinstance(actor.error, expected), repr(actor.error)
    epochs = [leadership.epoch for leadership in world.leaderships]
    assert len(set(epochs)) == len(epochs), f"epochs {epochs} were granted twice"
    launched = [each for each in world.engine.launched if each[1]]
    assert len(set(launched)) == len(launched), f"{launched} were launched twice"
    check_history(world, live)
    attempts = [each.submission.attempt for each in submissions(world)]
    assert attempts == list(range(1, len(attempts) + 1)), f"attempts {attempts}"


def check_leaders(world: World, *, lost: bool) -> None:
    """Check that each driver that led is a submission, claimed the loss before it, and waits no longer as a standby.

    A process that concludes a run takes the lock as well: the loss is then that of its epoch.

    :param lost: Whether attempt 1 led in epoch 1 before the schedule.
    """
    made = {each.submission.attempt: each.submission for each in submissions(world)}
    attempt, epochs = (1, [1]) if lost else (0, [])
    for accepted in world.ensemble.history:
        for op in accepted.ops:
            if op.path != PATHS.leader or not isinstance(op, Create):
                continue
            leader = LeaderInfo.from_bytes(op.data, source="leader")
            if leader.run != 1 or not leader.attempt:
                epochs.append(leader.epoch)
                continue
            assert leader.attempt in made, f"attempt {leader.attempt} leads without a submission"
            submission = made[leader.attempt]
            waits = PATHS.standby(1, submission.submission_id)
            assert not submission.standby or any(
                each.path == waits and isinstance(each, Delete) for each in accepted.ops
            ), f"{submission.submission_id} leads and waits"
            claimed = any(world.ensemble.tree.get(PATHS.recovery(epoch)) is not None for epoch in epochs)
            assert claimed or attempt in (0, leader.attempt), f"the loss of an epoch of {epochs} was not claimed"
            attempt, epochs = leader.attempt, [leader.epoch]


def submissions(world: World) -> tuple[SubmissionView, ...]:
    """Return the submissions of the first run."""
    return world.job(world.session("reader")).runs.get(1).submissions
